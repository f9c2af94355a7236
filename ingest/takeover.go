package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
)

// runPartition takes a partition over and reads it until the context ends.
func (in *Ingester) runPartition(ctx context.Context, as *generation, at topicPartition) {
	reached := int64(0)
	for ctx.Err() == nil {
		t := takeover{in: in, at: at, reached: reached}
		var p *partition
		err := in.executor.persist(ctx, "takeover", func() (err error) {
			p, err = t.attempt(ctx)
			return err
		})
		if err != nil {
			return
		}
		err = p.run(ctx, as)
		if !errors.Is(err, errRetake) {
			return
		}
		in.log.Warn("taking the partition over again", "topic", at.topic, "partition", at.partition, "error", err)
		_ = retry.Pause(ctx, in.cfg.RetryBackoff)
		reached = p.worker.Position()
		if tail, ok := p.worker.Bins().Suspect(); ok {
			reached = tail + 1
		}
	}
}

// takeover gets a partition ready to be read.
type takeover struct {
	in      *Ingester
	at      topicPartition
	reached int64 // the log must not end before

	since time.Time // first failed attempt at loading the journal since Kafka answered otherwise
	read  time.Time // monotonic time at which the commit was read
}

// journalPatience is for how long a journal that does not answer is waited for. Then the source is read instead: what
// is late is worse than what costs more.
const journalPatience = 2 * time.Minute

// attempt makes one attempt: the partition as it was left in this process, if its log is still the same, or a new one.
func (t *takeover) attempt(ctx context.Context) (*partition, error) {
	in := t.in
	in.mu.Lock()
	p := in.partitions[t.at]
	in.mu.Unlock()
	known := priorRead{reached: t.reached}
	if p != nil {
		known = priorRead{reached: max(t.reached, p.worker.Position()), last: p.reader.last}
	}
	commit, err := t.readCommit(ctx)
	if err != nil {
		t.since = time.Time{} // Kafka does not answer, which says nothing of the journal
		return nil, err
	}
	t.read = time.Now()
	begun := in.cfg.Now()
	a, first, err := in.identify(ctx, t.at, commit, known)
	if err != nil {
		return nil, err
	}
	// What was committed lies in containers that were asked for before: heads tell of them from here on (rule R1).
	if err := in.refresh(ctx); err != nil {
		return nil, err
	}
	if p != nil && p.takeover.restored && p.worker.Stream() == a.Stream && !a.Unmarked && p.worker.Lost() == nil {
		if err := p.loadTimes(ctx, commit.Metadata); err != nil {
			if t.awaitsJournal(ctx, begun) {
				return nil, err
			}
			in.metrics.broken.WithLabelValues("not-whole").Inc()
			p.log.Error("the journal can't be used: lists may have older times of devices", "error", err)
		}
		p.settle(t.read, commit)
		p.worker.Resume(a, in.cfg.Now())
		in.mu.Lock()
		p.orphaned = false
		in.mu.Unlock()
		for _, r := range []*reader{p.reader, p.deferred.reader} { // it is the log that was read before
			r.shaken, r.missing = false, false
		}
		p.startAt(first)
		return p, nil
	}
	p, err = t.restore(ctx, a, commit)
	if err != nil {
		return nil, err
	}
	p.takeover.restored = true
	p.startAt(first)
	return p, nil
}

// readCommit returns what the group has committed of the partition, with what the commit carries.
func (t *takeover) readCommit(ctx context.Context) (kafka.Committed, error) {
	all, err := t.in.topicOf(t.at).Commits(ctx, t.in.cfg.Group, t.at.partition)
	if err != nil {
		return kafka.Committed{}, err
	}
	c, ok := all[t.at.partition]
	if !ok {
		return kafka.Committed{Offset: kafkago.FirstOffset}, nil
	}
	return c, nil
}

// awaitsJournal reports whether a journal is waited for that has failed in an attempt (rule J5).
func (t *takeover) awaitsJournal(ctx context.Context, begun time.Time) bool {
	if t.since.IsZero() {
		t.since = begun
	}
	return ctx.Err() != nil || t.in.cfg.Now().Sub(t.since) < journalPatience
}

// restore makes a partition with the bins of the journal, if the commit counts on it, or none. Meanwhile its head shows
// the committed offset as its position: no answer that needs more is complete.
func (t *takeover) restore(ctx context.Context, a worker.Assignment, commit kafka.Committed) (*partition, error) {
	in := t.in
	c, ok := journal.ParseCommit(commit.Metadata)
	p := t.replace(a, commit)
	if !ok || in.stores.Blocks == nil || c.Stream != a.Stream || a.Unmarked || a.Position != commit.Offset {
		return p, nil
	}
	begun := in.cfg.Now()
	err := p.load(ctx, c, commit.Offset)
	switch {
	case err == nil:
		p.log.Info("bins loaded from the journal", "blocks", c.To-c.From, "bins", p.worker.OpenBins(), "committed",
			commit.Offset, "goes_on_at", p.worker.Position(), "took", in.cfg.Now().Sub(begun))
		return p, nil
	case ctx.Err() != nil, !errors.Is(err, journal.ErrNotWhole) && t.awaitsJournal(ctx, begun):
		return nil, err
	}
	in.metrics.broken.WithLabelValues("not-whole").Inc()
	p.log.Error("the journal can't be used: the log is read again from the committed offset on", "error", err,
		"committed", commit.Offset, "instead_of", c.F)
	return t.replace(a, commit), nil
}

// replace makes a partition without bins in place of the present one. If the present one has read another log, its
// bins can't be read again: they are written.
func (t *takeover) replace(a worker.Assignment, commit kafka.Committed) *partition {
	in, at := t.in, t.at
	in.mu.Lock()
	defer in.mu.Unlock()
	if p := in.partitions[at]; p != nil {
		if p.worker.Stream() != a.Stream {
			in.letGo(p, "the log is another one than before")
		} else {
			in.drop(p)
		}
	}
	p := newPartition(in, at, a)
	p.settle(t.read, commit)
	in.partitions[at] = p
	return p
}

// settle notes when a takeover read the commit of a partition, if records were committed or lie in the journal. For a
// moment a replica may lack the former owner's chunks of these records, and neither head shows their rows (rule R1).
// The moment is one of time that passes: the clock of the service is set, by a second or more when a process starts.
func (p *partition) settle(read time.Time, commit kafka.Committed) {
	if c, _ := journal.ParseCommit(commit.Metadata); max(commit.Offset, c.F) > 0 {
		until := read.Add(p.in.cfg.Linger)
		p.takeover.settled.Store(&until)
	}
}

// hideTakeover makes a head not caught up until former owners' chunks can be read.
func (p *partition) hideTakeover(head *store.PartitionHead) {
	if until := p.takeover.settled.Load(); until != nil && time.Now().Before(*until) {
		head.CaughtUp = max(head.CaughtUp, head.Position+1)
	}
}
