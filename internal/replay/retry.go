package replay

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// permanent tells errors that another attempt does not mend: a topic that is not there, and Kafka's own, but
// for those it calls temporary. Everything else is the network, or a broker that is gone for a while.
func permanent(err error) bool {
	var k kafka.Error
	return errors.Is(err, errNoTopic) || errors.As(err, &k) && !k.Temporary()
}

// retry tries until it works, or fails for good, or the time is over; then it returns the last error that
// tells something.
func retry(ctx context.Context, budget time.Duration, attempt func(context.Context) error) error {
	within, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	var last error
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := attempt(within)
		if err == nil || permanent(err) {
			return err
		}
		if last == nil || within.Err() == nil {
			last = err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-within.Done():
			timer.Stop()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if within.Err() != nil {
			return last
		}
	}
}
