package rollups_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// Where there are more metrics than may have lanes, those get them that queries ask for; what is sealed is made anew
// when one is asked for much more than another, once a day, and what is left out is taken away.
func TestMetricsByUse(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(5, 27)))
	w.calm = true
	for range 60 {
		w.store()
	}
	var uses map[string]control.Use
	var failing error
	var asked []telemetry.Day
	writer, err := rollups.New(rollups.Config{
		Chunks: w.chunks, Rollups: w.views, Tenants: func() []control.Tenant { return []control.Tenant{w.tenant} },
		Now: func() time.Time { return w.now }, Margin: margin, Hold: time.Hour, MaxMetrics: 1, Days: 30,
		Name:  func() string { w.names++; return fmt.Sprintf("b%d", w.names) },
		Sleep: func(context.Context, time.Duration) error { return nil },
		Uses: func(_ context.Context, tenant string, since telemetry.Day) (map[string]control.Use, error) {
			require.Equal(t, "acme", tenant)
			asked = append(asked, since)
			return uses, failing
		},
	})
	require.NoError(t, err)
	lanes := func() (metrics map[string]int) {
		t.Helper()
		metrics = make(map[string]int)
		for _, target := range writer.TargetsOf(day) {
			s, err := writer.Status(t.Context(), target)
			require.NoError(t, err)
			for _, l := range s.Metrics {
				metrics[l.Metric] += l.Documents
				require.Equal(t, uses[l.Metric].Saved, s.Uses[l.Metric].Saved)
			}
		}
		return metrics
	}
	// later is a pass some time later, with what queries have asked for until then, and which metrics have lanes then.
	later := func(d time.Duration, some map[string]control.Use) (metrics []string) {
		t.Helper()
		uses = some
		w.now = w.now.Add(d)
		writer.Once(t.Context())
		for metric, documents := range lanes() {
			require.Positive(t, documents)
			metrics = append(metrics, metric)
		}
		return metrics
	}
	queries := func(odometer, velocity int64) map[string]control.Use {
		return map[string]control.Use{"odometer": {Queries: odometer, Saved: 7}, "velocity": {Queries: velocity, Saved: 8}}
	}
	odometer, velocity := []string{"odometer"}, []string{"velocity"}
	require.Equal(t, odometer, later(48*time.Hour, nil), "by name")
	require.Equal(t, telemetry.DayOf(w.now.UnixMilli())-7, asked[0])
	require.Equal(t, odometer, later(2*time.Hour, queries(0, 9)), "too few to seal anew")
	require.Equal(t, odometer, later(2*time.Hour, queries(40, 79)), "not so much more")
	require.Equal(t, velocity, later(2*time.Hour, queries(40, 80)))
	for _, target := range writer.TargetsOf(day) {
		for _, family := range rollup.AllFamilies {
			key := store.RollupKey{Container: "views-2026-11", TenantShard: target.TenantShard,
				Name: rollup.Key("odometer", family, rollup.Minute)}
			_, err := w.views.ScanRollups(t.Context(), store.RollupScan{Key: key,
				Range: telemetry.Range{From: day.Start(), To: day.End() + 1}},
				func([]byte) error { return errors.New("a lane that nobody needs") })
			require.NoError(t, err)
		}
	}
	require.Equal(t, velocity, later(2*time.Hour, queries(400, 0)), "not twice a day")
	require.Equal(t, odometer, later(25*time.Hour, queries(400, 0)))
	failing = errors.New("the account is away")
	require.Equal(t, odometer, later(25*time.Hour, queries(0, 4000)), "what is not known changes nothing")
}
