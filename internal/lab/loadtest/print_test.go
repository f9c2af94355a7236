package loadtest_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// A report with everything that can stand in one: figures that are not round, a partition that
// is nearly idle, a layout that is not throttled.
func TestPrint(t *testing.T) {
	report := loadtest.Report{
		Devices: 1200, IntervalSeconds: 1, HoldSeconds: 12 * 3600, WindowSeconds: 5400, SampleSeconds: 60,
		Seed: 7, Model: "step", PhysicalPartitions: 5,
		Outcomes: []loadtest.Outcome{{Scenario: loadtest.Whale, Results: []loadtest.Result{
			{
				Layout: loadtest.ByDate, Offered: 1200, Accepted: 305.55, PerMillion: 687_000,
				Spread: []float64{0, 0, 1, 0, 0}, Hottest: 5, Needed: 10305, Bought: 10400, Dollars: 607.36,
				Throttled:   0.8523,
				SecondHolds: 302.8,
			},
			{
				Layout: loadtest.ByDevice, Offered: 1200, Accepted: 1199.9, PerMillion: 655_000,
				Spread: []float64{0.188, 0.212, 0.2, 0.195, 0.205}, Hottest: 1.06, Needed: 9825, Bought: 9900,
				Dollars:   578.16,
				Throttled: 0.0021, SecondHolds: 302,
			},
			{
				Layout: loadtest.Binnacle, Offered: 1200, Accepted: 1180, PerMillion: 380,
				Spread: []float64{0.004, 0.2725, 0.24, 0.2335, 0.25}, Hottest: 1.3625, Needed: 5.7, Bought: 400, Dollars: 23.36,
				SecondHolds: 5.9, Throttled: 0.002,
			},
			{
				Layout: loadtest.Balanced, Offered: 1200, Accepted: 1200, PerMillion: 380,
				Spread: []float64{0.198, 0.204, 0.2, 0.199, 0.199}, Hottest: 1.02, Needed: 5.7, Bought: 400, Dollars: 23.36,
				SecondHolds: 5.9,
				Epochs:      2, Keys: &loadtest.Keys{Tenant: "tenant-0", Share: 0.803, Before: 4, After: 10},
			},
		}}},
	}
	var got bytes.Buffer
	require.NoError(t, loadtest.Print(&got, report))
	const golden = "testdata/report.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}
