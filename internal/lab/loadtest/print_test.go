package loadtest_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A report with everything that can stand in one: figures that are not round, both models, a partition that
// is nearly idle, a layout that is not throttled.
func TestPrint(t *testing.T) {
	report := loadtest.Report{
		Devices: 1200, IntervalSeconds: 1, HoldSeconds: 12 * 3600, WindowSeconds: 5400, SampleSeconds: 60,
		Seed: 7, Model: "step", OtherModel: "slope", PhysicalPartitions: 5,
		Outcomes: []loadtest.Outcome{{Scenario: loadtest.Whale, Results: []loadtest.Result{
			{
				Layout: loadtest.ByDate, Offered: 1200, Accepted: 305.55, PerMillion: 687_000,
				ByModel:        ru.Interval{Low: 610_000, Likely: 687_000, Other: 687_000, High: 690_000},
				DollarsByModel: ru.Interval{Low: 537.28, Likely: 607.36, Other: 607.36, High: 613.2},
				Spread:         []float64{0, 0, 1, 0, 0}, Hottest: 5, Needed: 10305, Bought: 10400, Dollars: 607.36,
				Throttled:   0.8523,
				SecondHolds: 302.8,
			},
			{
				Layout: loadtest.ByDevice, Offered: 1200, Accepted: 1199.9, PerMillion: 655_000,
				ByModel:        ru.Certain(655_000),
				DollarsByModel: ru.Certain(578.16),
				Spread:         []float64{0.188, 0.212, 0.2, 0.195, 0.205}, Hottest: 1.06, Needed: 9825, Bought: 9900,
				Dollars:   578.16,
				Throttled: 0.0021, SecondHolds: 302,
			},
			{
				Layout: loadtest.Binnacle, Offered: 1200, Accepted: 1180, PerMillion: 380,
				Spread: []float64{0.004, 0.2725, 0.24, 0.2335, 0.25}, Hottest: 1.3625, Needed: 5.7, Bought: 400, Dollars: 23.36,
				ByModel:        ru.Interval{Low: 255, Likely: 380, Other: 260, High: 384.4},
				DollarsByModel: ru.Certain(23.36),
				SecondHolds:    5.9, Journaled: 0.95, Published: 25.9, Throttled: 0.002,
			},
			{
				Layout: loadtest.Balanced, Offered: 1200, Accepted: 1200, PerMillion: 380,
				Spread: []float64{0.198, 0.204, 0.2, 0.199, 0.199}, Hottest: 1.02, Needed: 5.7, Bought: 400, Dollars: 23.36,
				ByModel:        ru.Interval{Low: 255, Likely: 380, Other: 260, High: 384.4},
				DollarsByModel: ru.Certain(23.36),
				SecondHolds:    5.9, Journaled: 0.95, Published: 25.9,
				Epochs: 2, Keys: &loadtest.Keys{Tenant: "tenant-0", Share: 0.803, Before: 4, After: 10},
			},
		}}},
		Paces: []loadtest.PaceResult{
			{Devices: 10, Metrics: 10, IntervalSeconds: 1, PerDay: 19.04, Readings: 4548.4, DocumentBytes: 35.2 * 1024,
				PerMillion: 314.2, ByModel: ru.Interval{Low: 190, Likely: 314.2, Other: 204.6, High: 320},
				Journaled: 0.93, Published: 25.9},
			{Devices: 200, Metrics: 10, IntervalSeconds: 60, PerDay: 1, Readings: 1440, DocumentBytes: 11.9 * 1024,
				PerMillion: 705, ByModel: ru.Interval{Low: 600, Likely: 705, Other: 640, High: 705},
				Journaled: 1.7, Published: 25.8},
			{Devices: 500, Metrics: 3, IntervalSeconds: 300, PerDay: 1, Readings: 288, DocumentBytes: 1.24 * 1024,
				PerMillion: 8264.4, ByModel: ru.Interval{Low: 7900, Likely: 8264.4, Other: 8264.4, High: 8264.4},
				Journaled: 14.04, Published: 50.3},
		},
		Flood: &loadtest.FloodReport{
			Flood: loadtest.Flood{Rate: 4800, Limit: 300, For: 30 * time.Second, HeldFor: 5 * time.Minute, Takes: 4000},
			Cases: []loadtest.FloodResult{
				{Case: "quiet alone", P50: 0.00025, P99: 0.00025, Longest: 0.00031, PerMillion: 42929, Floor: 60},
				{Case: "no limit", P50: 3.7, P99: 17.3, Longest: 18, PerMillion: 42929, Lag: 29353, Until: 7.8, Floor: 67,
					Sent: 4800, Admitted: 3855, Stored: 179996},
				{Case: "limit, delay", P50: 0.0003, P99: 0.12, Longest: 0.164, PerMillion: 42994, Lag: 821, Floor: 360.2,
					Sent: 4800, Admitted: 300, Deferred: 173796, DeferredSeconds: 310, Refused: 41960, Stored: 138036},
				{Case: "limit, refuse", P50: 0.0004, P99: 0.154, Longest: 0.163, PerMillion: 42929, Lag: 813, Floor: 60.2,
					Sent: 4800, Admitted: 300, Refused: 131997, Stored: 47999},
			},
		},
	}
	var got bytes.Buffer
	require.NoError(t, loadtest.Print(&got, report, true))
	const golden = "testdata/report.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())

	report.Usual = &loadtest.PaceResult{PerMillion: 439, DocumentBytes: 34 << 10}
	report.Paces, report.Flood = nil, nil
	var short bytes.Buffer
	require.NoError(t, loadtest.Print(&short, report, false))
	require.Less(t, strings.Count(short.String(), "\n"), 60)
	for _, want := range []string{"With Binnacle all readings are accepted, for ",
		"Ingesters hold 12 hours by default: then a million",
		"take 439 RU (modelled), in chunks of 34 KB", "--details prints"} {
		require.Contains(t, strings.Join(strings.Fields(short.String()), " "), want)
	}
	require.NotContains(t, short.String(), "physical partition 0")
}
