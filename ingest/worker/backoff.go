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

// pauses are those between attempts: the first one, which doubles up to the longest, and never less than least. Jobs
// that failed together are retried apart: spread, from 0 to 1, is how much of a quarter of the pause is added.
type pauses struct {
	first, longest, least time.Duration
	spread                float64
}

// failed begins the next pause.
func (b *backoff) failed(now time.Time, p pauses) {
	if !b.open(now) { // of jobs that failed together one counts
		b.at = later(b.at, now.Add(p.least))
		return
	}
	pause := max(p.longest, p.first)
	if doubled := p.first << min(b.fails, maxDoublings); doubled < pause {
		pause = doubled
	}
	pause = max(pause, p.least)
	b.fails++
	b.at = now.Add(pause + time.Duration(p.spread*float64(pause)/4))
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
