// Package retry waits between attempts: each pause is twice the one before, up to a bound, and spread by chance, so
// that those who failed together do not come back together. Everybody who tries again does it by this package; what
// is worth another attempt is the caller's affair.
//
// Pauses are timers of package time, so that a test inside a synctest bubble takes no time for them.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how long pauses are.
type Policy struct {
	First time.Duration // the first pause
	Max   time.Duration // what doubling leads to at most
	// Exact leaves out the spread, which makes a pause anything from half of its length to one and a half.
	Exact bool
}

const spread = 0.5

// Begin returns the pauses of an operation that is about to be tried for the first time.
func (p Policy) Begin() *Pauses {
	b := &backoff.ExponentialBackOff{
		InitialInterval: p.First, MaxInterval: max(p.First, p.Max), Multiplier: 2, RandomizationFactor: spread,
	}
	if p.Exact {
		b.RandomizationFactor = 0
	}
	b.Reset()
	return &Pauses{next: b}
}

// Pauses are those between the attempts of one operation. They belong to one goroutine.
type Pauses struct {
	next  *backoff.ExponentialBackOff
	count int
}

// Next returns the length of the next pause, for who has something else to do meanwhile.
func (p *Pauses) Next() time.Duration {
	p.count++
	return p.next.NextBackOff()
}

// Wait takes the next pause. The error is the context's when that ends first.
func (p *Pauses) Wait(ctx context.Context) error { return Pause(ctx, p.Next()) }

// Count is how many pauses there were.
func (p *Pauses) Count() int { return p.count }

// Pause waits for d, or until the context ends: then the error is the context's.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Permanent marks an error that another attempt would not mend. It hides nothing from errors.Is and errors.As.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Do makes attempts until one returns nil, or a Permanent error, or the context ends. It returns the last error of an
// attempt that was not cut off by the context, if there is one.
func (p Policy) Do(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	for pauses := p.Begin(); ; {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		var final permanent
		if errors.As(err, &final) {
			return final.error
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if pauses.Wait(ctx) != nil {
			return last
		}
	}
}
