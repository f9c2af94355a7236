// Package worker is the protocol for one Kafka partition: records in, what is to be done outside out. docs/protocol.md
// states the rules, numbered W1 to W11 and R1 to R7, that comments here refer to.
//
// It is pure: no I/O, no clock, no log, no goroutine. Now is an argument, what is counted is told to an Observer, and what is
// to be done outside is data, a Job. It knows nothing of Kafka's wire or of Cosmos DB. Package ingest runs it.
package worker

import (
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Worker is the protocol for one partition: it takes records in the order of the log, keeps them in
// bins, says what is to be written, and knows up to where the log may be committed. It does nothing by itself: it has
// no goroutine and no I/O. docs/protocol.md has its rules.
//
// One goroutine owns it. Only Snapshot, CaughtUp and Position may be called by others.
type Worker struct {
	cfg       Config
	partition int32
	stream    uint32
	memory    *Memory
	observer  Observer
	decoder   *decode.Decoder

	assigned int64 // when the partition came here, ms: chains of earlier days may have chunks (W3)
	chains   map[chainKey]*chain
	devices  map[deviceKey]*device
	timers   dueHeap
	ready    []*chain
	writes   int // creates and lookups under way
	letters  deadLetters
	drain    bool
	swept    time.Time

	held     int64     // bytes: this worker's part of what memory counts
	relieved time.Time // when bins were last looked for to cut because memory is short

	noting  int       // notes under way
	unnoted []*device // that may have something for the catalog

	learned time.Time // the map that was read last because Feed asked for it
	trusted time.Time // until then it is not asked for again

	suspect int64 // highest tail learnt from the store: it must lie below the log's end (W9)
	end     int64 // highest end of the log seen

	candidate *control.Mark // of a record for the next Stamp
	unmarked  bool          // the stream has no mark of this partition: nothing is created yet
	stamping  bool          // a Stamp is under way
	stamped   time.Time

	mu       sync.Mutex // guards what a head shows: the fields below, each chain's bin, flight and linger, and which there are
	position int64
	caughtUp int64
}

// Assignment is what a partition is taken over with.
type Assignment struct {
	Partition int32
	Stream    uint32
	Position  int64 // offset to read next
	LogEnd    int64 // as of the assignment
	// Unmarked says that the stream's document has no mark of this partition: no chunk is created before it has one, or the
	// next incarnation of the log could not be told from this one (rule W9).
	Unmarked bool
}

// New makes a Worker for a partition that is taken over at now. Its memory counts towards memory, and what it does is
// told to o, which may be nil.
func New(cfg Config, a Assignment, memory *Memory, now time.Time, o Observer) *Worker {
	if o == nil {
		o = silent{}
	}
	cfg = cfg.WithDefaults()
	return &Worker{
		cfg: cfg, partition: a.Partition, stream: a.Stream, memory: memory, observer: o,
		decoder:  decode.New(cfg.Decode),
		assigned: now.UnixMilli(),
		chains:   map[chainKey]*chain{},
		devices:  map[deviceKey]*device{},
		position: a.Position, caughtUp: a.LogEnd,
		suspect: -1, end: a.LogEnd, unmarked: a.Unmarked,
	}
}

// Resume goes on with the bins of a partition that was away for a while and has come back: somebody else may have
// committed more, and stored chunks of chains that are not known here (rule W8).
func (w *Worker) Resume(a Assignment, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position, w.caughtUp = max(w.position, a.Position), a.LogEnd
	w.assigned, w.unmarked = now.UnixMilli(), a.Unmarked
	w.end = max(w.end, a.LogEnd)
}

// Feed takes the next record. It fails with *UnknownTenant or *StaleMap before it has taken anything of it; then Learned is
// to be called with a newer map.
// Records below the position are skipped.
func (w *Worker) Feed(rec Record, view *control.View, now time.Time) error {
	if rec.Offset < w.position {
		return nil
	}
	result := w.decoder.Decode(decode.Record{Value: rec.Value, ContentType: rec.contentType(), Timestamp: rec.Time})
	if err := w.placeable(&rec, result.Readings, view, now); err != nil {
		return err
	}
	for _, bad := range result.Bad {
		w.refuse(&rec, bad)
	}
	oversize := w.oversize(&rec, result.Readings)
	taken, grown := 0, 0
	w.mu.Lock()
	for i := range result.Readings {
		r := &result.Readings[i]
		if bad := w.verdict(&rec, r, view, oversize); bad != nil {
			bad.Index = result.Index[i]
			w.refuse(&rec, *bad)
			continue
		}
		grown += w.take(rec.Offset, r, now)
		taken++
	}
	w.position = rec.Offset + 1
	w.mu.Unlock()
	w.hold(grown)
	if w.candidate == nil && !w.stamping {
		m := rec.Mark()
		w.candidate = &m
	}
	w.observer.Taken(taken)
	return nil
}

// take puts a reading into its bin, unless the store has it (rule W4), and answers how many bytes the bin has grown. The
// caller holds the lock.
func (w *Worker) take(offset int64, r *telemetry.Reading, now time.Time) (grown int) {
	key := chainKey{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
	c := w.chains[key]
	if c == nil {
		c = w.open(key)
	}
	if c.device.observe(offset, r) {
		w.noteSoon(c.device)
	}
	if c.known && offset <= c.tail {
		w.observer.Replayed()
		return 0
	}
	before := 0
	if c.bin.Readings() == 0 {
		w.begin(c, now)
	} else {
		before = c.bin.Bytes()
	}
	c.bin.Append(offset, *r)
	c.used = now
	if values := c.bin.Values(); values >= c.trial && c.device.sizer.Full(values) || crowded(c) {
		w.ask(c, CutSize)
	}
	return c.bin.Bytes() - before
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (w *Worker) Skip(next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = max(w.position, next)
}

// hold counts memory that is taken, or given back when n is negative.
func (w *Worker) hold(n int) {
	w.held += int64(n)
	w.memory.add(n)
}

// Held is how many bytes of memory the worker holds, as Memory counts them: bins, chunks on their way or lingering, and
// dead letters.
func (w *Worker) Held() int64 { return w.held }

// Position is the offset of the next record to be taken.
func (w *Worker) Position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position
}

// CaughtUp tells whether everything was taken that was in the log at the assignment.
func (w *Worker) CaughtUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position >= w.caughtUp
}

// Floor is the offset that may be committed: everything below it is stored, or refused and acknowledged, and in the
// catalog (rule W7).
func (w *Worker) Floor() int64 {
	floor := w.position
	lower := func(offset int64, ok bool) {
		if ok {
			floor = min(floor, offset)
		}
	}
	for _, c := range w.chains {
		lower(c.first())
	}
	for _, d := range w.devices {
		lower(d.holdsBack())
	}
	lower(w.letters.first())
	return floor
}

// Stream is the number of the stream that the partition is read as.
func (w *Worker) Stream() uint32 { return w.stream }

// Suspect is the highest tail that the store told of and that lies at or above both the position and every end of the log
// seen: it proves another incarnation of the log when the log ends at or below it (rule W9). ok is false when there is none.
func (w *Worker) Suspect() (tail int64, ok bool) {
	if w.suspect < max(w.position, w.end) {
		return 0, false
	}
	return w.suspect, true
}

// Reaches tells an end of the log: the offset after its last record.
func (w *Worker) Reaches(end int64) { w.end = max(w.end, end) }

// chainOf is the chain as the store names it.
func (w *Worker) chainOf(c *chain) store.Chain {
	return store.Chain{Day: c.key.day, Stream: w.stream, Partition: w.partition}
}

// OpenBins is how many bins hold readings.
func (w *Worker) OpenBins() (n int) {
	for _, c := range w.chains {
		if c.bin.Readings() > 0 {
			n++
		}
	}
	return n
}

// Release gives back the memory of a worker that is dropped.
func (w *Worker) Release() { w.hold(-int(w.held)) }
