package ingest

import (
	"context"
	"slices"

	"binnacle/internal/retry"
)

// retire makes the partitions of deleted topics write their bins: their log can't be read again. They stay in heads
// until the bins are written. A topic that is missing for a moment only is not deleted.
func (o *topicWatcher) retire() {
	in := o.in
	in.mu.Lock()
	defer in.mu.Unlock()
	for at, p := range in.partitions {
		since, missing := o.missing[at.topic]
		if !missing || in.cfg.Now().Sub(since) < in.cfg.GoneAfter || slices.Contains(in.assigned, at) {
			continue
		}
		in.metrics.retired.Inc()
		in.retire(p, "the topic is deleted")
	}
}

// retire makes a partition write what it holds, because its log is gone. The caller holds the lock.
func (in *Ingester) retire(p *partition, why string) {
	delete(in.partitions, p.at)
	in.retired[p] = true
	in.jobs.Go(func() { in.finish(p, why) })
}

// finish writes what a partition holds, and drops it. At shutdown it has the drain budget.
func (in *Ingester) finish(p *partition, why string) {
	bins := p.worker.OpenBins()
	if bins > 0 {
		p.log.Error("log is gone: flushing buffered readings; they cannot be re-read", "why", why, "bins", bins)
	}
	whole := p.finish(in.working)
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.retired, p)
	p.worker.Release()
	if in.partitions[p.at] == nil {
		in.metrics.forget(p.at)
	}
	switch {
	case !whole:
		p.log.Error("buffered readings of the log that is gone are lost", "bins", p.worker.OpenBins())
	case bins > 0:
		p.log.Info("buffered readings of the log that is gone are stored", "bins", bins)
	}
}

// finish writes everything until the context ends, and reports whether it is all stored.
func (p *partition) finish(ctx context.Context) bool {
	ended, end := context.WithCancel(context.Background())
	end() // the log's end is not asked for
	p.worker.Drain(p.in.cfg.Now())
	for p.worker.Busy() {
		if err := p.step(ended); err != nil || p.worker.Lost() != nil {
			return false
		}
		// No process commits in a log that is gone, or reads it again: its mark need not wait for a commit.
		if s := p.worker.Committed(p.worker.Floor(), p.in.cfg.Now()); s != nil {
			p.launch(s)
		}
		if !p.awaitJob(ctx) {
			return false
		}
	}
	return true
}

// awaitRetired waits at shutdown for the partitions of deleted logs, at most the drain budget.
func (in *Ingester) awaitRetired(line *groupConns) {
	ctx, cancel := context.WithTimeout(line.ctx, in.cfg.DrainBudget)
	defer cancel()
	for left := 1; left > 0 && ctx.Err() == nil; {
		in.mu.Lock()
		left = len(in.retired)
		in.mu.Unlock()
		if left > 0 {
			_ = retry.Pause(ctx, in.cfg.RetryBackoff)
		}
	}
}
