package write

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/queue"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"time"
)

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
	w := &Writer{Cfg: cfg, bins: b, observer: o, Queue: newWriteQueue(cfg.MaxWrites),
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
	// Tenant has the chains that wait for a snapshot that has their tenant, or is newer than their rows (rule E-R3).
	Tenant queue.FIFO[*bins.Chain]
	// snapshot is when the last snapshot was read that lacked the tenant or was not newer than the rows.
	snapshot time.Time
}
