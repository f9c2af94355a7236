package store_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// Whatever answers take, and however far the machine's clock is off, the clock is that of the service to a second and
// half the time of a request, and nothing is corrected that may be right.
func TestClockFollowsTheService(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, off := range []time.Duration{0, 300 * time.Millisecond, -50 * time.Second, 70 * time.Second, -5 * time.Hour,
		300 * 24 * time.Hour} {
		service := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		own := func() time.Time { return service.Add(off) }
		c := store.NewClock(own)
		require.ErrorIs(t, c.Check(), store.ErrClockUnknown)
		require.Equal(t, own(), c.Now())
		for range 200 {
			sent := own()
			there, back := time.Duration(r.IntN(4000))*time.Millisecond, time.Duration(r.IntN(4000))*time.Millisecond
			service = service.Add(there)
			date := service.Truncate(time.Second)
			service = service.Add(back)
			c.Answered(sent, own(), date)
			require.InDelta(t, 0, c.Now().Sub(service).Seconds(), 9)
			if off == 0 {
				require.Equal(t, own(), c.Now())
			}
			service = service.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
		}
		require.InDelta(t, 0, c.Now().Sub(service).Seconds(), 1.1, "off by %s", off)
		require.InDelta(t, -off.Seconds(), c.Offset().Seconds(), 1.1)
		if off.Abs() < store.MaxClockOffset {
			require.NoError(t, c.Check())
			continue
		}
		var wrong *store.ClockError
		require.ErrorAs(t, c.Check(), &wrong)
		require.ErrorContains(t, wrong, own().Format(time.RFC3339))
		require.ErrorContains(t, wrong, wrong.Service.Format(time.RFC3339))
	}
}

// A clock that is set between two answers is noticed at once where time is known to pass otherwise, and else with the
// next answer.
func TestClockThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := time.Now().Round(0)
		ahead := time.Duration(0)
		c := store.NewClock(func() time.Time { return time.Now().Round(0).Add(ahead) })
		answer := func() {
			now := time.Now().Round(0).Add(ahead)
			c.Answered(now, now, time.Now())
		}
		answer()
		require.NoError(t, c.Check())
		ahead = 400 * 24 * time.Hour
		answer()
		require.Error(t, c.Check())
		require.InDelta(t, 0, c.Now().Sub(service).Seconds(), 1.1)
		ahead = 0
		answer()
		require.NoError(t, c.Check())

		// It was set while a request was under way: what the answer says of it is not known.
		began := time.Now()
		time.Sleep(time.Second)
		jumped := time.Now().Round(0).Add(time.Hour) // without the time that has passed
		c.Answered(began.Round(0), jumped, time.Now())
		require.InDelta(t, 0, time.Until(c.Now()).Seconds(), 1.1)
	})
}

// What is read later has no earlier time, though answers show that the machine's clock is ahead. A clock that was off
// by more goes back at once.
func TestClockDoesNotGoBack(t *testing.T) {
	for _, ahead := range []time.Duration{1500 * time.Millisecond, time.Hour} {
		service := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		clock := store.NewClock(func() time.Time { return service.Add(ahead) })
		before := clock.Now()
		for i := range 40 {
			own := service.Add(ahead)
			clock.Answered(own, own, service.Truncate(time.Second))
			now := clock.Now()
			require.False(t, now.Before(before) && (i > 0 || ahead < time.Minute), "%s after %s", now, before)
			before, service = now, service.Add(77*time.Millisecond)
		}
		require.InDelta(t, 0, clock.Now().Sub(service).Seconds(), 1)
	}
}
