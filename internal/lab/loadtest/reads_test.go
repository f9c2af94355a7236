package loadtest_test

import (
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

// Every layout answers the same questions, and what they cost follows from its keys: a device is asked under one of
// them, a tenant under all that it has.
func TestReads(t *testing.T) {
	cfg := small(func(c *loadtest.Config) {
		c.Scenarios, c.Reads, c.Hold = nil, true, time.Hour
		c.Layouts = []loadtest.Layout{loadtest.ByDevice, loadtest.Binnacle, loadtest.Balanced,
			loadtest.KeyHash}
	})
	r := map[loadtest.Layout]loadtest.ReadResult{}
	for _, x := range run(t, cfg).Reads.Layouts {
		r[x.Layout] = x
	}
	for l, x := range r {
		require.Positive(t, x.Latest.Milliseconds, l)
		require.LessOrEqual(t, x.Latest.Documents, 1, l)
		require.Greater(t, x.Panel.Milliseconds, 5.0, l)
	}
	keys := func(x loadtest.ReadResult) [2]int { return [2]int{x.Day.Keys, x.Panel.Keys} }
	require.Equal(t, [2]int{1, 1}, keys(r[loadtest.ByDevice]))
	require.Equal(t, [2]int{1, 20}, keys(r[loadtest.KeyHash]))
	require.Equal(t, [2]int{1, 4}, keys(r[loadtest.Binnacle]))
	require.Equal(t, [2]int{1, 10}, keys(r[loadtest.Balanced]))

	require.Equal(t, 288, r[loadtest.ByDevice].Day.Documents)
	require.Equal(t, 42*12, r[loadtest.ByDevice].Panel.Documents)
	require.Less(t, r[loadtest.Binnacle].Day.RUs, r[loadtest.ByDevice].Day.RUs/2)
}
