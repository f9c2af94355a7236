package loadtest_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

// A split of the hottest physical partition changes nothing of what the load asks for. It helps a layout whose hot
// tenant has many keys below the first level, and harms one whose load is a single key, as all have less then.
func TestSplit(t *testing.T) {
	of := func(split bool) (loadtest.Report, map[loadtest.Layout]loadtest.Result) {
		cfg := small(func(c *loadtest.Config) {
			c.Scenarios, c.Split = []loadtest.Scenario{loadtest.Whale}, split
			c.Layouts = []loadtest.Layout{loadtest.ByDate, loadtest.ByDevice, loadtest.Binnacle}
			c.Devices, c.Hold, c.Window, c.Sample = 400, time.Minute, 20*time.Second, 20*time.Second
		})
		r, out := run(t, cfg), map[loadtest.Layout]loadtest.Result{}
		r.Command = cfg.Command("whale")
		for _, x := range r.Outcomes[0].Results {
			out[x.Layout] = x
		}
		return r, out
	}
	_, whole := of(false)
	r, split := of(true)
	for l, x := range split {
		require.Equal(t, whole[l].Spread, x.Spread, l)
		require.Equal(t, whole[l].Bought, x.Bought, l)
		require.Equal(t, whole[l].Enough, x.Enough, l)
		require.Empty(t, whole[l].Trace.Splits)
		require.Len(t, x.Trace.Splits, 1, l)
		require.Len(t, x.Trace.Partitions, 6, l)
		s := x.Trace.Splits[0]
		for c := range x.Trace.Stored { // the second half has done nothing before it was there
			if float64(c)*x.Trace.StepSeconds < s.At {
				require.Zero(t, x.Trace.Partitions[s.Partition+1].RUs[c], l)
			}
		}
	}
	date, device := split[loadtest.ByDate].Trace.Splits[0], split[loadtest.ByDevice].Trace.Splits[0]
	require.InDelta(t, 10, date.At, 0)
	require.Less(t, date.After, date.Before)
	require.Greater(t, device.After, device.Before)
	require.Less(t, split[loadtest.Binnacle].Throttled, 0.005)
	var page bytes.Buffer
	require.NoError(t, loadtest.HTML(&page, r))
	require.True(t, strings.Contains(page.String(), "that partition is split in two: before, "))
	require.True(t, strings.HasSuffix(r.Command, "--split --html report.html"), "a flag that is on has no value")

	cfg := loadtest.DefaultConfig()
	cfg.Scenarios, cfg.Split = []loadtest.Scenario{loadtest.MonthRoll}, true
	require.ErrorContains(t, cfg.Validate(), "a split is for scenarios with one container")
}
