package write

import (
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
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

// WriterConfig is how a Writer and its Appends work.
type Config struct {
	Topic     string
	Partition int32
	Stream    uint32
	// Unmarked says that the stream has no mark of this partition: no chunk is created before it has one.
	Unmarked  bool
	MaxWrites int

	Hold, Linger, StampEvery, JournalEvery time.Duration
	// RetryBackoff is the first pause after a job that failed, and FullBackoff after a create in a partition key that is
	// full.
	RetryBackoff, FullBackoff time.Duration
	Spreads                   *retry.Spreads
	// Nonce returns a random number that no other process returns. It must be set with a journal.
	Nonce func() uint64
}

// Writer makes jobs for bins that must be cut, and for readings that are refused: lookups of tails, creates of
// chunks, publications of dead letters, marks. It hands out jobs and takes them back.
//
// One goroutine owns it.
type Writer struct {
	Cfg      Config
	bins     *bins.Bins
	observer Observer

	Queue     writeQueue // chains that wait to be cut, or to be resumed after a failure
	Awaiting  awaiting
	Publisher publisher
	Stamps    stamps
	Horizon   horizon
	Drain     bool
}

// New returns a Writer of bins that has nothing to do.
func New(cfg Config, b *bins.Bins, o Observer) *Writer {
	w := &Writer{Cfg: cfg, bins: b, observer: o, Queue: writeQueue{max: cfg.MaxWrites,
		queues: map[queueKey]*tenantQueue{}, tenants: map[string]int{}, periods: map[telemetry.Day]int{}},
		Horizon: horizon{at: erasure.Partition{Stream: cfg.Stream, Partition: cfg.Partition}}}
	w.Stamps = stamps{cfg: &w.Cfg, Unmarked: cfg.Unmarked}
	w.Publisher = publisher{cfg: &w.Cfg, observer: o}
	w.Publisher.Refused.atOnce = PublicationsAtOnce
	return w
}

// awaiting is the chains that must be cut and can't be yet.
type awaiting struct {
	deadLetters queue.FIFO[*bins.Chain] // sealed chains, in the order of their seals
	deferred    queue.FIFO[*bins.Chain] // chains that wait for dead letters of their deferred readings
	// Tenant queues chains until a snapshot knows their tenant, or is newer than their rows (rule E-R3).
	Tenant queue.FIFO[*bins.Chain]
	// snapshot is when the last snapshot was read that lacked the tenant or was not newer than the rows.
	snapshot time.Time
}

// Observer counts what Workers do. Its methods return at once: some are called while a head read waits. It is safe for
// any number of callers.
type Observer interface {
	Taken(readings int)                        // a record was taken, with that number of readings not refused
	Replayed(readings int)                     // readings were dropped because their chunks are stored already
	Refused(why decode.Reason, n int)          // a record, or n elements of one, are refused
	Stored(why bins.Reason, bytes, values int) // a chunk is stored
	LookedUp()                                 // the tail of a chain was read from the store
	Conflict()                                 // a create met a stored chunk, and its tail was adopted
	ChainForgotten()                           // an idle chain was forgotten to make room
	KeyFull(key sharding.Key)                  // a partition key takes no more: chunks with that key wait
	ShelfFailed(err error)                     // blocks stay in memory: the shelf did not take them
	Deferred(readings int)                     // readings are over a rate: they stay in the log
	Resumed(readings int)                      // deferred readings were taken
	JournalLost()                              // the journal has lost its end: the rows there are appended again
}
