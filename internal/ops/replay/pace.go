package replay

import (
	"context"
	"time"

	"binnacle/internal/retry"
)

// pace keeps a rate, 0 being none.
type pace struct {
	rate  float64 // a second
	now   func() time.Time
	start time.Time
	count int
}

// minWait is the shortest wait: at rates above one message per minWait, messages go in bursts.
const minWait = 5 * time.Millisecond

// wait counts one and waits until it is due. before is called if that takes a while.
func (p *pace) wait(ctx context.Context, before func()) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	if p.count == 0 {
		p.start = p.now()
	}
	due := p.start.Add(time.Duration(float64(p.count) / p.rate * float64(time.Second)))
	p.count++
	left := due.Sub(p.now())
	if left < minWait {
		return ctx.Err()
	}
	before()
	return retry.Pause(ctx, left)
}
