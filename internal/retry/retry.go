// Package retry waits between attempts: each pause is twice the one before, up to a bound, with a random spread so
// that callers that failed together do not return together. The caller decides what is worth another attempt.
//
// Pauses are timers of package time, so that a test inside a synctest bubble takes no time for them.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Policy sets the lengths of pauses.
type Policy struct {
	First time.Duration
	Max   time.Duration
}

// spread makes a pause anything from half of its length to one and a half.
const spread = 0.5

// Begin returns the pauses of an operation that is about to be tried for the first time.
func (p Policy) Begin() *Pauses { return &Pauses{policy: p} }

// Pause returns the length of the pause after a number of others, for callers with a random number in [0, 1).
func (p Policy) Pause(others int, chance float64) time.Duration {
	pause := min(p.First<<min(others, maxDoublings), max(p.First, p.Max))
	return time.Duration((1 - spread + 2*spread*chance) * float64(pause))
}

// Pauses are the pauses between the attempts of one operation. They belong to one goroutine.
type Pauses struct {
	policy Policy
	count  int
}

// Next returns the length of the next pause, for callers that use it otherwise.
func (p *Pauses) Next(ctx context.Context) time.Duration {
	if lengthsOf(ctx) != nil {
		return p.next(0.5)
	}
	return p.next(rand.Float64())
}

func (p *Pauses) next(chance float64) time.Duration {
	p.count++
	return p.policy.Pause(p.count-1, chance)
}

// Wait waits for the next pause. It returns the context's error when that ends first.
func (p *Pauses) Wait(ctx context.Context) error { return Pause(ctx, p.Next(ctx)) }

type lengthsKey struct{}

// WithLengths returns a context in which chance does not spread pauses, and length decides how long each one is: a test
// that runs by a seed gives the same run each time.
func WithLengths(ctx context.Context, length func(time.Duration) time.Duration) context.Context {
	return context.WithValue(ctx, lengthsKey{}, length)
}

func lengthsOf(ctx context.Context) func(time.Duration) time.Duration {
	length, _ := ctx.Value(lengthsKey{}).(func(time.Duration) time.Duration)
	return length
}

// Count returns the number of pauses so far.
func (p *Pauses) Count() int { return p.count }

// Pause waits for d. It returns the context's error when that ends first.
func Pause(ctx context.Context, d time.Duration) error {
	if length := lengthsOf(ctx); length != nil {
		d = length(d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Permanent marks an error that another attempt would not resolve. errors.Is and errors.As see through it.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Do attempts until one attempt returns nil or a Permanent error, or the context ends. It returns the last error of an
// attempt that the context did not cut off, if there is one.
func (p Policy) Do(ctx context.Context, attempt func(context.Context) error) error {
	var last error
	for pauses := p.Begin(); ; {
		err := attempt(ctx)
		if err == nil {
			return nil
		}
		if final, ok := errors.AsType[permanent](err); ok {
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

// Backoff is the time from which on something that failed may be tried again. It has no timer: the caller passes the
// time. The zero Backoff has not failed.
type Backoff struct {
	Fails int
	At    time.Time
}

// Open reports whether the time has come.
func (b *Backoff) Open(now time.Time) bool { return !now.Before(b.At) }

// Schedule has the pauses between attempts: the first one, which doubles up to the longest, and never less than least.
// Jobs that failed together are retried apart: spread, from 0 to 1, is how much of a quarter of the pause is added.
type Schedule struct {
	First, Longest, Least time.Duration
	Spread                float64
}

// Fail begins the next pause.
func (b *Backoff) Fail(now time.Time, s Schedule) {
	// Jobs that failed together count as one.
	if !b.Open(now) {
		if least := now.Add(s.Least); least.After(b.At) {
			b.At = least
		}
		return
	}
	pause := max(s.Longest, s.First)
	if doubled := s.First << min(b.Fails, maxDoublings); doubled < pause {
		pause = doubled
	}
	pause = max(pause, s.Least)
	b.Fails++
	b.At = now.Add(pause + time.Duration(s.Spread*float64(pause)/4))
}

const maxDoublings = 16

// Spreads makes numbers from 0 to 1 that are as good as chance, and the same for the same seeds.
type Spreads = rand.Rand

// NewSpreads returns Spreads with two seeds.
func NewSpreads(a, b uint64) *Spreads { return rand.New(rand.NewPCG(a, b)) }
