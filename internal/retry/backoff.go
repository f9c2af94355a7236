package retry

import "time"

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
	if !b.Open(now) { // of jobs that failed together one counts
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

// Spreads makes numbers from 0 to 1 that are as good as chance, and the same for the same seed.
type Spreads struct{ State uint64 }

// Next returns the next number.
func (s *Spreads) Next() float64 {
	s.State += 0x9e3779b97f4a7c15 // splitmix64, by Sebastiano Vigna
	z := s.State
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return float64((z^z>>31)>>11) / (1 << 53)
}
