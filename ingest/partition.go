package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/ingest/bins"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"

	"golang.org/x/time/rate"
)

// partition drives the Worker of one assigned partition. It outlives a generation, so that bins stay when the partition
// comes back to this process.
type partition struct {
	in     *Ingester
	at     topicPartition
	worker *worker.Worker
	memory *worker.Memory // the bound that the worker counts towards
	fresh  horizon        // run's
	reader *reader        // run's, and its fetching goroutine's while there is one
	log    *slog.Logger

	// Answers of jobs. It has room for all that may be under way: no job waits for a partition that is not run.
	done chan write.Job
	// wake wakes run, which then takes everything that has come, in a fixed order.
	wake chan struct{}

	loading    atomic.Int64             // records of the journal that are still to be loaded
	refreshing atomic.Bool              // the snapshot is being read for chains that wait for it
	progress   atomic.Pointer[progress] // nil before the first time that an offset was to be committed

	takeover takenOver

	orphaned bool // the topic was missing for a while since the last takeover; Ingester.mu guards it

	// Owned by run.
	pace pace
	commits
	bounds
	generation *generation
	pending    kafka.Batch // fetched; records leave it as they are fed
	deferred   deferredReader
	lacking    bool        // the next pending record waits until it is found out what the worker lacks
	learned    chan learnt // has room for both lookups that may be under way: of pending and of deferred records
	fetching   sync.WaitGroup
}

// takenOver is what takeovers leave in a partition.
type takenOver struct {
	// restored is set once its bins have all rows that the commit counts on, or these can't be had: before, reading
	// must not continue. Owned by takeovers.
	restored bool
	settled  atomic.Pointer[time.Time] // until when replicas may lack what former owners stored; nil: they stored nothing
}

// commits is what was committed in a generation.
type commits struct {
	committed  int64  // last offset, -1 none
	metadata   string // committed with that offset
	lastCommit time.Time
	lost       bool          // the group refuses commits
	refused    retry.Trouble // with commits
}

// bounds is the ends of the log, as far as they are known.
type bounds struct {
	first, end int64
	trimmed    bool          // the log has lost records at its begin since the takeover
	verifies   *rate.Limiter // limits questions for the log's end
	unanswered retry.Trouble // with these questions
}

// learnt is the end of a lookup of what the worker lacked.
type learnt struct {
	waiting  *bool             // set to false for the records that waited
	snapshot *control.Snapshot // newer than the one that was lacking, if there is one
}

func newPartition(in *Ingester, at topicPartition, a worker.Assignment) *partition {
	a.Owner = max(in.cfg.Nonce(), 1)
	memory := in.memoryOf(at.topic)
	log := in.log.With("topic", at.topic, "partition", a.Partition, "stream", a.Stream)
	return &partition{
		in: in, at: at, memory: memory, worker: worker.New(in.configOf(at.topic), a,
			worker.Process{Memory: memory, Observer: in.metrics, Now: in.cfg.Now()}),
		reader:   &reader{topic: in.topicOf(at), partition: at.partition},
		log:      log,
		deferred: newDeferredReader(&reader{topic: in.topicOf(at), partition: at.partition}),
		done:     make(chan write.Job, in.cfg.MaxJobs()),
		wake:     make(chan struct{}, 1),
		learned:  make(chan learnt, 2),
		bounds: bounds{verifies: rate.NewLimiter(rate.Every(verifyEvery), 1), unanswered: retry.Trouble{Log: log,
			Failing: "cannot read the end of the log: committing nothing until then",
			Over:    "the end of the log is known again: committing"}},
		commits: commits{refused: retry.Trouble{Log: log, Failing: "cannot commit the offset, will retry",
			Over: "committing offsets again"}},
	}
}

// run reads until the context ends (nil), because the generation does or the ingester stops, or until the log may be
// another one (errRetake).
func (p *partition) run(ctx context.Context, as *generation) error {
	p.generation = as
	p.lost, p.committed, p.lastCommit = false, -1, p.in.cfg.Now()
	reading, stop := context.WithCancel(ctx)
	batches := make(chan kafka.Batch) // unbuffered: at most one batch waits
	failed := make(chan error, 1)
	p.fetching.Go(func() { p.fetch(reading, p.worker.Position(), batches, failed) })
	defer p.pending.Reuse() // it is fetched again from the position on
	defer p.deferred.end()
	defer p.endLearning() // no lookup is under way any more
	defer p.fetching.Wait()
	defer stop()
	for deferring := false; ctx.Err() == nil; {
		if len(failed) > 0 {
			return <-failed // without a commit: the offsets may be another log's
		}
		p.endLearning()
		if err := p.receiveDeferred(); err != nil {
			return err
		}
		if err := p.step(ctx); err != nil {
			return err
		}
		awaits := p.worker.Deferred().Awaits(p.in.cfg.Now())
		if !awaits && !(deferring && p.worker.Deferred().CatchesUp()) {
			p.feed(reading)
		}
		deferring = p.feedDeferred(reading)
		if err := p.worker.Lost(); err != nil {
			return fmt.Errorf("%w: %w", errLost, err)
		}
		p.commit(false)
		in, full := batches, p.full()
		if full || len(p.pending.Records) > 0 {
			in = nil
		}
		now := p.in.cfg.Now()
		pause := min(max(p.nextWake(now, full).Sub(now), shortestSleep), longestSleep)
		if !full && (deferring || len(p.pending.Records) > 0 && !p.lacking && !awaits) {
			pause = 0
		}
		p.await(ctx, in, pause)
	}
	stop()
	return p.handOver()
}

// await waits for a batch, or until something else has come or the pause is over. It receives the batch whichever of
// them was first, so that what happens does not depend on chance.
func (p *partition) await(ctx context.Context, in <-chan kafka.Batch, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	b, came := kafka.Batch{}, false
	if pause > 0 {
		select {
		case b = <-in:
			came = true
		case <-p.wake:
		case <-ctx.Done():
		case <-timer.C:
		}
	}
	if !came {
		select {
		case b = <-in:
			came = true
		default:
		}
	}
	select {
	case <-p.wake: // run takes next all that woke it
	default:
	}
	if came {
		p.receive(b)
	}
}

func (p *partition) stir() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// errLost is errRetake for rows that this process has lost and the log has not.
var errLost = fmt.Errorf("%w: rows in the spill file are lost here", errRetake)

// startAt records the first offset of the log. Records that were deleted before they were stored are lost.
func (p *partition) startAt(first int64) {
	p.first, p.trimmed = first, false
	if at := p.worker.Position(); at < first {
		if at > 0 {
			p.log.Error("records were deleted before they were stored: the topic's retention is too short",
				"read", at, "first", first, "lost", first-at)
		}
		p.worker.Skip(first)
	}
}

func (p *partition) load(ctx context.Context, c journal.Commit, floor int64) error {
	left := p.in.metrics.loading.WithLabelValues(p.at.labels()...)
	defer left.Set(0)
	p.loading.Store(c.To - c.From)
	defer p.loading.Store(0)
	said := p.in.cfg.Now()
	blocks := p.in.stores.Blocks.Partition(p.at.topic, int32(p.at.partition))
	one := loading{worker: p.worker, log: blocks, now: p.in.cfg.Now, progress: func(n int64) {
		left.Set(float64(n))
		p.loading.Store(n)
		if now := p.in.cfg.Now(); now.Sub(said) >= logLoadEvery {
			said = now
			p.log.Info("loading the journal", "left", n, "of", c.To-c.From)
		}
	}}
	return one.load(ctx, c, floor)
}

// logLoadEvery is the pause between log lines of a long load.
const logLoadEvery = 10 * time.Second

// handOver ends a generation: what is in memory goes to the journal, and is committed, so that the next owner has it at
// once. Without a journal it is written when the process ends, and else kept (rule W8).
func (p *partition) handOver() error {
	switch {
	case p.in.stores.Journal != nil && p.in.stopping():
		p.worker.Flush()
		return p.drain(p.in.cfg.DrainBudget, p.behind)
	case p.in.stores.Journal != nil:
		p.worker.Flush()
		return p.drain(min(p.in.cfg.DrainBudget, flushBudget), p.behind)
	case p.in.stopping():
		p.worker.Drain(p.in.cfg.Now())
		return p.drain(p.in.cfg.DrainBudget, p.worker.Busy)
	}
	p.commit(true)
	return nil
}

// behind reports whether the next owner would have to read some of the log again.
func (p *partition) behind() bool { return p.worker.JournalFloor() < p.worker.Position() }

// flushBudget is how long a rebalance waits until the bins of a partition are in the journal. What is not there by then
// is read again by the next owner.
const flushBudget = 2 * time.Second

func (p *partition) receive(b kafka.Batch) {
	p.pending = b
	p.worker.Bins().SetLogEnd(b.End)
	p.end = b.End
	if b.First > p.first {
		p.first, p.trimmed = b.First, true
	}
	p.in.metrics.lag.WithLabelValues(p.at.labels()...).Set(float64(max(0, b.End-b.Next)))
	if b.Refused != nil {
		p.log.Warn("part of the log is unreadable and becomes a dead letter", "from", b.Refused.First,
			"through", b.Refused.Through, "bytes", b.Refused.Bytes, "why", b.Refused.Why)
		p.worker.FeedUnreadable(unreadable(b.Refused))
	}
	if len(b.Records) == 0 {
		p.worker.Skip(b.Next)
		p.pending.Reuse()
	}
}

// full reports whether the worker must not be fed: memory is full, or dead letters have to be published before.
func (p *partition) full() bool { return p.memory.Full() || p.worker.IsRefusing() }

// fetch reads the partition from an offset on until it fails or the context ends.
func (p *partition) fetch(ctx context.Context, offset int64, out chan<- kafka.Batch, failed chan<- error) {
	patience, silent := pausesFrom(p.in.cfg.RetryBackoff), false
	for pauses := patience.Begin(); ; {
		b, err := p.reader.fetch(ctx, offset)
		switch {
		case ctx.Err() != nil:
			b.Release()
			return
		case errors.Is(err, errRetake):
			failed <- err
			p.stir()
			return
		case err != nil:
			if pauses.Count() >= silentPauses {
				silent = true
				p.log.Warn("cannot fetch records, will retry", "error", err)
			}
			p.in.metrics.retries.WithLabelValues("fetch").Inc()
			if pauses.Wait(ctx) != nil {
				return
			}
			continue
		}
		pauses = patience.Begin()
		if silent {
			silent = false
			p.log.Info("fetching records again")
		}
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

// feed gives the worker the next records. If the worker lacks something for a record, this record and all records
// behind it wait until the worker has it; bins are still cut, journaled and committed.
func (p *partition) feed(ctx context.Context) {
	if p.lacking {
		return
	}
	begun, n := p.in.cfg.Now(), 0
	snapshot := p.in.stores.Directory.Snapshot()
	for n < min(len(p.pending.Records), FeedAtOnce) && !p.full() {
		if err := p.worker.Feed(record(&p.pending.Records[n]), snapshot, begun); err != nil {
			p.learn(ctx, &p.lacking, err)
			break
		}
		n++
	}
	p.pending.Records = p.pending.Records[n:]
	if n > 0 {
		p.pace.add(n, p.in.cfg.Now().Sub(begun))
	}
	if n > 0 && len(p.pending.Records) == 0 {
		p.worker.Skip(p.pending.Next)
		p.pending.Reuse()
	}
}

// learn begins to obtain what the worker lacks, outside the loop, and marks the records that wait for it.
func (p *partition) learn(ctx context.Context, waiting *bool, missing error) {
	*waiting = true
	p.fetching.Go(func() {
		snapshot, _ := p.in.executor.resolve(ctx, missing) // fails only when the run ends
		p.learned <- learnt{waiting, snapshot}
		p.stir()
	})
}

// endLearning takes what lookups have found.
func (p *partition) endLearning() {
	for len(p.learned) > 0 {
		x := <-p.learned
		*x.waiting = false
		if x.snapshot != nil {
			p.worker.SnapshotRead(x.snapshot, p.in.cfg.Now())
		}
	}
}

// step takes the results of jobs, and starts the jobs that are due.
func (p *partition) step(ctx context.Context) error {
	for len(p.done) > 0 {
		p.worker.Done(<-p.done, p.in.cfg.Now())
	}
	if err := p.verifyLogEnd(ctx); err != nil {
		return err
	}
	now, snapshot := p.in.cfg.Now(), p.in.stores.Directory.Snapshot()
	p.worker.SetHorizon(p.fresh.follow(snapshot, p.fetchedBelow(), now))
	for _, job := range p.worker.Jobs(now, snapshot) {
		p.launch(job)
	}
	if p.worker.AwaitsSnapshot() && (ctx.Err() != nil || now.Sub(snapshot.ReadAt) > p.in.cfg.SnapshotAge) {
		p.refresh()
	}
	return nil
}

// refresh reads the snapshot again, outside the loop.
func (p *partition) refresh() {
	if p.refreshing.CompareAndSwap(false, true) {
		p.in.jobs.Go(func() {
			defer p.refreshing.Store(false)
			_ = p.in.refresh(p.in.working)
			_ = retry.Pause(p.in.working, p.in.cfg.RetryBackoff)
		})
	}
}

// fetchedBelow returns the offset below which all records have been fetched.
func (p *partition) fetchedBelow() int64 {
	if len(p.pending.Records) > 0 {
		return p.pending.Next
	}
	return p.worker.Position()
}

// horizon knows which records were fetched before the read of a snapshot began (rule E-R3).
type horizon struct {
	below int64 // these were

	marked   bool
	at       time.Time // then all records below position had been fetched
	position int64
}

// follow returns the offset below which all records were fetched before a snapshot was read; now they are below
// fetched.
func (h *horizon) follow(snapshot *control.Snapshot, fetched int64, now time.Time) int64 {
	if h.marked && snapshot.ReadAt.After(h.at) {
		h.below, h.marked = h.position, false
	}
	if !h.marked && fetched > h.below {
		h.marked, h.at, h.position = true, now, fetched
	}
	return h.below
}

// verifyEvery bounds how often a broker is asked for the log's end, verifyTimeout for how long.
const (
	verifyEvery   = time.Second
	verifyTimeout = 5 * time.Second
)

// verifyLogEnd ends the run when the store knows of records that the log does not have (rule W9). Until that is clear
// nothing is committed.
func (p *partition) verifyLogEnd(ctx context.Context) error {
	tail, ok := p.worker.Bins().Suspect()
	if !ok || ctx.Err() != nil || !p.verifies.AllowN(p.in.cfg.Now(), 1) {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	_, end, err := p.in.topicOf(p.at).Bounds(bounded, p.at.partition)
	if p.unanswered.Report(err); err != nil {
		return nil
	}
	if end <= tail {
		return fmt.Errorf("%w: a chunk goes through offset %d, but the log ends at %d", errRetake, tail, end)
	}
	p.worker.Bins().SetLogEnd(end)
	return nil
}

func (p *partition) launch(job write.Job) {
	p.in.jobs.Go(func() {
		if p.in.executor.Try(p.in.working, job) == nil { // else the process is ending
			p.done <- job
			p.stir()
		}
	})
}

// commit commits the floor, and what of the journal it counts on, when it is time, or now with force (rules W7, J1).
func (p *partition) commit(force bool) {
	now := p.in.cfg.Now()
	if p.lost || !p.worker.MayCommit() || !force && now.Sub(p.lastCommit) < p.in.cfg.CommitEvery {
		return
	}
	p.lastCommit = now
	floor, metadata := p.worker.Floor(), p.worker.JournalCommit().Metadata()
	p.publishProgress(floor)
	p.gauge(floor)
	p.cutBeforeRetention(floor, now)
	if floor == p.committed && metadata == p.metadata {
		p.renewMark(now)
		return
	}
	err := p.generation.commit(p.at, floor, metadata)
	switch {
	case p.generation.lost(err):
		p.lost = true
		p.log.Info("partition was assigned to another process: committing stops", "error", err)
	case err != nil:
		p.in.metrics.retries.WithLabelValues("commit").Inc()
		p.refused.Report(err, "offset", floor)
	default:
		p.refused.Report(nil, "offset", floor)
		p.committed, p.metadata = floor, metadata
		p.renewMark(now)
	}
}

// nearRetention is the share of a log at its begin that is about to be deleted, if records are deleted at all.
const nearRetention = 20

// cutBeforeRetention has bins cut that hold records which the source is about to delete (rule W7).
func (p *partition) cutBeforeRetention(floor int64, now time.Time) {
	labels := p.at.labels()
	p.in.metrics.first.WithLabelValues(labels...).Set(float64(p.first))
	p.in.metrics.kept.WithLabelValues(labels...).Set(float64(floor - p.first))
	if near := p.first + (p.end-p.first)/nearRetention; p.trimmed && floor < near {
		p.worker.CutBelow(near, now)
	}
}

func (p *partition) gauge(floor int64) {
	labels, position := p.at.labels(), p.worker.Position()
	p.in.metrics.uncommitted.WithLabelValues(labels...).Set(float64(position - floor))
	p.in.metrics.unjournaled.WithLabelValues(labels...).Set(float64(position - p.worker.JournalFloor()))
	p.worker.Stalled(func(f bins.Fault, chains int) {
		p.in.metrics.stalled.WithLabelValues(p.at.topic, labels[1], string(f)).Set(float64(chains))
	})
	p.in.metrics.bins.WithLabelValues(labels...).Set(float64(p.worker.OpenBins()))
	p.gaugeDeferred()
}

func (p *partition) renewMark(now time.Time) {
	if s := p.worker.Committed(p.committed, now); s != nil {
		p.launch(s)
	}
}

// drain runs the partition without fetching until busy is false, or the budget is spent, and commits.
func (p *partition) drain(within time.Duration, busy func() bool) error {
	budget, spent := context.WithTimeout(context.Background(), within)
	defer spent()
	ended, end := context.WithCancel(context.Background())
	end() // the log's end is not asked for any more
	p.commit(true)
	for p.worker.Lost() == nil && busy() {
		if err := p.step(ended); err != nil {
			return err
		}
		p.commit(false)
		if !p.awaitJob(budget) {
			p.log.Info("drain budget is spent: the rest will be read from Kafka again")
			break
		}
	}
	p.commit(true)
	return nil
}

// awaitJob waits until a job is done, or for a moment. It reports false when the context ends.
func (p *partition) awaitJob(ctx context.Context) bool {
	p.await(ctx, nil, p.in.cfg.RetryBackoff)
	return ctx.Err() == nil
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
