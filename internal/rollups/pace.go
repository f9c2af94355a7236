package rollups

import (
	"context"
	"sync"
	"time"
)

// pace keeps requests at a rate of request units a second, on average: what one has cost is waited out after it.
type pace struct {
	rate  float64 // 0 is no bound
	now   func() time.Time
	sleep func(context.Context, time.Duration) error

	mu   sync.Mutex
	free time.Time // when all that was charged is paid
}

func (p *pace) wait(ctx context.Context, rus float64) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(rus / p.rate * float64(time.Second)))
	pause := p.free.Sub(now)
	p.mu.Unlock()
	return p.sleep(ctx, pause)
}
