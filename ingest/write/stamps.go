package write

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/internal/retry"
	"binnacle/internal/stream"
	"time"
)

// stamps renews the mark of the partition (rule W9).
type stamps struct {
	cfg *Config

	candidate *stream.Mark // mark of a record for the next Stamp
	Unmarked  bool         // the stream has no mark of this partition: nothing may be created
	running   bool         // a Stamp is in flight
	at        time.Time    // time of the last Stamp
	retry     retry.Backoff
}

// Done takes a Stamp back.
func (s *stamps) Done(j *Stamp, now time.Time) {
	s.running = false
	if r := j.Outcome(); r.Fault != bins.None {
		s.candidate = &j.Mark
		s.retry.Fail(now, s.cfg.Retry(r.After))
		return
	}
	s.Unmarked, s.at, s.retry = false, now, retry.Backoff{}
}

// Offer makes a record's mark the candidate for the next Stamp, unless there is a candidate.
func (s *stamps) Offer(rec *admit.Record) {
	if s.candidate == nil && !s.running {
		m := rec.Mark()
		s.candidate = &m
	}
}

// Committed says up to where the log is committed, and returns a Stamp when one is due: the first one at once, because
// nothing is created before it, later ones for records that are committed (rule W9).
func (s *stamps) Committed(offset int64, now time.Time) *Stamp {
	m := s.candidate
	if m == nil || s.running || !s.retry.Open(now) || m.Offset > offset || m.Offset == offset && !s.Unmarked {
		return nil // everything below the first mark is stored or refused as well: a stream may begin again there
	}
	s.candidate = nil
	if !s.Unmarked && !s.at.IsZero() && now.Sub(s.at) < s.cfg.StampEvery {
		return nil
	}
	s.running = true
	return &Stamp{Stream: s.cfg.Stream, Partition: s.cfg.Partition, Mark: *m}
}
