package loadtest_test

import (
	"testing"
	"time"

	"binnacle/internal/lab/loadtest"
	"binnacle/internal/settings"

	"github.com/stretchr/testify/require"
)

// flooded is a flood of a few seconds.
func flooded(change func(*loadtest.Flood)) loadtest.Config {
	cfg := loadtest.Config{Floods: true, Flood: loadtest.DefaultFlood()}
	settings.Defaults(&cfg)
	cfg.Flood.For, cfg.Flood.HeldFor = 6*time.Second, 40*time.Second
	if change != nil {
		change(&cfg.Flood)
	}
	return cfg
}

// A tenant that sends more than a partition takes makes its neighbours wait for as long as that lasts, and longer. With
// a limit they do not: what is above it waits, and goes on at the limit's pace, or is refused once it has waited for
// too long. The run itself fails unless each reading is stored or refused once in the end.
func TestLoudTenantDoesNotDelayNeighbours(t *testing.T) {
	cfg := flooded(nil)
	cases := run(t, cfg).Flood.Cases
	require.Len(t, cases, 5)
	for _, c := range cases {
		t.Logf("%+v", c)
		require.Zero(t, c.DeadLetters)
	}
	quiet, free, delay, refuse := cases[0], cases[1], cases[2], cases[3]
	require.Less(t, quiet.P99, 0.001)

	// What stands before a neighbour's reading is the loud one's burst as far as it comes faster than it is taken, a
	// turn's records and what is read again beside them.
	f := cfg.Flood
	burst := 10 * f.Limit / (f.Rate - f.Limit) * max(0, f.Rate+180-f.Takes) / f.Takes
	turn := (256*0.75 + 64) / f.Takes
	for _, c := range cases[2:4] {
		require.Less(t, c.P99, quiet.P99+burst+turn)
	}
	require.Greater(t, free.P50, 0.5)
	// It waits for as long as readings may, then for no longer than it takes to read them once more.
	require.GreaterOrEqual(t, delay.DeferredSeconds, f.HeldFor.Seconds())
	require.LessOrEqual(t, delay.DeferredSeconds, f.HeldFor.Seconds()+f.Rate*f.For.Seconds()*0.75/f.Takes)
	require.Positive(t, delay.Refused)
	require.Less(t, delay.Refused, refuse.Refused, "what waits may still be paid for")
	require.Greater(t, free.Stored, delay.Stored)
	require.Equal(t, free.Stored, delay.Stored+delay.Refused)
	require.Equal(t, free.Stored, refuse.Stored+refuse.Refused)

	// Without any limit it is deferred once the others have waited for half a second, and nothing of it is refused.
	fair := cases[4]
	require.Less(t, fair.P99, 0.6)
	require.Less(t, 2*fair.P50, free.P50)
	require.Positive(t, fair.Deferred)
	require.Zero(t, fair.Refused)
	require.Equal(t, free.Stored, fair.Stored)
	require.Less(t, fair.DeferredSeconds, 20.0)
}

// What the limit lets through in the time is never refused, and a flood is the same each time.
func TestReadingsWithinTheLimitAreNotRefused(t *testing.T) {
	short := flooded(func(f *loadtest.Flood) { f.For, f.Limit, f.HeldFor = 1500*time.Millisecond, 500, 15*time.Second })
	flood := run(t, short).Flood
	cases := flood.Cases
	require.Zero(t, cases[2].Refused)
	require.Positive(t, cases[2].Deferred)
	require.Equal(t, cases[1].Stored, cases[2].Stored)
	require.Equal(t, flood, run(t, short).Flood)
}
