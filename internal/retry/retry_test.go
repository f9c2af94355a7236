package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/retry"

	"github.com/stretchr/testify/require"
)

var policy = retry.Policy{First: 10 * time.Millisecond, Max: 80 * time.Millisecond}

func TestPausesDoubleUpToTheBound(t *testing.T) {
	const runs = 1000
	want := []time.Duration{10, 20, 40, 80, 80, 80}
	sums := make([]time.Duration, len(want))
	for range runs {
		pauses := policy.Begin()
		for i := range want {
			sums[i] += pauses.Next(t.Context())
		}
		require.Equal(t, len(want), pauses.Count())
	}
	for i, w := range want {
		require.InEpsilon(t, w*time.Millisecond, sums[i]/runs, 0.1)
	}
}

// Half to one and a half of the length, and not the same for all.
func TestPausesAreSpread(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 100 {
		d := policy.Begin().Next(t.Context())
		require.GreaterOrEqual(t, d, 5*time.Millisecond)
		require.LessOrEqual(t, d, 15*time.Millisecond)
		seen[d] = true
	}
	require.Greater(t, len(seen), 50)
}

// A bound below the first pause is none.
func TestMaxBelowFirstPause(t *testing.T) {
	pauses := retry.Policy{First: time.Second}.Begin()
	for range 100 {
		pause := pauses.Next(t.Context())
		require.GreaterOrEqual(t, pause, time.Second/2)
		require.LessOrEqual(t, pause, 3*time.Second/2)
	}
}

// The pauses of a caller that brings the chance are the same.
func TestPausesByChance(t *testing.T) {
	for i, want := range []time.Duration{10, 20, 40, 80, 80} {
		require.Equal(t, want*time.Millisecond, policy.Pause(i, 0.5))
		require.Equal(t, want*time.Millisecond/2, policy.Pause(i, 0))
	}
	require.Equal(t, 80*time.Millisecond, policy.Pause(1000, 0.5))
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		require.NoError(t, retry.Pause(ctx, 900*time.Millisecond))
		require.Equal(t, 900*time.Millisecond, time.Since(begun))
		require.ErrorIs(t, retry.Pause(ctx, time.Hour), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begun))
	})
}

func TestDo(t *testing.T) {
	lost := errors.New("connection lost")
	for name, c := range map[string]struct {
		answers []error // of the attempts; the last one stands for all later ones
		want    error
		tries   int // 0: as many as fit
	}{
		"success at once":       {[]error{nil}, nil, 1},
		"success in the end":    {[]error{lost, lost, lost, nil}, nil, 4},
		"what can't be mended":  {[]error{lost, retry.Permanent(context.DeadlineExceeded)}, context.DeadlineExceeded, 2},
		"until the time is out": {[]error{lost}, lost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				tries := 0
				err := policy.Do(ctx, func(context.Context) error {
					tries++
					return c.answers[min(tries, len(c.answers))-1]
				})
				require.Equal(t, c.want, err)
				if c.tries > 0 {
					require.Equal(t, c.tries, tries)
				} else {
					require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
				}
			})
		})
	}
}

// An attempt that the context cuts off says less than the one before it.
func TestDoReturnsLastAttemptError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		refused := errors.New("refused")
		tries := 0
		err := policy.Do(ctx, func(ctx context.Context) error {
			if tries++; tries == 1 {
				return refused
			}
			<-ctx.Done()
			return ctx.Err()
		})
		require.Equal(t, refused, err)
	})
}

func TestPermanentOfNil(t *testing.T) { require.NoError(t, retry.Permanent(nil)) }
