// Package worker is the protocol for one Kafka partition: records go in, jobs to run outside come out.
// docs/internals/protocol.md states the rules, numbered W1 to W11 and R1 to R7, that comments here refer to.
//
// It is pure: no I/O, no clock, no log, no goroutine. Now is an argument, an Observer counts, and work to do outside
// is data, a Job. It knows nothing of Kafka's wire or of Cosmos DB. Package ingest runs it. Each step is a package:
// admit decides what becomes of a record's readings, bins keeps the readings that are taken, and write decides what
// is stored, when it can be, and what follows.
package worker

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"time"
)

// Worker runs the protocol for one partition: it takes records in the order of the log, keeps their readings in bins,
// decides what is written, and knows up to which offset the log may be committed. Its state has owners, one for each
// concern; each of them knows the lowest offset that it holds back, and Floor is the least of those.
//
// One goroutine owns it. Other goroutines may only call methods with a comment that says so.
type Worker struct {
	cfg       Config
	observer  write.Observer
	admission *admit.Admission
	bins      *bins.Bins
	writer    *write.Writer
	appends   *write.Appends
	erasing   erasing
	pressure  pressure
	taking    recordUse
	loading   *Loading // while the journal is being loaded
	ticked    time.Time
}

// Assignment is what a partition is taken over with.
type Assignment struct {
	Partition int32
	Stream    uint32
	Position  int64 // offset to read next
	LogEnd    int64 // end of the log at the time of the assignment
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
	Memory   *Memory // counts everything that the workers hold
	Observer write.Observer
	Now      time.Time
}

// New returns a Worker for a partition that is taken over now.
func New(cfg Config, a Assignment, p Process) *Worker {
	cfg = cfg.WithDefaults()
	out := write.Config{
		Topic: cfg.Topic, Partition: a.Partition, Stream: a.Stream, Unmarked: a.Unmarked, MaxWrites: cfg.MaxWrites,
		Hold: cfg.Hold, Linger: cfg.Linger, StampEvery: cfg.StampEvery, JournalEvery: cfg.JournalEvery,
		RetryBackoff: cfg.RetryBackoff, FullBackoff: cfg.FullBackoff,
		Spreads: retry.NewSpreads(uint64(a.Stream), uint64(a.Partition)), Nonce: cfg.Nonce,
	}
	log := admit.Log{Position: a.Position, CaughtUp: a.LogEnd, End: a.LogEnd, Assigned: p.Now.UnixMilli()}
	w := &Worker{cfg: cfg, observer: p.Observer, erasing: erasing{applied: map[string]bool{},
		at: erasure.Partition{Stream: a.Stream, Partition: a.Partition}}}
	w.pressure = pressure{w: w, memory: memoryUse{Memory: p.Memory}}
	w.bins = bins.New(bins.Config{
		Topic: cfg.Topic, Partition: a.Partition, Stream: a.Stream, Owner: a.Owner,
		Hold: cfg.Hold, MaxBehind: cfg.MaxBehind, Linger: cfg.Linger, Journal: cfg.Journal,
		CatalogEvery: cfg.CatalogEvery, CatalogWait: cfg.CatalogWait, Retry: out.Retry,
	}, log)
	w.writer = write.New(out, w.bins, p.Observer)
	w.taking.memory = p.Memory
	decoding := cfg.Decode.ForTopic(cfg.Topic)
	decoding.Meter, decoding.Slots = &w.taking, true
	w.admission = admit.New(admit.Config{
		Stream: a.Stream, Partition: a.Partition, Partitions: a.Partitions,
		Decode: decoding, Register: cfg.Register, Registrations: cfg.Registrations, RegisterRate: cfg.RegisterRate,
		Limits: cfg.Limits, HeldFor: cfg.HeldFor, FairAfter: cfg.FairAfter, Future: cfg.Future, Past: cfg.Past,
		Retry: out.Retry, Devices: w.bins,
	})
	w.taking.decoder = w.admission.Decoder()
	w.erasing.bins = w.bins
	w.appends = write.NewAppends(w.writer, w.admission.Limits)
	return w
}

// Resume continues with the bins of a partition that was away for a while and has come back: another process may have
// committed more, and stored chunks of chains that are known here or not (rule W8). Rows below the committed offset
// are stored: they leave the bins, or a chunk with a later reading would carry them past a correction that is stored
// already, and that was not read here or was deferred here. Rows of a create in flight leave after its answer.
func (w *Worker) Resume(a Assignment, now time.Time) {
	w.bins.Lock()
	defer w.bins.Unlock()
	for _, c := range w.bins.Index.Below(a.Position) {
		w.bins.Lose(c.DropBelow(a.Position, now.Add(w.cfg.Linger), w.bins.Names.Schemas))
		w.bins.File(c)
	}
	if a.Position > w.bins.Log.Position {
		w.bins.Updates.Assign(a.Position, now)
	}
	w.bins.Stored.Unexplained()
	w.bins.Log.StoredBelow = max(w.bins.Log.StoredBelow, a.Position)
	w.bins.Generation++
	w.appends.Flushing = false
	w.bins.Log.Position, w.bins.Log.CaughtUp = max(w.bins.Log.Position, a.Position), a.LogEnd
	w.bins.Log.Assigned, w.writer.Stamps.Unmarked = now.UnixMilli(), a.Unmarked
	w.admission.Limits.Resume(a.Partitions, a.Position)
	w.bins.Log.End = max(w.bins.Log.End, a.LogEnd)
	w.settle()
}

// Feed takes the next record. It fails as Admission.Admit does, before it has taken anything of it. Jobs and Done may
// be called while it runs. Records below the position are skipped.
func (w *Worker) Feed(rec admit.Record, snapshot *control.Snapshot, now time.Time) error {
	if rec.Offset < w.bins.Log.Position {
		return nil
	}
	defer w.taking.end()
	w.writer.Queue.Snapshot = snapshot
	d, err := w.admission.Admit(&rec, admit.Moment{Snapshot: snapshot, Now: now, Log: w.bins.Log.Log})
	if err != nil {
		return err
	}
	for i := range d.Refused {
		w.writer.Publisher.Refuse(&rec, d.Refused[i].Bad)
	}
	w.take(rec.Offset, d.Take, now)
	w.bins.SetUnits(rec.Offset, d.Units)
	w.settle()
	w.writer.Stamps.Offer(&rec)
	if d.Deferred > 0 {
		w.observer.Deferred(d.Deferred)
	}
	w.observer.Taken(len(d.Take))
	return nil
}

// take puts readings of a record into their bins, and has those cut that are full.
func (w *Worker) take(offset int64, readings []telemetry.Reading, now time.Time) {
	full, replayed := w.bins.Take(offset, readings, now)
	for _, c := range full {
		w.writer.Ask(c, bins.CutSize, now)
	}
	if replayed > 0 {
		w.observer.Replayed(replayed)
	}
}

// Skip moves the position past offsets that hold no record, such as a transaction's markers.
func (w *Worker) Skip(next int64) { w.bins.Skip(next) }

// FeedUnreadable takes a part of the log that can't be read: one dead letter covers all of it (rule W10).
func (w *Worker) FeedUnreadable(s admit.Unreadable) {
	if s.Through < w.bins.Log.Position {
		return
	}
	w.writer.Publisher.RefuseUnreadable(&s, max(s.First, w.bins.Log.Position))
	w.settle()
	w.Skip(s.Through + 1)
}

// IsRefusing reports whether more dead letters wait to be published than should: no record may be fed until they are.
func (w *Worker) IsRefusing() bool {
	p := &w.writer.Publisher
	return p.Refused.Bytes+p.Deferred.Bytes > write.MaxUnpublished
}

// Bins returns the open bins.
func (w *Worker) Bins() *bins.Bins { return w.bins }

// HeadRead returns what the worker holds of a tenant, as of one moment (rule R1). Anyone may call it at any time.
func (w *Worker) HeadRead(req store.HeadRequest) store.PartitionHead {
	return w.bins.HeadRead(req, w.admission.Limits)
}

// Stalled calls each with every fault and how many chains have stalled for it.
func (w *Worker) Stalled(each func(f bins.Fault, chains int)) { w.bins.Index.StalledBy(each) }

// Lost returns why the worker must stop, nil as a rule. Then the partition must be taken over again.
func (w *Worker) Lost() error { return w.bins.Lost() }

// Position returns the offset of the next record to be taken.
func (w *Worker) Position() int64 {
	w.bins.Lock()
	defer w.bins.Unlock()
	return w.bins.Log.Position
}

// CaughtUp reports whether everything was taken that was in the log at the assignment.
func (w *Worker) CaughtUp() bool {
	w.bins.Lock()
	defer w.bins.Unlock()
	return w.bins.Log.Position >= w.bins.Log.CaughtUp
}

// SnapshotRead says that the snapshot was read again because Feed asked for it: what this or a later one does not
// have, there is not.
func (w *Worker) SnapshotRead(s *control.Snapshot, now time.Time) { w.admission.SnapshotRead(s, now) }

// Stream returns the number of the stream that the partition is read as.
func (w *Worker) Stream() uint32 { return w.writer.Cfg.Stream }

// OpenBins returns how many bins hold readings that are not stored.
func (w *Worker) OpenBins() int { return w.bins.Index.Open() }

// GiveUp gives back the memory of a worker that is dropped.
func (w *Worker) GiveUp() { w.pressure.memory.set(0) }

// SetHorizon says that all records below an offset were fetched before the read of the snapshot began that Jobs and
// Feed get from now on. Only rows of such records are cut, so that no chunk reaches beyond an order that its writer
// does not know (rule E-R3). Without a call all rows may be cut: then there must be no orders.
func (w *Worker) SetHorizon(offset int64) {
	w.writer.Horizon.Offset, w.writer.Horizon.Bounded = offset, true
	w.admission.SetHorizon(offset)
}

// AwaitsSnapshot reports whether chains wait for a newer snapshot.
func (w *Worker) AwaitsSnapshot() bool { return w.writer.Awaiting.Tenant.Len() > 0 }

// settle brings what others count of this worker up to date, after each step.
func (w *Worker) settle() {
	w.forgetGone()
	w.pressure.memory.set(w.Held())
}

// forgetGone drops what limits know of devices that were forgotten.
func (w *Worker) forgetGone() {
	for _, d := range w.bins.TakeGone() {
		w.admission.Limits.Forget(d.Tenant, d.Device, d.All)
	}
}

// Held returns how many bytes of memory the worker holds, as Memory counts them: bins, chunks on their way or
// lingering, the records of devices and chains, names, and dead letters.
func (w *Worker) Held() int64 {
	n := w.bins.Index.Held + w.bins.Bytes + w.bins.Names.Bytes()
	n += int64(w.writer.Publisher.Refused.Bytes + w.bins.Updates.Bytes())
	n += int64(w.writer.Publisher.Deferred.Bytes) + w.admission.Limits.Bytes()
	if w.loading != nil {
		n += w.loading.bytes
	}
	return n
}
