package rollups_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// watched is a writer of a world, alone, with metrics that are read. slept is called for each of its pauses.
func watched(w *world, slept func()) (*rollups.Writer, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return w.writer(func(c *rollups.Config) {
		c.Hold, c.RUs, c.Metrics = time.Hour, 1, registry
		c.Sleep = func(context.Context, time.Duration) error { slept(); return nil }
	}), registry
}

// lag is what the gauge says.
func lag(t *testing.T, r *prometheus.Registry) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "binnacle_rollups_lag_seconds" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no such gauge")
	return 0
}

// A writer that succeeds always, and is too slow, lags; it says so while a pass goes on, and no more when it has
// caught up.
func TestSlowWriterLags(t *testing.T) {
	w := newWorld(t, 3*time.Hour)
	w.fleet(4, 100, "odometer", "velocity")
	slow := func() {}
	writer, r := watched(w, func() { slow() })
	writer.Once(t.Context())                                                 // of the day before
	due := time.UnixMilli(day.Start()).Add(4*time.Hour + time.Hour + margin) // blocks of four hours, and a hold
	w.now = due.Add(-time.Second)
	writer.Once(t.Context())
	require.Zero(t, lag(t, r), "none is due")
	w.now = due.Add(2 * time.Minute)
	most := 0.0
	slow = func() {
		w.now = w.now.Add(time.Second)
		most = max(most, lag(t, r))
	}
	writer.Once(t.Context())
	require.Positive(t, most, "of the first key, while others are made")
	require.GreaterOrEqual(t, lag(t, r), most)
	require.Greater(t, lag(t, r), 120.0)
	require.LessOrEqual(t, lag(t, r), w.now.Sub(due).Seconds())

	slow = func() {}
	w.now = w.now.Add(2 * time.Minute)
	writer.Once(t.Context())
	require.Zero(t, lag(t, r))
}

// That a month has no container for rollups is no failure: provision makes none, or not yet.
func TestMissingContainerIsNoError(t *testing.T) {
	w := newWorld(t, 3*time.Hour)
	v := storetest.NewRollups(t)
	v.Now, w.rollups = w.rollups.Now, v
	writer, r := watched(w, func() {})
	writer.Once(t.Context())
	_, err := writer.Round(t.Context(), writer.TargetsOf(day)[0])
	require.ErrorIs(t, err, store.ErrNoContainer)
	require.Zero(t, v.Calls(storetest.CreateRollup))
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(fmt.Sprintf(`
# HELP binnacle_rollups_rounds_total Rounds over a key and day, by result: ok, error, lost to another writer, no-container.
# TYPE binnacle_rollups_rounds_total counter
binnacle_rollups_rounds_total{result="no-container"} %d
`, len(writer.Targets(w.now, 1)))), "binnacle_rollups_rounds_total"))
}
