// Package worker is the protocol for one Kafka partition: records in, what is to be done outside out. docs/protocol.md
// states the rules, numbered W1 to W11 and R1 to R7, that comments here refer to.
//
// It is pure: no I/O, no clock, no log, no goroutine. Now is an argument, what is counted is told to an Observer, and
// what is to be done outside is data, a Job. It knows nothing of Kafka's wire or of Cosmos DB. Package ingest runs
// it.
package worker

import (
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/ingest/decode"
	"binnacle/internal/control"
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

	assigned            int64         // when the partition came here, ms: chains of earlier days may have chunks (W3)
	forgotten           telemetry.Day // the last day of which a chain was forgotten: chains up to it may have chunks too
	owner               uint64        // and tenure are the Owner of heads
	generation          uint32        // counts assignments: what was learnt of tails in an earlier one may have changed
	tenants             map[string]*tenant
	recent              *tenant // of the last reading
	index               index
	queue               writeQueue   // of chains that were asked to be cut, or go on after a failure
	awaitingDeadLetters fifo[*chain] // that are sealed, by their seal
	awaitingTenant      fifo[*chain] // that were asked to be cut when the map did not have their tenant
	awaitedSnapshot     time.Time    // when that map was read
	deadLetters         deadLetters
	deferrals           deferrals
	awaitingDeferred    fifo[*chain] // that wait for dead letters of what was recalled

	partitions int // of the topic
	journal    journaling
	drain      bool
	ticked     time.Time

	spreads      spreads // of the pauses after a failure
	publishRetry backoff // of dead letters
	updateRetry  backoff // of notes
	stampRetry   backoff
	shelfRetry   backoff
	unstorable   fifo[*chain] // whose flights are to go to the dead letters
	publishing   int          // that are on their way there
	lastSuccess  time.Time    // when the store took or told something last
	lastAbandon  time.Time    // when chains were last looked through for some that can't be stored

	names    *binning.Names   // of metrics, shared by all bins
	schemas  *binning.Schemas // of blocks
	outdated []outdated       // names that bins still use
	columns  columnSets       // of all devices
	devices  int64            // bytes of what is known of devices
	counted  int64            // bytes that memory has of this worker

	fair fairness

	labelQueue  fifo[*tenant] // of whose labels the catalog is to be asked
	labelLookup bool          // it is being asked
	labelRetry  backoff

	updating  int              // notes under way
	updatedAt time.Time        // when the last ones began
	acked     fifo[*device]    // that were told to the catalog, until every reader sees that
	pending   fifo[*device]    // that may have something for the catalog
	holding   minHeap[*device] // that hold back the committed offset until the catalog has what is new, by that offset
	lookups   minHeap[*device] // whose times have been written, by when they are compared with the catalog's again

	requestedSnapshot time.Time // the map that was read last because Feed asked for it
	trusted           time.Time // until then it is not asked for again

	servedIn   *control.Snapshot  // the map that servedDays is of
	servedDays map[servedDay]bool // whose container that map has: there is no need to ask it again

	lost error // a shelf has lost rows: the worker is of no use any more

	storedBelow int64 // below it all was stored or refused when the partition came back here
	suspect     int64 // highest tail learnt from the store: it must lie below the log's end (W9)
	end         int64 // highest end of the log seen

	candidate *control.Mark // of a record for the next Stamp
	unmarked  bool          // the stream has no mark of this partition: nothing is created yet
	stamping  bool          // a Stamp is under way
	stamped   time.Time

	// guards what a head shows: the fields below, each chain's bin, flight and linger, and which tenants, devices and
	// chains there are
	mu       sync.Mutex
	position int64
	caughtUp int64
	visited  int    // devices that heads have looked at
	versions uint64 // where the next tenant's begin
}

// Assignment is what a partition is taken over with.
type Assignment struct {
	Partition int32
	Stream    uint32
	Position  int64 // offset to read next
	LogEnd    int64 // as of the assignment
	// Partitions is how many the topic has, 0 for one: a tenant's limits are shared out to them.
	Partitions int
	// Unmarked says that the stream's document has no mark of this partition: no chunk is created before it has one,
	// or the next incarnation of the log could not be told from this one (rule W9).
	Unmarked bool
	// Owner names this stay of the partition in this process among all of them. 0: heads do not tell bins apart.
	Owner uint64
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
		decoder:  decode.New(cfg.Decode.ForTopic(cfg.Topic)),
		assigned: now.UnixMilli(), forgotten: noDay, owner: a.Owner,
		journal: newJournaling(cfg.Journal), names: binning.NewNames(), schemas: binning.NewSchemas(),
		columns:    columnSets{sets: map[uint64]*columns{}},
		partitions: max(1, a.Partitions),
		generation: 1, tenants: map[string]*tenant{}, index: newIndex(), holding: newHolding(), lookups: newLookups(),
		position: a.Position, caughtUp: a.LogEnd,
		queue: newWriteQueue(cfg.MaxWrites), spreads: spreads{uint64(a.Stream)<<32 | uint64(a.Partition)},
		suspect: -1, end: a.LogEnd, unmarked: a.Unmarked,
	}
}

// Resume goes on with the bins of a partition that was away for a while and has come back: somebody else may have
// committed more, and stored chunks of chains that are known here or not (rule W8). Rows below what was committed are
// stored: they leave the bins, or a chunk with a later reading would carry them past a correction that is stored
// already, and that was not read here or waited here for a limit. Those of a create that is under way do so when it has
// been answered.
func (w *Worker) Resume(a Assignment, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.index.below(a.Position) {
		w.lose(c.dropBelow(a.Position, now.Add(w.cfg.Linger), w.schemas))
		w.file(c)
	}
	w.storedBelow = max(w.storedBelow, a.Position)
	w.generation++
	w.journal.flush = false
	w.position, w.caughtUp = max(w.position, a.Position), a.LogEnd
	w.assigned, w.unmarked = now.UnixMilli(), a.Unmarked
	w.shareLimits(a.Partitions)
	w.resumeDeferrals(a.Position)
	w.end = max(w.end, a.LogEnd)
	w.countMemory()
}

// Feed takes the next record. It fails with *UnknownTenant, *MissingMonth, *UnknownBackfill, *StaleSnapshot or
// *decode.UnknownSchema before it has taken anything of it; then the map is to be mended, Learned called with a newer
// one, or the schema fetched, and the record fed again. Records below the position are skipped.
func (w *Worker) Feed(rec Record, snapshot *control.Snapshot, now time.Time) error {
	if rec.Offset < w.position {
		return nil
	}
	result := w.decode(&rec)
	if result.Unknown != nil {
		return result.Unknown
	}
	if err := w.placeable(&rec, result.Readings, snapshot, now); err != nil {
		return err
	}
	for _, bad := range result.Bad {
		w.refuseReading(&rec, bad)
	}
	w.deferNoisy(&rec, result.Readings, now)
	taken := w.takeAll(&rec, result.Readings, result.Index, snapshot, now, false)
	w.setUnits(rec.Offset, result.Units)
	w.Skip(rec.Offset + 1)
	w.countMemory()
	if w.candidate == nil && !w.stamping {
		m := rec.Mark()
		w.candidate = &m
	}
	w.observer.Taken(taken)
	return nil
}

func (w *Worker) decode(rec *Record) decode.Result {
	return w.decoder.Decode(decode.Record{
		Value: rec.Value, ContentType: rec.contentType(), Headers: rec.Headers, Timestamp: rec.Time,
	})
}

// setUnits takes units that a record tells. Those who have such a metric tell the catalog of it when they have news; so
// that it is told at all, one of them has some now.
func (w *Worker) setUnits(offset int64, units []decode.Unit) {
	if len(units) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range units {
		t := w.tenants[u.Tenant]
		if t == nil || !t.unit(u.Metric, u.Unit) {
			continue
		}
		for _, d := range t.devices {
			if d != nil && d.seen.columns.has(u.Metric) {
				d.require(offset)
				w.fileHolding(d)
				w.queueUpdate(d)
				break
			}
		}
	}
}

// FeedUnreadable takes a stretch of the log that can't be read: one dead letter stands for all of it (rule W10).
func (w *Worker) FeedUnreadable(s Unreadable) {
	if s.Through < w.position {
		return
	}
	at := Record{Offset: max(s.First, w.position), Time: s.Time}
	w.deadLetters.add(DeadLetter{Topic: w.cfg.Topic, Partition: w.partition, Record: at, Bad: s.Bad, Unreadable: &s})
	w.countMemory()
	w.observer.Refused(s.Bad.Reason)
	w.Skip(s.Through + 1)
}

// take puts a reading into its bin, unless the store has it (rule W4); limited says that it was judged by limits. The
// caller holds the lock.
func (w *Worker) take(rec *Record, r *telemetry.Reading, limited bool, now time.Time) {
	offset, d := rec.Offset, w.device(r.Tenant, r.Device)
	day := telemetry.DayOf(r.Time)
	c, first := d.chain(day), len(d.chains) == 0
	if c == nil {
		c = w.open(d, day, now)
	}
	if limited && d.tenant.limits != nil {
		w.charge(rec, r, d, first, now)
	}
	if w.knows(c) && offset <= c.tail {
		w.observe(d, offset, r, false)
		w.observer.Replayed()
		w.observeStored(d, offset)
		return
	}
	before := c.phase
	if c.bin.Readings() == 0 {
		c.bin, c.budget = binning.NewBin(w.names), w.budget(c)
	} else if c.bin.Ripe(offset, c.ripe()) && c.bin.Seal(w.schemas) {
		w.offer(c)
	}
	repeats := c.take(offset, r, w.due(c, now))
	w.observe(d, offset, r, repeats)
	c.used = now.UnixMilli()
	if c.phase != before || c.bin.Readings() == 1 || w.journal.on && c.journaled.loose == noOffset {
		w.file(c)
	} else {
		w.index.count(c)
	}
	if w.isFull(c, now) {
		w.ask(c, CutSize, now)
	}
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (w *Worker) Skip(next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.position = max(w.position, next)
}

// countMemory has memory count what is held now.
func (w *Worker) countMemory() {
	if held := w.Held(); held != w.counted {
		w.memory.add(int(held - w.counted))
		w.counted = held
	}
}

// Held is how many bytes of memory the worker holds, as Memory counts them: bins, chunks on their way or lingering,
// what is known of devices and chains, names, and dead letters.
func (w *Worker) Held() int64 {
	n := w.index.held + w.devices + int64(w.deadLetters.bytes+w.columns.bytes+w.names.Bytes()+w.schemas.Bytes())
	for _, o := range w.outdated {
		n += int64(o.names.Bytes())
	}
	n += int64(w.deferrals.deadLetters.bytes + len(w.deferrals.all)*deferralBytes)
	if w.journal.loading != nil {
		n += w.journal.loading.bytes
	}
	return n
}

// Position is the offset of the next record to be taken.
func (w *Worker) Position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position
}

// CaughtUp reports whether everything was taken that was in the log at the assignment.
func (w *Worker) CaughtUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position >= w.caughtUp
}

// Floor is the offset that may be committed: everything below it is stored, or refused and acknowledged, and in the
// catalog (rule W7).
func (w *Worker) Floor() int64 {
	floor := w.position
	if at, ok := w.index.floor(); ok {
		floor = min(floor, at)
	}
	return w.unresolved(floor)
}

// unresolved is the lowest offset of a record that was refused without anybody having acknowledged it, that waits for a
// limit, or that has news for the catalog, if that is below the floor.
func (w *Worker) unresolved(floor int64) int64 {
	if at, ok := w.deferredFloor(); ok {
		floor = min(floor, at)
	}
	if at, ok := w.deadLetters.first(); ok {
		floor = min(floor, at)
	}
	if w.holding.len() > 0 {
		if at, ok := w.holding.first().holdsBack(); ok {
			floor = min(floor, at)
		}
	}
	return floor
}

// Stream is the number of the stream that the partition is read as.
func (w *Worker) Stream() uint32 { return w.stream }

// Suspect is the highest tail that the store told of and that lies at or above both the position and every end of the
// log seen: it proves another incarnation of the log when the log ends at or below it (rule W9). ok is false when
// there is none.
func (w *Worker) Suspect() (tail int64, ok bool) {
	if w.suspect < max(w.position, w.end) {
		return 0, false
	}
	return w.suspect, true
}

// LogEnd is the highest end of the log that was told.
func (w *Worker) LogEnd() int64 { return w.end }

// SetLogEnd tells an end of the log: the offset after its last record.
func (w *Worker) SetLogEnd(end int64) { w.end = max(w.end, end) }

// OpenBins is how many bins hold readings that are not stored.
func (w *Worker) OpenBins() int { return w.index.open() }

// lose takes that rows are lost here that are in the log and in the journal, unless err is nil.
func (w *Worker) lose(err error) {
	if err != nil && w.lost == nil {
		w.lost = err
	}
}

// Lost is why the worker must not go on: rows that it held are lost here, though not in the log. It is nil as a rule.
// The partition is to be taken over anew.
func (w *Worker) Lost() error { return w.lost }

// Release gives back the memory of a worker that is dropped.
func (w *Worker) Release() {
	w.memory.add(-int(w.counted))
	w.counted = 0
}
