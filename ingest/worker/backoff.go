package worker

import (
	"time"
)

// backoff is when something that failed may be tried again. The zero backoff has not failed.
type backoff struct {
	fails int
	at    time.Time
}

// open reports whether the time has come.
func (b *backoff) open(now time.Time) bool { return !now.Before(b.at) }

// failed waits twice as long as the last time, from the first pause up to the longest, and not less than least. Those
// who failed together come back apart: spread, from 0 to 1, says how much of a quarter of the pause is added.
func (b *backoff) failed(now time.Time, first, longest, least time.Duration, spread float64) {
	if !b.open(now) { // of those who failed together one counts
		b.at = later(b.at, now.Add(least))
		return
	}
	pause := max(longest, first)
	if doubled := first << min(b.fails, maxDoublings); doubled < pause {
		pause = doubled
	}
	pause = max(pause, least)
	b.fails++
	b.at = now.Add(pause + time.Duration(spread*float64(pause)/4))
}

const maxDoublings = 16

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// spreads makes numbers from 0 to 1 that are as good as chance, and the same for the same seed.
type spreads struct{ state uint64 }

func (s *spreads) next() float64 {
	s.state += 0x9e3779b97f4a7c15 // splitmix64, by Sebastiano Vigna
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
