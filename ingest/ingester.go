// Package ingest reads readings from Kafka, keeps them in bins, and writes them as chunks: at least once
// in, exactly once visible. docs/protocol.md states the rules, numbered W1 to W11, that comments here refer to.
//
// The protocol for one partition is worker.Worker, a state machine without goroutine or I/O. Ingester runs Workers
// for the partitions that the consumer group assigns, and Executor does what Workers ask for. The package
// knows stores by their contract only.
package ingest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/store"

	kafkago "github.com/segmentio/kafka-go"
)

// Ingester reads one topic as a member of a consumer group.
type Ingester struct {
	cfg      Config
	stores   Stores
	topic    *kafka.Topic
	memory   *worker.Memory
	metrics  *metrics
	executor *Executor
	log      *slog.Logger

	// Set by Run before anything else starts.
	running context.Context // Run's own: ends when intake does
	working context.Context // of jobs: ends when the drain is over
	jobs    sync.WaitGroup

	mu         sync.Mutex // guards below
	member     bool       // the group has given partitions to this process, be it none
	assigned   []int      // which ones
	partitions map[int]*partition
}

// New makes an Ingester. It starts nothing.
func New(cfg Config, stores Stores) (*Ingester, error) {
	cfg = cfg.withDefaults().with(stores)
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	memory := worker.NewMemory(cfg.MemoryBytes)
	m := newMetrics(cfg.Registerer, memory, cfg.Logger)
	return &Ingester{
		cfg: cfg, stores: stores, topic: cfg.Kafka.Topic(cfg.Topic), memory: memory, metrics: m,
		executor:   newExecutor(cfg, stores, m),
		log:        cfg.Logger,
		partitions: map[int]*partition{},
	}, nil
}

// afterDrain is how long leaving the group may take when the drain budget is spent.
const afterDrain = time.Second

// Run reads until the context ends; then it writes what is in memory as far as the drain budget goes, commits, leaves
// the group and returns nil. That takes the drain budget and a second at most, whoever does not answer. It does the
// same, and fails with ErrDenied, when the store denies access for too long. It may be called once.
func (in *Ingester) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in.executor.denial.stop = stop
	err := in.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}

func (in *Ingester) run(ctx context.Context) error {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer in.jobs.Wait()
	defer cancel()
	in.running, in.working = ctx, working
	if err := in.meet(ctx); err != nil {
		return ended(ctx, err)
	}
	line := newLifeline()
	group, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: in.cfg.Group, Brokers: in.cfg.Kafka.Brokers(), Topics: []string{in.cfg.Topic},
		Dialer:            line.dialer(in.cfg.Kafka.Dialer()),
		HeartbeatInterval: time.Second, SessionTimeout: in.cfg.Session, RebalanceTimeout: in.cfg.Session,
		JoinGroupBackoff: joinBackoff, Timeout: max(30*time.Second, in.cfg.Kafka.RequestTimeout()),
		WatchPartitionChanges: true, PartitionWatchInterval: in.cfg.WatchEvery,
		StartOffset:   kafkago.FirstOffset,
		RetentionTime: 365 * 24 * time.Hour,
	})
	if err != nil {
		return err
	}
	in.jobs.Go(func() { in.shutdown(group, line) })
	for ctx.Err() == nil {
		generation, err := group.Next(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			in.metrics.retries.WithLabelValues("join").Inc()
			in.log.Warn("not in the consumer group yet", "err", err)
			continue // the group backs off by itself
		}
		began := in.cfg.Now()
		over := make(chan struct{})
		generation.Start(func(gen context.Context) {
			defer close(over)
			in.own(gen, generation)
		})
		<-over
		if in.cfg.Now().Sub(began) < joinBackoff {
			_ = retry.Pause(ctx, joinBackoff) // such as while there is no topic
		}
	}
	return group.Close()
}

// shutdown goes on from the end of intake. The partitions of the last generation stop fetching, write what is in memory
// and commit (partition.drain); the group leaves as soon as they have, and joins no other; and whoever has not answered
// when the budget is spent is cut off.
func (in *Ingester) shutdown(group *kafkago.ConsumerGroup, line *lifeline) {
	<-in.running.Done()
	var leaving sync.WaitGroup
	leaving.Go(func() { _ = group.Close() })
	_ = retry.Pause(in.working, in.cfg.DrainBudget+afterDrain)
	line.cut()
	leaving.Wait()
}

// joinBackoff is the least time from one generation to the next.
const joinBackoff = 500 * time.Millisecond

// stopping reports whether intake has ended for good.
func (in *Ingester) stopping() bool { return in.running.Err() != nil }

// meet waits until the map of tenants and the topic are there.
func (in *Ingester) meet(ctx context.Context) error {
	err := in.executor.persist(ctx, "map", func() error { return in.refresh(ctx) })
	if err != nil {
		return err
	}
	return in.executor.persist(ctx, "metadata", func() error { _, _, err := in.topic.Describe(ctx); return err })
}

// refresh makes one attempt at reading the map.
func (in *Ingester) refresh(ctx context.Context) error {
	return in.executor.attempt(ctx, func(ctx context.Context) error {
		_, err := in.stores.Directory.Refresh(ctx)
		return err
	})
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// own drives the partitions of one generation until it ends or the ingester stops.
func (in *Ingester) own(gen context.Context, generation *kafkago.Generation) {
	assigned := generation.Assignments[in.cfg.Topic]
	in.keep(assigned)
	in.log.Info("partitions assigned", "generation", generation.ID, "partitions", len(assigned))
	ctx, leave := context.WithCancel(gen)
	defer leave()
	defer context.AfterFunc(in.running, leave)()
	var owners sync.WaitGroup
	for _, a := range assigned {
		owners.Go(func() {
			defer leave() // the generation ends when one partition does
			in.drive(ctx, generation, a)
		})
	}
	if len(assigned) == 0 {
		<-ctx.Done()
	}
	owners.Wait()
}

// keep notes which partitions are here, and drops the workers of those that went elsewhere.
func (in *Ingester) keep(assigned []kafkago.PartitionAssignment) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.member, in.assigned = true, nil
	for _, a := range assigned {
		in.assigned = append(in.assigned, a.ID)
	}
	for id, p := range in.partitions {
		if !slices.ContainsFunc(assigned, func(a kafkago.PartitionAssignment) bool { return a.ID == id }) {
			in.drop(p)
		}
	}
}

// drop forgets a worker and its bins; the caller holds the lock.
func (in *Ingester) drop(p *partition) {
	delete(in.partitions, p.id)
	p.worker.Release()
}

// drive takes a partition over and reads it until the context ends.
func (in *Ingester) drive(ctx context.Context, generation *kafkago.Generation, a kafkago.PartitionAssignment) {
	reached := int64(0)
	for ctx.Err() == nil {
		var p *partition
		err := in.executor.persist(ctx, "takeover", func() (err error) {
			p, err = in.resume(ctx, a.ID, a.Offset, reached)
			return err
		})
		if err != nil {
			return
		}
		err = p.run(ctx, generation)
		if !errors.Is(err, errRetake) {
			return
		}
		in.log.Warn("partition is taken over anew", "partition", a.ID, "err", err)
		_ = retry.Pause(ctx, in.cfg.RetryBackoff)
		reached = p.worker.Position()
		if tail, ok := p.worker.Suspect(); ok {
			reached = tail + 1
		}
	}
}

// resume returns the partition as it was left in this process, if its log is still the same, or a new one.
func (in *Ingester) resume(ctx context.Context, id int, committed, reached int64) (*partition, error) {
	in.mu.Lock()
	p := in.partitions[id]
	in.mu.Unlock()
	known := memories{reached: reached}
	if p != nil {
		known = memories{reached: max(reached, p.worker.Position()), last: p.reader.last}
	}
	a, err := in.takeover(ctx, id, committed, known)
	if err != nil {
		return nil, err
	}
	// What was committed lies in containers that were asked for before: heads tell of them from here on (rule R1).
	if err := in.refresh(ctx); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if p != nil && p.worker.Stream() == a.Stream && !a.Unmarked {
		p.worker.Resume(a, in.cfg.Now())
		p.reader.recognised()
		return p, nil
	}
	if p != nil {
		in.drop(p)
	}
	p = newPartition(in, a)
	in.partitions[id] = p
	return p, nil
}

// CaughtUp reports whether every partition that the group has given to this process has passed the log end seen when it
// came. Before the first generation it is false.
func (in *Ingester) CaughtUp() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, id := range in.assigned {
		p := in.partitions[id]
		if p == nil || !p.worker.CaughtUp() {
			return false
		}
	}
	return in.member
}

// Heads is store.Heads.
func (in *Ingester) Heads(ctx context.Context, req store.HeadRequest) ([]store.PartitionHead, error) {
	workers := in.workers()
	out := make([]store.PartitionHead, 0, len(workers))
	for _, w := range workers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, w.Snapshot(req))
	}
	// The map is taken after the snapshots: no chunk that they leave out lies in a container that it lacks
	// (Executor.create).
	containers := in.stores.Directory.View().ContainersOf(req.Tenant, req.Range)
	for i := range out {
		out[i].Containers = containers
	}
	return out, nil
}

// Devices is store.Heads.
func (in *Ingester) Devices(ctx context.Context, req store.ListRequest) ([]store.HeadDevice, error) {
	var out []store.HeadDevice
	for _, w := range in.workers() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, w.Devices(req)...)
	}
	return out, nil
}

func (in *Ingester) workers() []*worker.Worker {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := make([]*worker.Worker, 0, len(in.partitions))
	for _, p := range in.partitions {
		out = append(out, p.worker)
	}
	return out
}
