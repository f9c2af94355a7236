package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
)

// Blocks has what a Journal took.
type Blocks interface {
	Partition(topic string, partition int32) BlockLog
}

// loading is a new Worker that loads blocks of a journal, before it is fed anything (rule J4).
type loading struct {
	worker   *worker.Worker
	log      BlockLog
	now      func() time.Time
	progress func(left int64) // is called with the number of records that are left, now and then
}

// load loads the blocks that a commit counts on; floor is the offset that was committed with it. After
// journal.ErrNotWhole the Worker can't be used, and a new one starts at the floor. After any other error too, but
// another attempt may load.
func (l *loading) load(ctx context.Context, c journal.Commit, floor int64) error {
	w, log := l.worker, l.log
	first, end, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	loader, err := journal.NewLoader(c, floor, first, end)
	if err != nil {
		return err
	}
	loaded := w.BeginLoad(c, floor)
	for !loader.Done() {
		before := loader.Next()
		err := log.Each(ctx, before, c.To, func(offset int64, value []byte) error {
			r, counts, err := loader.Take(offset, value)
			if err != nil || offset >= c.To {
				return err
			}
			if left := loader.Left(); left%loadStep == 0 {
				l.progress(left)
			}
			return loaded.TakeRecord(offset, &r, counts)
		})
		if err != nil {
			return err
		}
		if loader.Next() == before {
			return errNoBlocks
		}
	}
	l.progress(0)
	return loaded.Done(loader.Last(), l.now())
}

// loadStep is the number of records between two calls of progress.
const loadStep = 1024

// loadTimes loads into the worker of a partition that comes back the times that another process has left in the
// journal: the catalog lacks them, and that process may be dead (rule J8).
func (p *partition) loadTimes(ctx context.Context, metadata string) error {
	c, ok := journal.ParseCommit(metadata)
	if !ok || p.in.stores.Blocks == nil || metadata == p.metadata || c.Stream != p.worker.Stream() {
		return nil
	}
	return loadTimes(ctx, p.worker, c, p.in.stores.Blocks.Partition(p.at.topic, int32(p.at.partition)))
}

// loadTimes loads into a worker the times of devices from the records that a commit counts on.
func loadTimes(ctx context.Context, w *worker.Worker, c journal.Commit, log BlockLog) error {
	first, end, err := log.Bounds(ctx)
	if err != nil {
		return err
	}
	from, to := max(first, c.From), min(end, c.To)
	if from >= to {
		return nil
	}
	return log.Each(ctx, from, to, func(offset int64, value []byte) error {
		if r, err := journal.ParseRecord(value); err == nil && offset < c.To { // reading the blocks later finds the damage
			w.TakeTimes(offset, &r)
		}
		return nil
	})
}

// errNoBlocks means that the journal has records by its bounds, and returned none.
var errNoBlocks = errors.New("the journal has records and returns none")
