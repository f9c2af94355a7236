package replay

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/kafka"
	"binnacle/internal/retry"

	"golang.org/x/time/rate"
)

// permanent reports whether another attempt does not mend an error: a topic that is not there, and Kafka's own, but for
// those it calls temporary. Everything else is the network, or a broker that is gone for a while.
func permanent(err error) bool {
	return errors.Is(err, errNoTopic) || kafka.IsPermanent(err)
}

// pauses between attempts to reach the broker.
var pauses = retry.Policy{First: 50 * time.Millisecond, Max: time.Second}

// persist tries until it works, or fails for good, or the time is over; then it returns the last error that has a
// reason.
func persist(ctx context.Context, budget time.Duration, attempt func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	err := pauses.Do(within, func(ctx context.Context) error {
		err := attempt(ctx)
		if permanent(err) {
			return retry.Permanent(err)
		}
		return err
	})
	if err != nil && ctx.Err() != nil && !permanent(err) {
		return context.Cause(ctx)
	}
	return err
}

// minWait is the shortest wait: at rates above one message per minWait, messages go in bursts.
const minWait = 5 * time.Millisecond

// pace returns what waits until the next message is due at a rate a second; 0 is none. It calls before if that takes a
// while.
func pace(perSecond float64, now func() time.Time) func(ctx context.Context, before func()) error {
	if perSecond == 0 {
		perSecond = float64(rate.Inf)
	}
	limit := rate.NewLimiter(rate.Limit(perSecond), 1)
	return func(ctx context.Context, before func()) error {
		at := now()
		left := limit.ReserveN(at, 1).DelayFrom(at)
		if left < minWait {
			return ctx.Err()
		}
		before()
		return retry.Pause(ctx, left)
	}
}
