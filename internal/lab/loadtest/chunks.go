package loadtest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"
)

// topic is the name of the topic that the readings would come from.
const topic = "telemetry"

// commitEvery is how often a Worker looks through all its bins to find what may be committed. Nothing is
// committed here, so it does so no more often than it must.
const commitEvery = 10 * time.Second

// containers returns the containers of chunks that the readings of a scenario go to. The last one holds the day
// on which the window closes.
func (p pass) containers() (out []string) {
	day := func(at time.Time) telemetry.Day { return telemetry.DayOf(at.UnixMilli()) }
	for s := sharding.Month.Of(day(p.cfg.starts())); s.First <= day(p.cfg.opens().Add(p.cfg.Window)); s = s.Next() {
		out = append(out, sharding.Container("", s))
	}
	return out
}

// write takes the readings through Binnacle: a Worker of one partition fills bins and cuts them, its Executor writes
// the chunks through the adapter.
//
// The window opens when Hold has passed: every device has then had its first chunk, which is short
// so that chunks come evenly. From there on each device writes a full one per hold, or where the hold is long, what a
// day has. What the bins hold when the window opens is written in it, and what they hold when it closes is not: the
// same amount.
func (p pass) write(ctx context.Context, a *account) (totals, error) {
	containers := p.containers()
	if err := p.buy(ctx, a, containers); err != nil {
		return totals{}, err
	}
	var all, window stored
	live, seen := containers[len(containers)-1], map[sharding.Key]*stored{}
	w := counting{a.client.Chunks(), func(key sharding.Key) []*stored {
		if key.Container != live {
			return []*stored{&all, &window}
		}
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
	warmed, err := a.aligned(containers)
	if err != nil {
		return totals{}, err
	}
	calm := a.calm(warmed)
	a.server.ResetStats()
	window = stored{}
	clear(seen)
	opened := a.clock.now() // later where writes have waited
	closes := opened.Add(p.cfg.Window)
	var t totals
	recorded.recorder, err = newRecorder(p, []stretch{{opened, closes}}, func() ([]emulator.PartitionStats, error) {
		return a.aligned(containers)
	})
	if err != nil {
		return totals{}, err
	}
	recorded.recorder.offered(b.load)
	b.recorder = recorded.recorder
	if err := p.through(ctx, b, closes, func() error {
		changes, err := a.rebalance(ctx, b, live, seen)
		t.changes = append(t.changes, changes...)
		return err
	}); err != nil {
		return totals{}, err
	}
	closes = a.clock.now()
	t.seconds, t.offered = closes.Sub(opened).Seconds(), b.load.between(opened, closes)
	recorded.recorder = nil
	t.written = recorded.written
	t.stored, t.chunks, t.bytes = window.readings, window.chunks, window.bytes
	if err := p.count(a, b, &t); err != nil {
		return totals{}, err
	}
	if calm == 0 || t.calm == 0 {
		t.calm = 0
	} else {
		t.calm = max(calm, t.calm)
	}
	if p.layout == Binnacle && p.rus == 0 {
		in := balance.Input{Day: p.cfg.firstDay(), Measured: p.cfg.firstDay() - 1}
		if t.decision, err = a.decide(ctx, in, live, seen); err != nil {
			return totals{}, err
		}
	}
	if err := b.local.Finish(ctx); err != nil {
		return totals{}, err
	}
	t.taken, t.drained = b.load.next, all.readings
	return t, nil
}

func (p pass) count(a *account, b *ingester, t *totals) (err error) {
	if t.trace, err = b.recorder.end(); err != nil {
		return err
	}
	if p.cfg.sliced {
		t.keys = keysByDay(b.dir, p.cfg.firstDay(), p.cfg.firstDay()+explodingDays-1)
	}
	if t.partitions, err = a.aligned(p.containers()); err != nil {
		return err
	}
	t.calm = a.calm(t.partitions)
	return nil
}

// through takes the readings of the window. In Explodes it calls evening each evening but the last one.
func (p pass) through(ctx context.Context, b *ingester, closes time.Time, evening func() error) error {
	if p.scenario == Explodes && p.layout == Balanced {
		for at := p.cfg.starts().Add(day - eveningBefore); at.Add(day).Before(closes); at = at.Add(day) {
			if err := b.until(ctx, at); err != nil {
				return err
			}
			if err := evening(); err != nil {
				return err
			}
		}
	}
	return b.until(ctx, closes)
}

// rebalance has the balancer place tenants for the next day by what was written since it was called last.
func (a *account) rebalance(ctx context.Context, b *ingester, container string,
	seen map[sharding.Key]*stored) ([]sharding.EpochChange, error) {
	today := telemetry.DayOf(a.clock.now().UnixMilli())
	decision, err := a.decide(ctx, balance.Input{Day: today + 1, Measured: today}, container, seen)
	if err != nil {
		return nil, err
	}
	clear(seen)
	for _, c := range decision.Changes {
		if err := b.dir.AddEpoch(ctx, c.Tenant, c.Epoch); err != nil {
			return nil, fmt.Errorf("epoch of the balancer: %w", err)
		}
	}
	begins := time.UnixMilli((today + 1).Start()).Sub(b.recorder.from)
	b.recorder.trace.Epochs = append(b.recorder.trace.Epochs, begins.Seconds())
	_, err = b.dir.Refresh(ctx)
	return decision.Changes, err
}

// buy makes the containers of chunks, and gives them and the catalog their throughput.
func (p pass) buy(ctx context.Context, a *account, containers []string) error {
	for _, name := range containers {
		if err := a.client.Containers().Create(ctx, name, store.Throughput{RUs: p.throughput()}); err != nil {
			return err
		}
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
	dir   *control.Directory

	recorder *recorder
}

func (p pass) worker(ctx context.Context, a *account, w store.Writer) (*ingester, error) {
	local, dir, err := a.ingest(ctx, worker.Config{Hold: p.cfg.Hold, CommitEvery: commitEvery},
		ingest.Stores{Chunks: w, DeadLetters: noLetters{}})
	if err != nil {
		return nil, err
	}
	return &ingester{clock: a.clock, load: newLoad(p.cfg, p.scenario), local: local, dir: dir}, nil
}

// ingest returns an ingester of a partition, with the directory, the catalog and the streams of the account.
func (a *account) ingest(ctx context.Context, cfg worker.Config, stores ingest.Stores) (*ingest.Local,
	*control.Directory, error) {
	docs, log := a.client.Documents(), slog.New(slog.DiscardHandler)
	dir := a.directory()
	if _, err := dir.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	streams := stream.NewStreams(docs)
	stream, err := streams.Find(ctx, "loadtest", topic, 1)
	if err != nil {
		return nil, nil, err
	}
	cfg.Topic, cfg.Register = topic, true
	stores.Directory, stores.Catalog, stores.Streams = dir, a.client.Catalog(), streams
	return ingest.NewLocal(ingest.Config{Config: cfg, Now: a.clock.now, Logger: log}, stores,
		worker.Assignment{Stream: stream.Number}), dir, nil
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
			rec := admit.Record{Offset: int64(b.load.next), Time: b.load.due().UnixMilli()}
			m := b.load.take()
			b.clock.reach(m.due)
			rec.Key, rec.Value = []byte(m.tenant+"/"+m.device), m.json
			if err := b.local.Take(ctx, rec); err != nil {
				return err
			}
		}
		if err := b.local.Step(ctx); err != nil {
			return err
		}
		b.clock.reach(second)
	}
	return nil
}

// stored sums up the chunks that were stored.
type stored struct {
	readings, chunks, bytes int // bytes of documents
	rus                     float64
}

// counting stores chunks and counts them. of returns the sums that count the chunks of a key.
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

// recording stores chunks and records each, with the time for which it waited for throughput.
type recording struct {
	store.Writer
	clock    *clock
	recorder *recorder // nil while nothing is recorded
	written  []writtenChunk
}

type writtenChunk struct {
	at       time.Time
	key      sharding.Key
	id       string
	doc      []byte
	readings int
	rus      float64
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
	at := epk.MultiHash(epk.String(key.TenantShard), epk.String(key.Device))
	of := tracedWrite{now, key.TenantShard, at, receipt.RUs, c.Header.Readings}
	w.recorder.write(of)
	w.recorder.waited(now, now.Sub(before))
	w.recorder.mark(of, fate)
	w.written = append(w.written, writtenChunk{now, key, id, doc, c.Header.Readings, receipt.RUs})
	return receipt, nil
}

// noLetters is the end of a fleet that sends nothing wrong.
type noLetters struct{}

// Publish implements ingest.DeadLetterWriter.
func (noLetters) Publish(_ context.Context, letters []write.DeadLetter) error {
	panic(fmt.Sprintf("loadtest: a reading of the fleet was refused: %s", letters[0].Bad.Detail))
}
