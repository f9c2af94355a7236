package write

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/queue"
	"binnacle/internal/control"
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
	// Nonce makes numbers that nobody else makes, of chance. It must be set where there is a journal.
	Nonce func() uint64
}

// Writer decides what is to be done outside for bins that are to be cut, and for readings that are refused: lookups of
// tails, creates of chunks, publications of dead letters, marks. It hands out jobs and takes them back.
//
// One goroutine owns it.
type Writer struct {
	Cfg      Config
	bins     *bins.Bins
	observer Observer

	Queue     writeQueue // of chains that are to be cut, or to go on after a failure
	Awaiting  awaiting
	Publisher publisher
	Stamps    stamps
	Horizon   horizon
	Drain     bool
}

// New returns a Writer of bins that has nothing to do.
func New(cfg Config, b *bins.Bins, o Observer) *Writer {
	w := &Writer{Cfg: cfg, bins: b, observer: o, Queue: newWriteQueue(cfg.MaxWrites),
		Horizon: horizon{at: control.ErasurePartition{Stream: cfg.Stream, Partition: cfg.Partition}}}
	w.Stamps = stamps{cfg: &w.Cfg, Unmarked: cfg.Unmarked}
	w.Publisher = publisher{cfg: &w.Cfg, observer: o}
	w.Publisher.Refused.atOnce = PublicationsAtOnce
	return w
}

// awaiting is the chains that are to be cut and can't be yet.
type awaiting struct {
	deadLetters queue.FIFO[*bins.Chain] // that are sealed, by their seal
	deferred    queue.FIFO[*bins.Chain] // for dead letters of readings of theirs that were deferred
	Tenant      queue.FIFO[*bins.Chain] // for a snapshot that has their tenant, or is newer than their rows (rule E-R3)
	snapshot    time.Time               // when the one was read that did not, or was not
}
