package retry

import (
	"context"
	"sync"
	"time"
)

// RUPacer keeps requests at an average rate of request units: the caller waits after each request for the time that its
// charge takes at that rate. It is safe for any number of callers.
type RUPacer struct {
	Rate  float64 // RU/s; 0 is no limit
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error // Pause

	mu sync.Mutex
	// free is when all charges are paid.
	free time.Time
}

// Wait waits until a charge is paid. It returns the context's error when that ends first.
func (p *RUPacer) Wait(ctx context.Context, rus float64) error {
	if p.Rate == 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := p.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(rus / p.Rate * float64(time.Second)))
	pause := p.free.Sub(now)
	p.mu.Unlock()
	return p.Sleep(ctx, pause)
}
