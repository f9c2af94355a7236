// Package ingest reads readings from Kafka, keeps them in bins, and writes them as chunks: at least once
// in, exactly once visible. docs/internals/protocol.md states the rules, numbered W1 to W11, that comments here refer
// to.
//
// The protocol for one partition is worker.Worker, a state machine without goroutine or I/O. Ingester runs Workers
// for the partitions that the consumer group assigns, and Executor does what Workers ask for. The package
// knows stores by their contract only.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/journal/spill"
	"binnacle/ingest/worker"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
)

// Ingester reads topics, as a member of a consumer group or a fixed share of the partitions.
type Ingester struct {
	cfg      Config
	assigns  *assignment // nil: the group does
	stores   Stores
	set      topics.Set
	sources  *kafka.Sources
	memory   *worker.Memory
	share    *worker.Memory // the part of memory that partitions of backfills have together
	metrics  *metrics
	executor *Executor
	spill    *spill.Store // nil: none
	expected expectation  // owned by the caller of Forecast
	log      *slog.Logger

	// Set by Run before anything else starts.
	running context.Context // Run's own: ends when intake does
	working context.Context // for jobs: ends when the drain is over
	jobs    sync.WaitGroup

	layout atomic.Pointer[layout] // the newest; never nil

	mu         sync.Mutex       // guards below
	member     bool             // partitions were given to this process, be it none
	assigned   []topicPartition // which ones
	partitions map[topicPartition]*partition
	retired    map[*partition]bool // partitions of logs that are gone: they write what they hold
}

// New makes an Ingester. It starts nothing.
func New(cfg Config, stores Stores) (*Ingester, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil || cfg.Kafka == nil {
		return nil, cmp.Or(err, errors.New("there is no cluster to read from"))
	}
	assigns, err := parseAssignment(cfg.Assign)
	if err != nil {
		return nil, err
	}
	set, err := cfg.Set()
	if err != nil {
		return nil, err
	}
	if cfg.UseJournal == "on" && stores.Journal == nil {
		j := NewTopicJournal(cfg.Kafka)
		stores.Journal, stores.Blocks = j, j
	}
	if cfg = cfg.with(stores); cfg.Register {
		cfg.Registrations = admit.NewRegistrations(cfg.RegisterRate)
	}
	memory := worker.NewMemory(cfg.MemoryBytes)
	share := memory.Share(backfillShare)
	m := newMetrics(cfg.Registerer, memory, cfg.Logger)
	in := &Ingester{
		cfg: cfg, assigns: assigns, stores: stores, set: set, sources: cfg.Kafka.Sources(set),
		memory: memory, share: share, metrics: m,
		executor:   newExecutor(cfg, stores, m),
		log:        cfg.Logger,
		partitions: map[topicPartition]*partition{}, retired: map[*partition]bool{},
	}
	in.layout.Store(&layout{changed: make(chan struct{})})
	if cfg.SpillDir != "" {
		files, err := spill.Open(cfg.SpillDir)
		if err != nil {
			return nil, fmt.Errorf("open the spill file: %w", err)
		}
		in.spill, in.cfg.Shelf = files, ShelfOf(files)
		m.registerSpill(cfg.Registerer, files)
	}
	return in, nil
}

// afterDrain is the time for leaving the group when the drain budget is spent.
const afterDrain = time.Second

// Run reads until the context ends; then it writes what is in memory as far as the drain budget allows, commits, leaves
// the group and returns nil. That takes the drain budget and a second at most, even if neither store nor broker
// answers. When the store denies access for too long, it does the same and fails with ErrDenied. It may be called once.
func (in *Ingester) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	in.executor.access.stop = stop
	err := in.run(ctx)
	if in.spill != nil {
		err = errors.Join(err, in.spill.Close())
	}
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
	look := &topicWatcher{in: in, logged: map[string]bool{}, missing: map[string]time.Time{}}
	if err := in.awaitSources(ctx, look); err != nil {
		return ended(ctx, err)
	}
	in.jobs.Go(func() { look.watch(ctx) })
	if in.cfg.UseJournal == "on" {
		in.jobs.Go(func() { in.watchJournals(ctx) })
	}
	line := newGroupConns()
	in.jobs.Go(func() { in.shutdown(line) })
	defer in.awaitRetired(line)
	if in.assigns != nil {
		return in.runAssigned(ctx, line)
	}
	return in.runMember(ctx, line)
}

// shutdown waits for the end of intake. The partitions of the last generation stop fetching, write what is in memory
// and commit (partition.handOver); when the budget is spent, connections that still wait for an answer are closed.
func (in *Ingester) shutdown(line *groupConns) {
	<-in.running.Done()
	_ = retry.Pause(in.working, in.cfg.DrainBudget+afterDrain)
	line.closeAll()
}

func (in *Ingester) stopping() bool { return in.running.Err() != nil }

// awaitSources waits until there is a snapshot and a topic.
func (in *Ingester) awaitSources(ctx context.Context, look *topicWatcher) error {
	if err := in.executor.persist(ctx, "map", func() error { return in.refresh(ctx) }); err != nil {
		return err
	}
	return in.executor.persist(ctx, "metadata", func() error { return look.await(ctx) })
}

func (in *Ingester) topicOf(p topicPartition) *kafka.Topic { return in.cfg.Kafka.Topic(p.topic) }

// backfillShare is the part of memory that partitions of backfills have together. While they have it, they wait, and
// the others are read on.
const backfillShare = 0.25

func (in *Ingester) memoryOf(topic string) *worker.Memory {
	if topics.IsBackfill(topic) {
		return in.share
	}
	return in.memory
}

func (in *Ingester) configOf(topic string) worker.Config {
	cfg := in.cfg.Config
	cfg.Topic = topic
	of, _, _ := in.set.Of(topic) // it was found by that
	cfg.Decode.Bound = of.Tenant
	return cfg
}

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

// runGeneration drives the partitions of one generation until its context ends or the ingester stops.
func (in *Ingester) runGeneration(ctx context.Context, t *generation) {
	if in.setAssigned(t.partitions) {
		in.log.Info("partitions assigned", "generation", t.id, "partitions", len(t.partitions))
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	defer context.AfterFunc(in.running, leave)()
	var owners sync.WaitGroup
	for _, at := range t.partitions {
		owners.Go(func() {
			defer leave() // the generation ends when one partition does
			in.runPartition(ctx, t, at)
		})
	}
	if len(t.partitions) == 0 {
		<-ctx.Done()
	}
	owners.Wait()
}

// setAssigned records which partitions are here, reports whether they have changed, and drops the workers of
// partitions that went elsewhere. Partitions of a missing topic are assigned to no process: they stay. When the topic
// is back, or lacks such a partition, the log may have lost the records of their bins: the bins are written.
func (in *Ingester) setAssigned(partitions []topicPartition) (changed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	changed = !in.member || !slices.Equal(in.assigned, partitions)
	there := in.layout.Load().topics
	in.member, in.assigned = true, partitions
	for at, p := range in.partitions {
		switch of := there[at.topic]; {
		case slices.Contains(partitions, at) || of == nil:
		case p.orphaned || !slices.Contains(of, at.partition):
			in.letGo(p, "the topic was deleted and made anew")
		default:
			in.drop(p)
		}
	}
	return changed
}

// letGo gives up a worker because its log is gone. It writes what it holds, dead letters and times of devices too. The
// caller holds the lock.
func (in *Ingester) letGo(p *partition, why string) {
	if p.takeover.restored && p.worker.Lost() == nil {
		in.retire(p, why)
	} else {
		in.drop(p)
	}
}

// drop forgets a worker and its bins; the caller holds the lock.
func (in *Ingester) drop(p *partition) {
	delete(in.partitions, p.at)
	p.worker.GiveUp()
	in.metrics.forget(p.at)
}

// CaughtUp reports whether every partition of this process has passed the end of the log at its assignment. It is false
// before the first assignment.
func (in *Ingester) CaughtUp() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, at := range in.assigned {
		p := in.partitions[at]
		if p == nil || !p.worker.CaughtUp() {
			return false
		}
	}
	return in.member
}

// Loading returns how many records of the journal must still be loaded before reading continues.
func (in *Ingester) Loading() (left int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, p := range in.partitions {
		left += p.loading.Load()
	}
	return left
}

// Heads implements store.Heads.
func (in *Ingester) Heads(ctx context.Context, req store.HeadRequest) ([]store.PartitionHead, error) {
	all := in.held()
	out := make([]store.PartitionHead, 0, len(all))
	for _, p := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, p.worker.HeadRead(req))
		p.hideTakeover(&out[len(out)-1])
	}
	// The map is taken after the snapshots: no chunk that they leave out lies in a container that it lacks
	// (Executor.create).
	containers := in.stores.Directory.Snapshot().ContainersOf(req.Tenant, req.Range)
	for i := range out {
		out[i].Containers = containers
	}
	return out, nil
}

// Devices implements store.Heads.
func (in *Ingester) Devices(ctx context.Context, req store.ListRequest) (out []store.HeadDevice, err error) {
	if !in.CaughtUp() {
		err = errBehind
	}
	for _, p := range in.held() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		out = append(out, p.worker.Bins().ListDevices(req)...)
	}
	return out, err
}

// errBehind says that readings of before the assignment are not read yet: their devices may be missing.
var errBehind = errors.New("a partition is not caught up")

// CatalogUpdates implements store.Heads.
func (in *Ingester) CatalogUpdates(ctx context.Context, tenant string) (out store.HeadUpdates, err error) {
	if !in.CaughtUp() {
		err = errBehind
	}
	for _, p := range in.held() {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		n := p.worker.Bins().CatalogPending(tenant)
		out.Devices = append(out.Devices, n.Devices...)
		out.Version += n.Version
	}
	return out, err
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
	p.worker.GiveUp()
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
