package rollups_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/internal/rollups"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// watched is a writer of a world, alone, with metrics that are read. slept is called for each of its pauses.
func watched(w *world, slept func()) (*rollups.Writer, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	writer, err := rollups.New(rollups.Config{
		Chunks: w.chunks, Rollups: w.rollups, Tenants: func() []tenant.Tenant { return []tenant.Tenant{w.tenant} },
		Now: func() time.Time { return w.now }, Margin: margin, Hold: time.Hour, Days: 1, RUs: 1, Metrics: registry,
		Name:  func() string { w.names++; return fmt.Sprintf("b%d", w.names) },
		Sleep: func(context.Context, time.Duration) error { slept(); return nil },
	})
	require.NoError(w.t, err)
	return writer, registry
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
	w := newWorld(t, rand.New(rand.NewPCG(1, 2)))
	w.calm = true
	for range 20 {
		w.store()
	}
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
	w := newWorld(t, rand.New(rand.NewPCG(1, 1)))
	v := storetest.NewRollups(t)
	v.Now, w.rollups = w.rollups.Now, v
	writer, r := watched(w, func() {})
	writer.Once(t.Context())
	require.NoError(t, testutil.GatherAndCompare(r, strings.NewReader(fmt.Sprintf(`
# HELP binnacle_rollups_rounds_total Rounds over a key and day, by result: ok, error, lost to another writer, no-container.
# TYPE binnacle_rollups_rounds_total counter
binnacle_rollups_rounds_total{result="no-container"} %d
`, len(writer.Targets(w.now, 1)))), "binnacle_rollups_rounds_total"))
}
