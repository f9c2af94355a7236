package audit

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// pace keeps requests at a rate of request units a second, on average: what a page has cost is waited out after it.
type pace struct {
	rate float64 // 0 is no bound
	now  func() time.Time
	free time.Time // when all that was charged is paid
}

func (p *pace) wait(ctx context.Context, rus float64) error {
	if p.rate == 0 {
		return ctx.Err()
	}
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(rus / p.rate * float64(time.Second)))
	timer := time.NewTimer(p.free.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// progress shows on a terminal how far the audit is. Without a terminal it does nothing.
type progress struct{ bar *progressbar.ProgressBar }

func newProgress(w io.Writer, what string, steps int64) progress {
	if w == nil {
		return progress{}
	}
	return progress{progressbar.NewOptions64(max(steps, 1),
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)}
}

func (p progress) step() { p.add(1) }

func (p progress) add(n int64) {
	if p.bar != nil {
		_ = p.bar.Add64(n) // a terminal that is gone is no reason to stop
	}
}

func (p progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
