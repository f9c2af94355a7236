package loadtest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmosemu"
	"binnacle/internal/epk"
	"binnacle/internal/ru"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// topic is the name of the topic that the readings would come from.
const topic = "telemetry"

// commitEvery is how often a Worker looks through all its bins to find what may be committed. Nothing is
// committed here, so it does so no more often than it must.
const commitEvery = 10 * time.Second

// chunks takes the readings through Binnacle: a Worker of one partition fills bins and cuts them, its
// Executor writes the chunks through the adapter.
//
// The window opens when Hold has passed: every device has then had its first chunk, which is short
// so that chunks come evenly. From there on each device writes a full one per hold, or where the hold is long, what a
// day has. What the bins hold when the window opens is written in it, and what they hold when it closes is not: the
// same amount.
func (p pass) chunks(ctx context.Context, a *account) (totals, error) {
	container := sharding.Container("", sharding.Month.Of(firstDay))
	if err := p.buy(ctx, a, container); err != nil {
		return totals{}, err
	}
	var all, window stored
	seen := map[sharding.Key]*stored{}
	w := counting{a.client.Chunks(), func(key sharding.Key) []*stored {
		if seen[key] == nil {
			seen[key] = &stored{}
		}
		return []*stored{&all, &window, seen[key]}
	}}
	recorded := &recording{Writer: w, clock: a.clock}
	b, err := p.worker(ctx, a, recorded)
	if err != nil {
		return totals{}, err
	}
	if err := b.until(ctx, p.cfg.opens()); err != nil {
		return totals{}, err
	}
	before, err := a.charged(store.ControlContainer, store.CatalogContainer)
	if err != nil {
		return totals{}, err
	}
	a.server.ResetStats()
	window = stored{}
	clear(seen)
	b.published, b.journal.bytes = 0, 0
	opened := a.clock.now()
	recorded.recorder, err = newRecorder(p, opened, func() ([]cosmosemu.PartitionStats, error) {
		return a.partitions(container)
	})
	if err != nil {
		return totals{}, err
	}
	b.recorder = recorded.recorder
	if err := b.until(ctx, opened.Add(p.cfg.measured(p.layout))); err != nil {
		return totals{}, err
	}
	t := newTotals(b.load, opened, a.clock.now())
	if t.trace, err = b.recorder.end(b.load); err != nil {
		return totals{}, err
	}
	recorded.recorder = nil
	t.stored, t.chunks, t.bytes = window.readings, window.chunks, window.bytes
	t.published, t.journaled = b.published, b.journal.bytes
	if t.partitions, err = a.partitions(container); err != nil {
		return totals{}, err
	}
	if t.base, err = a.charged(store.ControlContainer, store.CatalogContainer); err != nil {
		return totals{}, err
	}
	t.base += before
	if p.layout == Binnacle && p.rus == 0 {
		if t.decision, err = a.decide(ctx, container, seen); err != nil {
			return totals{}, err
		}
	}
	if err := b.local.Finish(ctx); err != nil {
		return totals{}, err
	}
	t.taken, t.drained = b.load.next, all.readings
	return t, nil
}

// buy makes the container of chunks, and gives it and the catalog their throughput.
func (p pass) buy(ctx context.Context, a *account, container string) error {
	if err := a.client.Containers().Create(ctx, container, store.Throughput{RUs: p.throughput()}); err != nil {
		return err
	}
	// A fleet's first entries come at once, and in no order. Waiting for them would make time depend on it.
	return a.client.Containers().SetThroughput(ctx, store.CatalogContainer,
		store.Throughput{RUs: p.cfg.Partitions * ru.PartitionRUs, Autoscale: true})
}

// ingester is Binnacle's ingest of the load, driven by fleet time.
type ingester struct {
	clock *clock
	load  *load
	local *ingest.Local
	tick  func()

	journal   *journal
	published int // bytes of keys and messages, since the window opened
	recorder  *recorder
}

func (p pass) worker(ctx context.Context, a *account, w store.Writer) (*ingester, error) {
	blocks := &journal{}
	local, err := a.ingest(ctx, worker.Config{Hold: p.cfg.Hold, CommitEvery: commitEvery},
		ingest.Stores{Chunks: w, DeadLetters: noLetters{}, Journal: blocks})
	return &ingester{
		clock: a.clock, journal: blocks, load: newLoad(p.cfg, p.scenario, p.metrics), tick: p.tick, local: local,
	}, err
}

// ingest returns an ingester of a partition, with the directory, the catalog and the streams of the account.
func (a *account) ingest(ctx context.Context, cfg worker.Config, stores ingest.Stores) (*ingest.Local, error) {
	docs, log := a.client.Documents(), slog.New(slog.DiscardHandler)
	dir := a.directory()
	if _, err := dir.Refresh(ctx); err != nil {
		return nil, err
	}
	streams := control.NewStreams(docs)
	stream, err := streams.Find(ctx, "loadtest", topic, 1)
	if err != nil {
		return nil, err
	}
	cfg.Topic, cfg.Register = topic, true
	stores.Directory, stores.Catalog, stores.Streams = dir, a.client.Catalog(), streams
	return ingest.NewLocal(ingest.Config{Config: cfg, Now: a.clock.now, Logger: log}, stores,
		worker.Assignment{Stream: stream.Number}), nil
}

// until takes the readings as they are published, and does once a second what is due, until it is the end. A
// write that is throttled waits, and all others with it: the readings of that time are taken afterwards, as from a log.
func (b *ingester) until(ctx context.Context, end time.Time) error {
	for b.clock.now().Before(end) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.recorder.advance(b.clock.now()); err != nil {
			return err
		}
		second := b.clock.now().Truncate(time.Second).Add(time.Second)
		for b.load.due().Before(second) {
			rec := worker.Record{Offset: int64(b.load.next), Time: b.load.due().UnixMilli()}
			m := b.load.take()
			b.clock.reach(m.at)
			rec.Key, rec.Value = []byte(m.tenant+"/"+m.device), m.json
			b.published += len(rec.Key) + len(rec.Value)
			if err := b.local.Take(ctx, rec); err != nil {
				return err
			}
		}
		if err := b.local.Step(ctx); err != nil {
			return err
		}
		b.clock.reach(second)
		b.tick()
	}
	return nil
}

// stored is what was stored in chunks.
type stored struct {
	readings, chunks, bytes int // bytes of documents
	rus                     float64
}

// counting counts what is stored, beside storing it. of returns where the chunks of a key count.
type counting struct {
	store.Writer
	of func(sharding.Key) []*stored
}

// Create implements store.Writer.
func (w counting) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	receipt, err := w.Writer.Create(ctx, key, id, doc)
	if err != nil {
		return receipt, err
	}
	c, err := chunk.Parse(doc)
	if err != nil {
		return receipt, fmt.Errorf("count the readings of chunk %s: %w", id, err)
	}
	for _, s := range w.of(key) {
		s.readings += c.Header.Readings
		s.chunks++
		s.bytes += len(doc)
		s.rus += receipt.RUs
	}
	return receipt, nil
}

// recording records what is stored, and how long it waited for throughput.
type recording struct {
	store.Writer
	clock    *clock
	recorder *recorder // nil while nothing is recorded
}

// Create implements store.Writer.
func (w *recording) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	before := w.clock.now()
	receipt, err := w.Writer.Create(ctx, key, id, doc)
	if w.recorder == nil || err != nil {
		return receipt, err
	}
	c, err := chunk.Parse(doc)
	if err != nil {
		return receipt, fmt.Errorf("record chunk %s: %w", id, err)
	}
	now, fate := w.clock.now(), StoredAtOnce
	if now.After(before) { // only a 429 moves the clock here
		fate = StoredLate
	}
	of := tracedWrite{now, key.TenantShard, epk.MultiHash(epk.String(key.TenantShard)), receipt.RUs, c.Header.Readings}
	w.recorder.write(of)
	w.recorder.waited(now, now.Sub(before))
	w.recorder.mark(of, fate)
	return receipt, nil
}

// noLetters is the end of a fleet that sends nothing wrong.
type noLetters struct{}

// Publish implements ingest.DeadLetterWriter.
func (noLetters) Publish(_ context.Context, letters []worker.DeadLetter) error {
	panic(fmt.Sprintf("loadtest: a reading of the fleet was refused: %s", letters[0].Bad.Detail))
}
