package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/kafka"

	kafkago "github.com/segmentio/kafka-go"
	"golang.org/x/time/rate"
)

// errRetake says that the log may be another one than it was: the partition must be taken over anew.
var errRetake = errors.New("the log is not the one that was read before")

// partition drives the Worker of one assigned partition. It outlives a generation, so that bins stay when the partition
// comes back to this process.
type partition struct {
	in     *Ingester
	id     int
	worker *worker.Worker
	reader *reader // run's, and its fetching goroutine's while there is one
	log    *slog.Logger

	// Answers of jobs. It has room for all that may be under way, so that nobody waits for a partition that is not run.
	done chan worker.Job

	// Owned by run.
	committed  int64 // last offset committed in this generation, -1 none
	lastCommit time.Time
	verifies   *rate.Limiter // of questions for the log's end
	lost       bool          // the generation refuses commits
	pending    kafka.Batch   // fetched; records leave it as they are fed
}

func newPartition(in *Ingester, a worker.Assignment) *partition {
	return &partition{
		in: in, id: int(a.Partition), worker: worker.New(in.cfg.Config, a, in.memory, in.cfg.Now(), in.metrics),
		reader:   &reader{topic: in.topic, partition: int(a.Partition)},
		log:      in.log.With("partition", a.Partition, "stream", a.Stream),
		done:     make(chan worker.Job, in.cfg.MaxJobs()),
		verifies: rate.NewLimiter(rate.Every(verifyEvery), 1),
	}
}

// run reads until the context ends (nil), because the generation does or the ingester stops, or until the log may be
// another one (errRetake).
func (p *partition) run(ctx context.Context, generation *kafkago.Generation) error {
	p.lost, p.committed, p.lastCommit = false, -1, p.in.cfg.Now()
	reading, stop := context.WithCancel(ctx)
	var fetching sync.WaitGroup
	batches := make(chan kafka.Batch) // unbuffered: at most one batch waits
	failed := make(chan error, 1)
	fetching.Go(func() { p.fetch(reading, p.worker.Position(), batches, failed) })
	defer p.forget() // it is fetched again from the position on
	defer fetching.Wait()
	defer stop()
	for ctx.Err() == nil {
		if err := p.step(ctx); err != nil {
			return err
		}
		if err := p.feed(ctx); err != nil {
			return err
		}
		p.commit(generation, false)
		in, more := batches, (<-chan struct{})(nil)
		if full := p.in.memory.Full(); full || len(p.pending.Records) > 0 {
			in = nil
			if !full {
				more = closed
			}
		}
		now := p.in.cfg.Now()
		timer := time.NewTimer(p.worker.Next(now).Sub(now))
		select {
		case b := <-in:
			p.receive(b)
		case <-more:
		case job := <-p.done:
			p.worker.Done(job, p.in.cfg.Now())
		case err := <-failed:
			timer.Stop()
			return err // without a commit: the offsets may be those of another log
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	stop()
	return p.leave(generation)
}

// leave ends a generation: it commits, and when it is the last one, writes what is in memory before that (rule W8).
func (p *partition) leave(generation *kafkago.Generation) error {
	if p.in.stopping() {
		return p.drain(generation)
	}
	p.commit(generation, true)
	return nil
}

// receive takes what was fetched.
func (p *partition) receive(b kafka.Batch) {
	p.pending = b
	p.worker.Reaches(b.End)
	p.in.metrics.lag.WithLabelValues(strconv.Itoa(p.id)).Set(float64(max(0, b.End-b.Next)))
	if b.Refused != nil {
		p.log.Warn("a part of the log can't be read: it is a dead letter", "from", b.Refused.First, "through",
			b.Refused.Through,
			"bytes", b.Refused.Bytes, "why", b.Refused.Why)
		p.worker.Pass(unreadable(b.Refused))
	}
	if len(b.Records) == 0 {
		p.worker.Skip(b.Next)
		p.forget()
	}
}

// forget gives back what was fetched and is not needed any more.
func (p *partition) forget() {
	p.pending.Release()
	p.pending = kafka.Batch{}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// fetch reads the partition from an offset on until it fails or the context ends.
func (p *partition) fetch(ctx context.Context, offset int64, out chan<- kafka.Batch, failed chan<- error) {
	patience := pausesFrom(p.in.cfg.RetryBackoff)
	for pauses := patience.Begin(); ; {
		b, err := p.reader.fetch(ctx, offset)
		switch {
		case ctx.Err() != nil:
			b.Release()
			return
		case errors.Is(err, errRetake):
			failed <- err
			return
		case err != nil:
			if pauses.Count() >= quietPauses {
				p.log.Warn("no records for a while", "err", err)
			}
			p.in.metrics.retries.WithLabelValues("fetch").Inc()
			if pauses.Wait(ctx) != nil {
				return
			}
			continue
		}
		pauses = patience.Begin()
		if b.Next == offset {
			continue
		}
		offset = b.Next
		select {
		case out <- b:
		case <-ctx.Done():
			b.Release()
			return
		}
	}
}

// feedAtOnce is how many records are taken before jobs are looked for.
const feedAtOnce = 256

// feed gives the worker the next records; it waits for what the worker misses in the map.
func (p *partition) feed(ctx context.Context) error {
	n := min(len(p.pending.Records), feedAtOnce)
	for i := 0; i < n; {
		if p.in.memory.Full() {
			n = i
			break
		}
		view := p.in.stores.Directory.View()
		err := p.worker.Feed(record(&p.pending.Records[i]), view, p.in.cfg.Now())
		if err == nil {
			i++
			continue
		}
		if err := p.in.executor.learn(ctx, p.worker, err); err != nil {
			if ctx.Err() != nil {
				p.pending.Records = p.pending.Records[i:]
				return nil
			}
			return err
		}
	}
	p.pending.Records = p.pending.Records[n:]
	if n > 0 && len(p.pending.Records) == 0 {
		p.worker.Skip(p.pending.Next)
		p.forget()
	}
	return nil
}

// step takes the answers that have come, and starts what is to be done.
func (p *partition) step(ctx context.Context) error {
	for more := true; more; {
		select {
		case job := <-p.done:
			p.worker.Done(job, p.in.cfg.Now())
		default:
			more = false
		}
	}
	if err := p.verify(ctx); err != nil {
		return err
	}
	for _, job := range p.worker.Jobs(p.in.cfg.Now(), p.in.stores.Directory.View()) {
		p.launch(job)
	}
	return nil
}

// verifyEvery bounds how often a broker is asked for the log's end, verifyTimeout for how long.
const (
	verifyEvery   = time.Second
	verifyTimeout = 5 * time.Second
)

// verify ends the run when the store knows of records that the log does not have (rule W9). Until it is clear nothing
// is committed.
func (p *partition) verify(ctx context.Context) error {
	tail, ok := p.worker.Suspect()
	if !ok || ctx.Err() != nil || !p.verifies.AllowN(p.in.cfg.Now(), 1) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	_, end, err := p.in.topic.Bounds(bounded, p.id)
	if err != nil {
		p.log.Warn("log end not known, committing nothing until it is", "err", err)
		return nil
	}
	if end <= tail {
		return fmt.Errorf("%w: a chunk goes through offset %d, but the log ends at %d", errRetake, tail, end)
	}
	p.worker.Reaches(end)
	return nil
}

func (p *partition) launch(job worker.Job) {
	p.in.jobs.Go(func() {
		if p.in.executor.Try(p.in.working, job) == nil { // else the process is ending
			p.done <- job
		}
	})
}

// commit commits the floor when it is time, or now (rule W7).
func (p *partition) commit(generation *kafkago.Generation, force bool) {
	now := p.in.cfg.Now()
	if _, suspect := p.worker.Suspect(); p.lost || suspect || !force && now.Sub(p.lastCommit) < p.in.cfg.CommitEvery {
		return
	}
	p.lastCommit = now
	floor := p.worker.Floor()
	p.in.metrics.behind.WithLabelValues(strconv.Itoa(p.id)).Set(float64(p.worker.Position() - floor))
	p.worker.Stalled(func(f worker.Fault, chains int) {
		p.in.metrics.stalled.WithLabelValues(strconv.Itoa(p.id), string(f)).Set(float64(chains))
	})
	p.in.metrics.bins.WithLabelValues(strconv.Itoa(p.id)).Set(float64(p.worker.OpenBins()))
	if floor == p.committed {
		p.stamp(now)
		return
	}
	err := generation.CommitOffsets(map[string]map[int]int64{p.in.cfg.Topic: {p.id: floor}})
	switch {
	case errors.Is(err, kafkago.IllegalGeneration), errors.Is(err, kafkago.UnknownMemberId),
		errors.Is(err, kafkago.RebalanceInProgress):
		p.lost = true
		p.log.Info("the partition went elsewhere, committing stops", "err", err)
	case err != nil:
		p.in.metrics.retries.WithLabelValues("commit").Inc()
		p.log.Warn("offset not committed", "offset", floor, "err", err)
	default:
		p.committed = floor
		p.stamp(now)
	}
}

// stamp renews the partition's mark when that is due.
func (p *partition) stamp(now time.Time) {
	if s := p.worker.Committed(p.committed, now); s != nil {
		p.launch(s)
	}
}

// drain writes what is in memory, the fullest bins first, until the budget is spent, and commits (rule W8).
func (p *partition) drain(generation *kafkago.Generation) error {
	budget := time.NewTimer(p.in.cfg.DrainBudget)
	defer budget.Stop()
	ended, end := context.WithCancel(context.Background())
	end() // the log's end is not asked for any more
	p.worker.Drain(p.in.cfg.Now())
	p.commit(generation, true)
	for spent := false; p.worker.Busy() && !spent; {
		if err := p.step(ended); err != nil {
			return err
		}
		p.commit(generation, false)
		look := time.NewTimer(p.in.cfg.RetryBackoff)
		select {
		case job := <-p.done:
			p.worker.Done(job, p.in.cfg.Now())
		case <-look.C:
		case <-budget.C:
			spent = true
			p.log.Info("drain budget spent: the rest is read again from Kafka at the next start")
		}
		look.Stop()
	}
	p.commit(generation, true)
	return nil
}
