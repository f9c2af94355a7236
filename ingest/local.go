package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
)

// Local drives one Worker without Kafka and without a goroutine: records are fed by call, and the Worker's jobs are
// done in the caller's goroutine. Load tests with a clock of their own, and tests, use it, with the Worker and
// Executor of an Ingester.
type Local struct {
	*worker.Worker
	Counts   Counts
	cfg      Config
	executor *Executor
	dir      Directory
}

// Counts are what a Local's Worker has done with readings.
type Counts struct {
	Deferred int // over a rate: they wait
	Refused  int // dead letters, records that can't be read among them
}

// counted counts for a Local, in addition to the metrics.
type counted struct {
	*metrics
	*Counts
}

// Deferred implements worker.Observer.
func (c counted) Deferred(readings int) {
	c.Counts.Deferred += readings
	c.metrics.Deferred(readings)
}

// Refused implements worker.Observer.
func (c counted) Refused(why decode.Reason, elements int) {
	c.Counts.Refused += elements
	c.metrics.Refused(why, elements)
}

// NewLocal makes a Worker for one partition.
func NewLocal(cfg Config, stores Stores, a worker.Assignment) *Local {
	cfg = cfg.withDefaults().with(stores)
	memory := worker.NewMemory(cfg.MemoryBytes)
	m := newMetrics(cfg.Registerer, memory, cfg.Logger)
	l := &Local{cfg: cfg, dir: stores.Directory, executor: newExecutor(cfg, stores, m)}
	l.Worker = worker.New(cfg.Config, a,
		worker.Process{Memory: memory, Observer: counted{m, &l.Counts}, Now: cfg.Now()})
	return l
}

// Load continues from the blocks that a commit counts on (rule J4); floor is the offset that was committed with it.
// The Worker must be new, and is of no use after an error. journal.ErrNotWhole means that there are no blocks to
// continue from.
func (l *Local) Load(ctx context.Context, c journal.Commit, floor int64, log BlockLog) error {
	one := loading{worker: l.Worker, log: log, now: l.cfg.Now, progress: func(int64) {}}
	return one.load(ctx, c, floor)
}

// LoadTimes takes the times of devices that another process has left in the journal, before Resume.
func (l *Local) LoadTimes(ctx context.Context, c journal.Commit, log BlockLog) error {
	return loadTimes(ctx, l.BeginTimes(l.dir.Snapshot()), c, log)
}

// Take feeds one record, and resolves what the Worker lacks for it. It fails only when the context ends.
func (l *Local) Take(ctx context.Context, rec admit.Record) error { return l.feed(ctx, rec, l.Feed) }

// TakeDeferredRecord feeds the record that Throttle.Next asks for. It fails only when the context ends.
func (l *Local) TakeDeferredRecord(ctx context.Context, rec admit.Record) error {
	return l.feed(ctx, rec, l.Deferred().Feed)
}

func (l *Local) feed(ctx context.Context, rec admit.Record,
	do func(admit.Record, *control.Snapshot, time.Time) error) error {
	for {
		missing := do(rec, l.dir.Snapshot(), l.cfg.Now())
		if missing == nil {
			return nil
		}
		snapshot, err := l.executor.resolve(ctx, missing)
		if snapshot != nil {
			l.SnapshotRead(snapshot, l.cfg.Now())
		}
		if err != nil {
			return err
		}
	}
}

// Due returns the jobs to do now. Each is returned once: the caller does it with Do.
func (l *Local) Due() []write.Job { return l.Jobs(l.cfg.Now(), l.dir.Snapshot()) }

// Attempt makes one attempt at a job, concurrently with others if need be, without passing its result to the Worker.
// It fails only when the context ends.
func (l *Local) Attempt(ctx context.Context, j write.Job) error { return l.executor.Try(ctx, j) }

// Try makes one attempt at a job and passes its result to the Worker, which returns another job later if it failed. It
// fails only when the context ends.
func (l *Local) Try(ctx context.Context, j write.Job) error {
	if err := l.Attempt(ctx, j); err != nil {
		return err
	}
	l.Done(j, l.cfg.Now())
	return nil
}

// Do does one job, in as many attempts as that takes, and passes its result to the Worker. It fails only when the
// context ends; the job may then have been done or not, and may be done again.
func (l *Local) Do(ctx context.Context, j write.Job) error {
	if err := l.executor.Run(ctx, j); err != nil {
		return err
	}
	l.Done(j, l.cfg.Now())
	return nil
}

// Step does everything that is due, one after another, until nothing is. It fails only when the context ends.
func (l *Local) Step(ctx context.Context) error {
	for jobs := l.Due(); len(jobs) > 0; jobs = l.Due() {
		for _, j := range jobs {
			if err := l.Do(ctx, j); err != nil {
				return err
			}
		}
	}
	return nil
}

// Resume calls Worker.Resume with the time of now.
func (l *Local) Resume(a worker.Assignment) { l.Worker.Resume(a, l.cfg.Now()) }

// Drain calls Worker.Drain with the time of now.
func (l *Local) Drain() { l.Worker.Drain(l.cfg.Now()) }

// Finish cuts everything and writes it.
func (l *Local) Finish(ctx context.Context) error {
	l.Drain()
	if err := l.Step(ctx); err != nil {
		return err
	}
	if l.Busy() {
		return errors.New("ingest: the worker is still busy after draining")
	}
	return nil
}
