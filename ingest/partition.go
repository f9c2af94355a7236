package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// errRetake says that the log may be another one than it was: the partition must be taken over anew.
var errRetake = errors.New("the log is not the one that was read before")

// partition drives the Worker of one assigned partition. It outlives a generation, so that bins stay when the partition
// comes back to this process.
type partition struct {
	in     *Ingester
	id     int
	worker *Worker
	log    *slog.Logger

	done chan Job      // answers of jobs; has room for all that may be under way
	gone chan struct{} // closed when the worker was dropped and nobody waits for answers

	// Owned by run.
	committed   int64 // last offset committed, -1 none
	lastCommit  time.Time
	lost        bool // the generation refuses commits
	running     int
	pending     []Record // fetched and not fed yet
	pendingNext int64
}

// maxJobs bounds what one partition has under way besides chunks: notes, one burial, one stamp.
const maxJobs = 2*maxNotes + 8

func newPartition(in *Ingester, a Assignment) *partition {
	return &partition{
		in: in, id: int(a.Partition), worker: newWorker(in.cfg, a, in.memory, in.metrics),
		log:  in.log.With("partition", a.Partition, "stream", a.Stream),
		done: make(chan Job, in.cfg.MaxWrites+maxJobs), gone: make(chan struct{}), committed: -1,
	}
}

// run reads until the generation ends (nil), the ingester stops (nil), or the log may be another one (errRetake).
func (p *partition) run(gen context.Context, generation *kafka.Generation) error {
	p.lost, p.lastCommit = false, p.in.cfg.Now()
	reading, stop := context.WithCancel(gen)
	var fetching sync.WaitGroup
	batches := make(chan batch) // unbuffered: at most one batch waits
	failed := make(chan error, 1)
	fetching.Go(func() { p.fetch(reading, p.worker.Position(), batches, failed) })
	defer fetching.Wait()
	defer stop()
	for {
		if err := p.step(); err != nil {
			return err
		}
		if err := p.feed(gen); err != nil {
			return err
		}
		p.commit(generation, false)
		in := batches
		if len(p.pending) > 0 || p.in.memory.full() {
			in = nil
		}
		var more <-chan struct{}
		if len(p.pending) > 0 && !p.in.memory.full() {
			more = closed
		}
		now := p.in.cfg.Now()
		timer := time.NewTimer(p.worker.Next(now).Sub(now))
		select {
		case b := <-in:
			p.pending, p.pendingNext = b.records, b.next
			p.in.metrics.lag.WithLabelValues(strconv.Itoa(p.id)).Set(float64(max(0, b.end-b.next)))
			if len(b.records) == 0 {
				p.worker.Skip(b.next)
			}
		case <-more:
		case job := <-p.done:
			p.take(job)
		case err := <-failed:
			timer.Stop()
			p.commit(generation, true)
			return err
		case <-p.in.stopping:
			timer.Stop()
			stop()
			return p.drain(generation)
		case <-gen.Done():
			timer.Stop()
			p.commit(generation, true)
			return nil
		case <-timer.C:
		}
		timer.Stop()
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// fetch reads the partition from an offset on until it fails or the context ends.
func (p *partition) fetch(ctx context.Context, offset int64, out chan<- batch, failed chan<- error) {
	f := p.in.broker.fetcher(p.id)
	missing := false // the topic was not there for a while: it may have been made anew
	for tries := 0; ; {
		b, err := f.fetch(ctx, offset)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, kafka.OffsetOutOfRange), err == nil && missing:
			failed <- fmt.Errorf("%w: %w", errRetake, cmp.Or(err, error(kafka.UnknownTopicOrPartition)))
			return
		case err != nil:
			missing = missing || errors.Is(err, kafka.UnknownTopicOrPartition)
			tries++
			if tries > maxDoublings {
				p.log.Warn("no records for a while", "err", err)
			}
			p.in.metrics.retries.WithLabelValues("fetch").Inc()
			if pause(ctx, p.in.cfg.RetryBackoff<<min(tries, maxDoublings)) != nil {
				return
			}
			continue
		}
		tries = 0
		if len(b.records) == 0 && b.next == offset {
			continue
		}
		offset = b.next
		select {
		case out <- b:
		case <-ctx.Done():
			return
		}
	}
}

// feedAtOnce is how many records are taken before jobs are looked for.
const feedAtOnce = 256

// feed gives the worker the next records; it waits for what the worker misses in the map.
func (p *partition) feed(ctx context.Context) error {
	n := min(len(p.pending), feedAtOnce)
	for i := 0; i < n; {
		if p.in.memory.full() {
			n = i
			break
		}
		view := p.in.stores.Directory.View()
		err := p.worker.Feed(p.pending[i], view)
		if err == nil {
			i++
			continue
		}
		if err := p.in.executor.learn(ctx, p.worker, err); err != nil {
			if ctx.Err() != nil {
				p.pending = p.pending[i:]
				return nil
			}
			return err
		}
	}
	p.pending = p.pending[n:]
	if n > 0 && len(p.pending) == 0 {
		p.worker.Skip(p.pendingNext)
	}
	return nil
}

// step takes the answers that have come, and starts what is to be done.
func (p *partition) step() error {
	for more := true; more; {
		select {
		case job := <-p.done:
			p.take(job)
		default:
			more = false
		}
	}
	if err := p.verify(); err != nil {
		return err
	}
	for _, job := range p.worker.Jobs(p.in.cfg.Now(), p.in.stores.Directory.View()) {
		p.launch(job)
	}
	return nil
}

// verify ends the run when the store knows of records that the log does not have (rule W9).
func (p *partition) verify() error {
	tail, ok := p.worker.Suspect()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(p.in.working, 10*time.Second)
	defer cancel()
	_, end, err := p.in.broker.Bounds(ctx, p.id)
	if err != nil {
		p.log.Warn("log end not known, committing nothing until it is", "err", err)
		return nil
	}
	if end <= tail {
		return fmt.Errorf("%w: a chunk goes through offset %d, but the log ends at %d", errRetake, tail, end)
	}
	p.worker.Trusted()
	return nil
}

func (p *partition) launch(job Job) {
	p.running++
	p.in.jobs.Go(func() {
		if err := p.in.executor.Run(p.in.working, job); err != nil {
			return // the process is ending
		}
		select {
		case p.done <- job:
		case <-p.gone:
		}
	})
}

func (p *partition) take(job Job) {
	p.running--
	p.worker.Done(job, p.in.cfg.Now())
}

// commit commits the floor when it is time, or now (rule W7).
func (p *partition) commit(generation *kafka.Generation, force bool) {
	now := p.in.cfg.Now()
	if _, suspect := p.worker.Suspect(); p.lost || suspect || !force && now.Sub(p.lastCommit) < p.in.cfg.CommitEvery {
		return
	}
	p.lastCommit = now
	floor := p.worker.Floor()
	p.in.metrics.behind.WithLabelValues(strconv.Itoa(p.id)).Set(float64(p.worker.Position() - floor))
	p.in.metrics.bins.WithLabelValues(strconv.Itoa(p.id)).Set(float64(p.worker.OpenBins()))
	if floor == p.committed {
		return
	}
	err := generation.CommitOffsets(map[string]map[int]int64{p.in.cfg.Topic: {p.id: floor}})
	switch {
	case errors.Is(err, kafka.IllegalGeneration), errors.Is(err, kafka.UnknownMemberId), errors.Is(err, kafka.RebalanceInProgress):
		p.lost = true
		p.log.Info("the partition went elsewhere, committing stops", "err", err)
	case err != nil:
		p.in.metrics.retries.WithLabelValues("commit").Inc()
		p.log.Warn("offset not committed", "offset", floor, "err", err)
	default:
		p.committed = floor
		if s := p.worker.Committed(floor, now); s != nil {
			p.launch(s)
		}
	}
}

// drain writes what is in memory, the fullest bins first, until the budget is spent, and commits (rule W8).
func (p *partition) drain(generation *kafka.Generation) error {
	budget := time.NewTimer(p.in.cfg.DrainBudget)
	defer budget.Stop()
	p.worker.Drain()
	for {
		if err := p.step(); err != nil {
			return err
		}
		if !p.worker.Busy() {
			break
		}
		select {
		case job := <-p.done:
			p.take(job)
			continue
		case <-time.After(p.in.cfg.RetryBackoff):
			continue
		case <-budget.C:
			p.log.Info("drain budget spent: the rest is read again from Kafka at the next start")
		}
		break
	}
	p.commit(generation, true)
	return nil
}
