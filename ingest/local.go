package ingest

import (
	"context"
	"errors"

	"binnacle/ingest/worker"
)

// Local drives one Worker without Kafka and without a goroutine: records are fed by call, and what the Worker wants
// done is done in the caller's. Load tests with a clock of their own, and tests, use it; it is the same Worker and
// Executor as in an Ingester.
type Local struct {
	*worker.Worker
	cfg      Config
	executor *Executor
	dir      Directory
}

// NewLocal makes a Worker for one partition.
func NewLocal(cfg Config, stores Stores, a worker.Assignment) *Local {
	cfg = cfg.withDefaults().with(stores)
	memory := worker.NewMemory(cfg.MemoryBytes)
	m := newMetrics(cfg.Registerer, memory, cfg.Logger)
	return &Local{
		Worker: worker.New(cfg.Config, a, memory, cfg.Now(), m), cfg: cfg, dir: stores.Directory,
		executor: newExecutor(cfg, stores, m),
	}
}

// Take feeds one record, with whatever that needs of the map. It fails only when the context ends.
func (l *Local) Take(ctx context.Context, rec worker.Record) error {
	for {
		err := l.Feed(rec, l.dir.View(), l.cfg.Now())
		if err == nil {
			return nil
		}
		if err := l.executor.learn(ctx, l.Worker, err); err != nil {
			return err
		}
	}
}

// Due is the jobs that are to be done now. Each is handed out once: the caller does it with Do.
func (l *Local) Due() []worker.Job { return l.Jobs(l.cfg.Now(), l.dir.View()) }

// Try makes one attempt at a job and tells the Worker, who hands out another one later if it failed. It fails only
// when the context ends.
func (l *Local) Try(ctx context.Context, j worker.Job) error {
	if err := l.executor.Try(ctx, j); err != nil {
		return err
	}
	l.Done(j, l.cfg.Now())
	return nil
}

// Do does one job, in as many attempts as that takes, and tells the Worker. It fails only when the context ends; the
// job may then have been done or not, and may be done again.
func (l *Local) Do(ctx context.Context, j worker.Job) error {
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

// errUnsettled says that draining did not come to an end.
var errUnsettled = errors.New("ingest: the worker is still busy after draining")

// Resume is Worker.Resume, now.
func (l *Local) Resume(a worker.Assignment) { l.Worker.Resume(a, l.cfg.Now()) }

// Drain is Worker.Drain, now.
func (l *Local) Drain() { l.Worker.Drain(l.cfg.Now()) }

// Finish cuts everything and writes it.
func (l *Local) Finish(ctx context.Context) error {
	l.Drain()
	if err := l.Step(ctx); err != nil {
		return err
	}
	if l.Busy() {
		return errUnsettled
	}
	return nil
}
