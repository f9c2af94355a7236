package rollups_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// Where a tenant has more metrics than may have rollups, the named ones come first, in their order, then the others by
// name. Rebuild removes the rollups of what is not chosen any more.
func TestMetricsByUse(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(5, 27)))
	w.calm = true
	for range 60 {
		w.store()
	}
	w.now = w.now.Add(48 * time.Hour)
	writer := func(first ...string) *rollups.Writer {
		writer, err := rollups.New(rollups.Config{
			Chunks: w.chunks, Rollups: w.rollups, Tenants: func() []tenant.Tenant { return []tenant.Tenant{w.tenant} },
			Now: func() time.Time { return w.now }, Margin: margin, Hold: time.Hour, MaxMetrics: 1, Days: 30, First: first,
			Name:  func() string { w.names++; return fmt.Sprintf("b%d", w.names) },
			Sleep: func(context.Context, time.Duration) error { return nil },
		})
		require.NoError(t, err)
		return writer
	}
	metrics := func(writer *rollups.Writer) (chosen, without []string) {
		t.Helper()
		for _, target := range writer.TargetsOf(day) {
			s, err := writer.Status(t.Context(), target)
			require.NoError(t, err)
			for _, l := range s.Metrics {
				require.Positive(t, l.Documents)
				chosen = append(chosen, l.Metric)
			}
			without = append(without, s.Without...)
		}
		return slices.Compact(chosen), without
	}
	byName := writer()
	byName.Once(t.Context())
	chosen, without := metrics(byName)
	require.Equal(t, []string{"odometer"}, chosen)
	require.Contains(t, without, "velocity")
	for _, step := range []struct {
		first []string
		want  string
	}{
		{[]string{"velocity", "odometer"}, "velocity"},
		{[]string{"odometer", "velocity"}, "odometer"},
		{[]string{"nobody", "velocity"}, "velocity"},
	} {
		writer := writer(step.first...)
		writer.Once(t.Context())
		for _, target := range writer.TargetsOf(day) {
			_, err := writer.Rebuild(t.Context(), target)
			require.NoError(t, err)
		}
		chosen, _ := metrics(writer)
		require.Equal(t, []string{step.want}, chosen)
		for _, target := range writer.TargetsOf(day) {
			for _, family := range rollup.AllFamilies {
				other := map[string]string{"velocity": "odometer", "odometer": "velocity"}[step.want]
				key := store.RollupKey{Container: "rollups-2026-11", TenantShard: target.TenantShard,
					Name: rollup.Key(other, family, rollup.Minute)}
				_, err := w.rollups.ScanRollups(t.Context(), store.RollupScan{Key: key,
					Range: telemetry.Range{From: day.Start(), To: day.End() + 1}},
					func([]byte) error { return errors.New("documents of a metric that lost its rollups") })
				require.NoError(t, err)
			}
		}
	}
}
