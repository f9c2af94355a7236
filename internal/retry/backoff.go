package retry

import (
	"math/rand/v2"
	"time"
)

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
