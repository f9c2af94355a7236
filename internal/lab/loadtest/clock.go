package loadtest

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is fleet time. One goroutine moves it; any may read it, since the SDK looks after its account
// in the background.
type clock struct{ nanos atomic.Int64 }

func newClock(at time.Time) *clock {
	c := &clock{}
	c.nanos.Store(at.UnixNano())
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// reach moves the clock to an instant, unless it is there already.
func (c *clock) reach(at time.Time) {
	if n := at.UnixNano(); n > c.nanos.Load() {
		c.nanos.Store(n)
	}
}

// sleep waits out a 429 for the adapter: it moves the clock.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.nanos.Add(int64(d))
	return ctx.Err()
}
