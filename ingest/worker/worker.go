// Package worker is the protocol for one Kafka partition: records in, what is to be done outside out.
// docs/internals/protocol.md states the rules, numbered W1 to W11 and R1 to R7, that comments here refer to.
//
// It is pure: no I/O, no clock, no log, no goroutine. Now is an argument, an Observer counts, and what is to be done
// outside is data, a Job. It knows nothing of Kafka's wire or of Cosmos DB. Package ingest runs
// it.
package worker

import (
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/ingest/admit"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/decode"
	"binnacle/ingest/queue"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
)

// Worker runs the protocol for one partition: it takes records in the order of the log, keeps their readings in bins,
// decides what is to be written, and knows up to which offset the log may be committed. Its state has owners, one for
// each concern; each of them knows the lowest offset that it holds back, and Floor is the least of those.
//
// One goroutine owns it. Other goroutines may only call methods with a comment that says so.
type Worker struct {
	cfg        Config
	partition  int32
	stream     uint32
	owner      uint64 // with generation, the Owner of heads
	generation uint32 // of assignments: tails that were read in an earlier one may be out of date
	taking     recordUse
	observer   Observer
	memory     memoryUse

	// Mu guards what heads show: log.Position and log.CaughtUp, each chain's bin, flight and linger, the counts of what is
	// stored, and the registry.
	mu       sync.Mutex
	log      logState
	registry registry
	stored   storedCounts

	index      index
	queue      writeQueue // of chains that are to be cut, or to go on after a failure
	awaiting   awaiting
	forgotten  telemetry.Day // the last day with a forgotten chain: chains up to it may have chunks
	names      names
	spreads    *retry.Spreads // of the pauses after a failure
	shelfRetry retry.Backoff

	admission *admit.Admission
	updates   catalogupdates.Updates
	publisher publisher
	stamps    stamps
	journal   journaling
	erasing   erasing

	drain  bool
	ticked time.Time
	lost   error // why the worker must stop
}

// logState is how far the log is known and read.
type logState struct {
	admit.Log
	storedBelow int64 // below it all was stored or refused when the partition came back
	suspect     int64 // highest tail read from the store: it must lie below the log's end (W9)
}

// awaiting is the chains that are to be cut and can't be yet.
type awaiting struct {
	deadLetters queue.FIFO[*chain] // that are sealed, by their seal
	deferred    queue.FIFO[*chain] // for dead letters of readings of theirs that were deferred
	tenant      queue.FIFO[*chain] // for a snapshot that has their tenant, or is newer than their rows (rule E-R3)
	snapshot    time.Time          // when the one was read that did not, or was not
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
	// or the next incarnation of the log would look like this one (rule W9).
	Unmarked bool
	// Owner names this stay of the partition in this process among all of them. 0: heads do not number bins.
	Owner uint64
}

// Process is what the workers of a process share, and the time.
type Process struct {
	Memory   *Memory // that what they hold counts towards
	Observer Observer
	Now      time.Time
}

// New returns a Worker for a partition that is taken over now.
func New(cfg Config, a Assignment, p Process) *Worker {
	o, now := p.Observer, p.Now
	cfg = cfg.WithDefaults()
	w := &Worker{
		cfg: cfg, partition: a.Partition, stream: a.Stream, owner: a.Owner, generation: 1,
		memory: memoryUse{Memory: p.Memory}, observer: o,
		forgotten: noDay, index: newIndex(), queue: newWriteQueue(cfg.MaxWrites),
		log: logState{suspect: -1,
			Log: admit.Log{Position: a.Position, CaughtUp: a.LogEnd, End: a.LogEnd, Assigned: now.UnixMilli()}},
		names:   newNames(),
		stored:  storedCounts{count: 1, exact: 1},
		erasing: newErasing(a),
		spreads: retry.NewSpreads(uint64(a.Stream), uint64(a.Partition)),
	}
	w.taking.memory = p.Memory
	retries := func(least time.Duration) retry.Schedule { return w.cfg.retry(least, w.spreads) }
	decoding := cfg.Decode.ForTopic(cfg.Topic)
	decoding.Meter = &w.taking
	w.admission = admit.New(admit.Config{
		Stream: a.Stream, Partition: a.Partition, Begin: a.Position, Unmarked: a.Unmarked, Partitions: a.Partitions,
		Decode: decoding, Register: cfg.Register, Registrations: cfg.Registrations, RegisterRate: cfg.RegisterRate,
		Limits: cfg.Limits, HeldFor: cfg.HeldFor, FairAfter: cfg.FairAfter, Future: cfg.Future, Past: cfg.Past,
		Retry: retries, Devices: &w.registry,
	})
	w.taking.decoder = w.admission.Decoder()
	w.stamps = stamps{cfg: &w.cfg, spreads: w.spreads, stream: a.Stream, partition: a.Partition, unmarked: a.Unmarked}
	w.publisher = publisher{cfg: &w.cfg, partition: a.Partition, observer: o}
	w.publisher.refused.atOnce = publicationsAtOnce
	w.registry = newRegistry(&w.mu)
	w.updates = catalogupdates.New(catalogupdates.Config{
		Every: cfg.CatalogEvery, Wait: cfg.CatalogWait, Linger: cfg.Linger, Mu: &w.mu, Retry: retries,
	})
	w.journal = newJournaling(&w.cfg, &w.log)
	return w
}

// Resume goes on with the bins of a partition that was away for a while and has come back: another process may have
// committed more, and stored chunks of chains that are known here or not (rule W8). Rows below what was committed are
// stored: they leave the bins, or a chunk with a later reading would carry them past a correction that is stored
// already, and that was not read here or was deferred here. Those of a create in flight do so when it has been
// answered.
func (w *Worker) Resume(a Assignment, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.index.below(a.Position) {
		w.lose(c.dropBelow(a.Position, now.Add(w.cfg.Linger), w.names.schemas))
		w.file(c)
	}
	w.stored.unexplained()
	w.log.storedBelow = max(w.log.storedBelow, a.Position)
	w.generation++
	w.journal.flush = false
	w.log.Position, w.log.CaughtUp = max(w.log.Position, a.Position), a.LogEnd
	w.log.Assigned, w.stamps.unmarked = now.UnixMilli(), a.Unmarked
	w.admission.Limits.Resume(a.Partitions, a.Position)
	w.log.End = max(w.log.End, a.LogEnd)
	w.countMemory()
}

// Feed takes the next record. It fails as Admission.Admit does, before it has taken anything of it. Jobs and Done may
// be called meanwhile. Records below the position are skipped.
func (w *Worker) Feed(rec admit.Record, snapshot *control.Snapshot, now time.Time) error {
	if rec.Offset < w.log.Position {
		return nil
	}
	defer w.taking.end()
	w.queue.snapshot = snapshot
	d, err := w.admission.Admit(&rec, admit.Moment{Snapshot: snapshot, Now: now, Log: w.log.Log})
	if err != nil {
		return err
	}
	for i := range d.Refused {
		w.publisher.refuse(&rec, d.Refused[i].Bad)
	}
	w.takeAll(rec.Offset, d.Take, now)
	w.setUnits(rec.Offset, d.Units)
	w.Skip(rec.Offset + 1)
	w.countMemory()
	w.stamps.offer(&rec)
	w.observer.Deferred(d.Deferred)
	w.observer.Taken(len(d.Take))
	return nil
}

// takeAll puts readings of a record into their bins.
func (w *Worker) takeAll(offset int64, readings []telemetry.Reading, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range readings {
		w.take(offset, &readings[i], now)
	}
}

// setUnits records units that a record gives. One of the tenant's devices with such a metric has the catalog updated.
func (w *Worker) setUnits(offset int64, units []decode.Unit) {
	if len(units) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range units {
		t := w.registry.tenants[u.Tenant]
		if t == nil || !t.SetUnit(u.Metric, u.Unit) {
			continue
		}
		for _, d := range t.devices {
			if d != nil && d.Reports(u.Metric) {
				w.updates.Require(&d.Device, offset)
				break
			}
		}
	}
}

// FeedUnreadable takes a part of the log that can't be read: one dead letter stands for all of it (rule W10).
func (w *Worker) FeedUnreadable(s admit.Unreadable) {
	if s.Through < w.log.Position {
		return
	}
	at := admit.Record{Offset: max(s.First, w.log.Position), Time: s.Time}
	w.publisher.refused.add(DeadLetter{Topic: w.cfg.Topic, Partition: w.partition, Record: at, Bad: s.Bad, Unreadable: &s})
	w.countMemory()
	w.observer.Refused(s.Bad.Reason, 1)
	w.Skip(s.Through + 1)
}

// take puts a reading into its bin, unless the store has it (rule W4). The caller holds the lock.
func (w *Worker) take(offset int64, r *telemetry.Reading, now time.Time) {
	d := w.registry.device(r.Tenant, r.Device)
	day := telemetry.DayOf(r.Time)
	c := d.chain(day)
	if c == nil {
		c = w.open(d, day, now)
	}
	if c.knownIn(w.generation) && offset <= c.tail {
		w.registry.observe(&w.updates, d, catalogupdates.Shown{Reading: r, Offset: offset})
		w.observer.Replayed()
		w.updates.ObserveStored(&d.Device, offset)
		w.journal.times.stored(c, storedRows{offset, offset, span{r.Time, r.Time}})
		return
	}
	before := c.phase
	if c.bin.Readings() == 0 {
		c.bin, c.budget = binning.NewBin(w.names.metrics), w.cfg.budget(c)
	} else if c.bin.Ripe(offset, c.ripe()) && c.bin.Seal(w.names.schemas) {
		w.journal.offer(c)
	}
	repeats := c.take(offset, r, w.cfg.due(c, now))
	w.registry.observe(&w.updates, d, catalogupdates.Shown{Reading: r, Offset: offset, Repeats: repeats})
	c.used = now.UnixMilli()
	if c.phase != before || c.bin.Readings() == 1 || w.journal.on && c.journaled.loose == noOffset {
		w.file(c)
	} else {
		w.index.count(c)
	}
	if w.cfg.isFull(c, now) {
		w.ask(c, CutSize, now)
	}
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (w *Worker) Skip(next int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.Position = max(w.log.Position, next)
}

// countMemory brings what memory counts of this worker up to date.
func (w *Worker) countMemory() { w.memory.set(w.Held()) }

// Held returns how many bytes of memory the worker holds, as Memory counts them: bins, chunks on their way or
// lingering, what is known of devices and chains, names, and dead letters.
func (w *Worker) Held() int64 {
	n := w.index.held + w.registry.bytes + w.names.bytes()
	n += int64(w.publisher.refused.bytes + w.updates.Bytes())
	n += int64(w.publisher.deferred.bytes) + w.admission.Limits.Bytes()
	if w.journal.loading != nil {
		n += w.journal.loading.bytes
	}
	return n
}

// IsRefusing reports whether more dead letters wait to be published than should: no record is to be fed until they are.
func (w *Worker) IsRefusing() bool { return w.publisher.refused.isFull() }

// Position returns the offset of the next record to be taken.
func (w *Worker) Position() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Position
}

// CaughtUp reports whether everything was taken that was in the log at the assignment.
func (w *Worker) CaughtUp() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Position >= w.log.CaughtUp
}

// Floor returns the offset that may be committed: everything below it is stored, or refused and acknowledged, and in
// the catalog (rule W7).
func (w *Worker) Floor() int64 {
	return lowest(w.log.Position, w.index.floor, w.admission.Limits.Floor, w.publisher.floor, w.updates.Floor,
		w.journal.times.floor)
}

// lowest returns the least of a position and the offsets that owners hold back.
func lowest(position int64, owners ...func() (offset int64, ok bool)) int64 {
	for _, floor := range owners {
		if at, ok := floor(); ok {
			position = min(position, at)
		}
	}
	return position
}

// SnapshotRead says that the snapshot was read again because Feed asked for it: what this or a later one does not
// have, there is not.
func (w *Worker) SnapshotRead(s *control.Snapshot, now time.Time) { w.admission.SnapshotRead(s, now) }

// Stream returns the number of the stream that the partition is read as.
func (w *Worker) Stream() uint32 { return w.stream }

// Suspect returns the highest tail read from the store that lies at or above both the position and every end of the log
// seen: it proves another incarnation of the log when the log ends at or below it (rule W9). ok is false when there is
// none.
func (w *Worker) Suspect() (tail int64, ok bool) {
	if w.log.suspect < max(w.log.Position, w.log.End) {
		return 0, false
	}
	return w.log.suspect, true
}

// LogEnd returns the highest end of the log seen.
func (w *Worker) LogEnd() int64 { return w.log.End }

// SetLogEnd records an end of the log: the offset after its last record.
func (w *Worker) SetLogEnd(end int64) { w.log.End = max(w.log.End, end) }

// OpenBins returns how many bins hold readings that are not stored.
func (w *Worker) OpenBins() int { return w.index.open() }

// lose records the first non-nil err as the reason why the worker must stop: rows that it held are lost here, though
// neither in the log nor in the journal.
func (w *Worker) lose(err error) {
	if err != nil && w.lost == nil {
		w.lost = err
	}
}

// Lost returns why the worker must stop, nil as a rule. Then the partition is to be taken over anew.
func (w *Worker) Lost() error { return w.lost }

// Release gives back the memory of a worker that is dropped.
func (w *Worker) Release() { w.memory.set(0) }
