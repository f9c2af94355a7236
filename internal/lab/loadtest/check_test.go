package loadtest_test

import (
	"testing"

	"binnacle/internal/lab/loadtest"

	"github.com/stretchr/testify/require"
)

// Each promise that the figures do not keep is named, and layouts that are compared with may be as they are.
func TestCheck(t *testing.T) {
	of := func(change func(r *loadtest.Report, balanced *loadtest.Result)) []string {
		balanced := loadtest.Result{Layout: loadtest.Balanced, PerMillion: 2000, Hottest: 1.1,
			Trace: &loadtest.Trace{Waited: []float64{0, 1}}, Keys: &loadtest.Keys{}}
		r := loadtest.Report{IntervalSeconds: 10, HoldSeconds: 3600}
		change(&r, &balanced)
		r.Outcomes = []loadtest.Outcome{{Scenario: loadtest.Whale, Results: []loadtest.Result{
			{Layout: loadtest.ByDate, PerMillion: 700_000, Hottest: 5, Throttled: 0.8},
			{Layout: loadtest.Hundred, PerMillion: 13_000},
			{Layout: loadtest.Binnacle, PerMillion: 2000, Hottest: 4}, balanced,
		}}}
		return r.Check()
	}
	require.Empty(t, of(func(*loadtest.Report, *loadtest.Result) {}))
	for want, change := range map[string]func(*loadtest.Report, *loadtest.Result){
		"1.25 times the mean": func(_ *loadtest.Report, x *loadtest.Result) { x.Hottest = 1.25 },
		"2 % of the requests": func(_ *loadtest.Report, x *loadtest.Result) { x.Throttled = 0.02 },
		"waited for 61 s":     func(_ *loadtest.Report, x *loadtest.Result) { x.Trace.Waited[1] = 61 },
		"takes 1/175":         func(_ *loadtest.Report, x *loadtest.Result) { x.PerMillion = 4000 },
	} {
		faults := of(change)
		require.Len(t, faults, 1)
		require.Contains(t, faults[0], want)
	}
	require.Empty(t, of(func(r *loadtest.Report, x *loadtest.Result) { r.IntervalSeconds, x.PerMillion = 60, 4000 }))
}

// Keys are to follow a tenant that grows from the second day on.
func TestCheckOfDays(t *testing.T) {
	of := func(days ...loadtest.Day) []string {
		return loadtest.Report{Outcomes: []loadtest.Outcome{{Scenario: loadtest.Explodes, Results: []loadtest.Result{
			{Layout: loadtest.Binnacle, Days: []loadtest.Day{{2, 4}, {2, 4}}}, {Layout: loadtest.Balanced, Days: days},
		}}}}.Check()
	}
	require.Empty(t, of(loadtest.Day{2.1, 4}, loadtest.Day{1.1, 10}))
	require.Len(t, of(loadtest.Day{2.1, 4}, loadtest.Day{1.3, 10}), 1)
	require.Len(t, of(loadtest.Day{1.1, 4}, loadtest.Day{1.1, 4}), 1)
}

// Where more comes than is foreseen, keys as they are may have a fifth more answered 429 than keys for that load.
func TestCheckOfSurges(t *testing.T) {
	of := func(s loadtest.Scenario, throttled, foreseen float64) []string {
		return loadtest.Report{Outcomes: []loadtest.Outcome{{Scenario: s, Results: []loadtest.Result{
			{Layout: loadtest.Binnacle, Throttled: throttled}, {Layout: loadtest.Balanced, Throttled: foreseen},
		}}}}.Check()
	}
	require.Empty(t, of(loadtest.Reconnect, 0.12, 0.1))
	require.Len(t, of(loadtest.Reconnect, 0.13, 0.1), 1)
	require.Empty(t, of(loadtest.Reconnect, 0.004, 0), "what steady scenarios may have is no fault")
	require.Len(t, of(loadtest.Whale, 0.12, 0.1), 2)
}
