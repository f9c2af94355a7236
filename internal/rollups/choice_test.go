package rollups_test

import (
	"slices"
	"testing"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/rollups"

	"github.com/stretchr/testify/require"
)

// Where a tenant has more metrics than may have rollups, the named ones come first, in their order, then the others by
// name. Rebuild removes the rollups of what is not chosen any more.
func TestMetricsByUse(t *testing.T) {
	w := newWorld(t, 3*time.Hour)
	w.fleet(4, 100, "odometer", "velocity", "weight")
	w.now = w.now.Add(48 * time.Hour)
	writer := func(first ...string) *rollups.Writer {
		return w.writer(func(c *rollups.Config) { c.Hold, c.MaxMetrics, c.Days, c.First = time.Hour, 1, 30, first })
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
				require.Zero(t, w.documents(target, rollup.Key(other, family, rollup.Minute)), "it lost its rollups")
			}
		}
	}
}
