package worker_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/journal"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// world is a log, a store and a clock: everything that survives the death of a worker.
type world struct {
	*ingesttest.Stores
	t           testing.TB
	now         time.Time
	log         []admit.Record
	deadLetters []write.DeadLetter
	commit      int64
	meta        journal.Commit
	blocks      *blockLog // nil: there is no journal
	hold        time.Duration
	seldom      bool               // the catalog follows with times once a week
	dir         *control.Directory // of the process that began last
	began       uint64             // processes so far
	whole       int                // takeovers that loaded blocks
	broken      int                // those that found the journal not to be whole

}

const start = 1795183200123 // 2026-11-20 14:00 UTC

func newWorld(t testing.TB, log []admit.Record) *world {
	return &world{Stores: ingesttest.NewStores(t, "2026-10", "2026-11"), t: t,
		now: time.UnixMilli(start).Add(time.Minute), log: log}
}

// Publish returns ingest.DeadLetterWriter.
func (w *world) Publish(_ context.Context, all []write.DeadLetter) error {
	w.deadLetters = append(w.deadLetters, all...)
	return nil
}

func (w *world) config() ingest.Config {
	return ingest.Config{
		Config: worker.Config{
			Register: true, Hold: 10 * time.Second, CatalogEvery: -1, CatalogWait: -1, Linger: time.Second,
			CommitEvery:  time.Nanosecond,
			StampEvery:   time.Hour,
			RetryBackoff: time.Nanosecond,
		},
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler),
	}
}

// worker returns a process that reads the log from the committed offset.
func (w *world) worker(change func(*ingest.Config)) *ingest.Local {
	return w.process(func(cfg *ingest.Config, _ *ingest.Stores) {
		if change != nil {
			change(cfg)
		}
	})
}

// process returns a worker with stores that may be others too.
func (w *world) process(change func(*ingest.Config, *ingest.Stores)) *ingest.Local {
	cfg := w.config()
	stores := ingest.Stores{Chunks: w.Chunks, Catalog: w.Catalog, Streams: stream.NewStreams(w.Docs), DeadLetters: w}
	change(&cfg, &stores)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: cfg.Now})
	_, err := dir.Refresh(context.Background())
	require.NoError(w.t, err)
	stores.Directory, w.dir = dir, dir
	w.began++
	a := worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log)), Owner: w.began << 32}
	begin := func() *ingest.Local {
		cfg.Registerer = nil
		return ingest.NewLocal(cfg, stores, a)
	}
	if w.blocks == nil {
		return ingest.NewLocal(cfg, stores, a)
	}
	if stores.Journal == nil {
		stores.Journal, stores.Blocks = w.blocks, w.blocks
	}
	l := begin()
	if !w.meta.Counts() {
		return l
	}
	// What a commit carries goes through its spelling.
	meta, ok := journal.ParseCommit(w.meta.Metadata())
	require.True(w.t, ok)
	err = l.Load(context.Background(), meta, w.commit, w.blocks)
	if err == nil {
		w.whole++
		return l
	}
	require.ErrorIs(w.t, err, journal.ErrNotWhole)
	w.broken++
	return begin()
}

// settings returns what the world says of its processes.
func (w *world) settings(c *ingest.Config) {
	c.Hold, c.JournalEvery = cmp.Or(w.hold, c.Hold), w.hold/4
	c.FairAfter = -1
	if w.seldom {
		c.CatalogEvery = 7 * 24 * time.Hour
	}
	c.HeldFor = 1000 * time.Hour
}

// at returns the record at an offset.
func (w *world) at(offset int64) admit.Record { return w.log[offset] }

// commitFloor commits what a worker says that may be committed.
func (w *world) commitFloor(l *ingest.Local) {
	if !l.MayCommit() {
		return
	}
	floor := l.Floor()
	require.GreaterOrEqual(w.t, floor, w.commit, "the committed offset went back")
	w.commit, w.meta = floor, l.JournalCommit()
	w.checkCommitted()
}

// published returns what a plain map makes of the log up to an offset.
func (w *world) published(through int64) (values map[ingesttest.Series]telemetry.Value, refused map[string]bool) {
	values, refused = map[ingesttest.Series]telemetry.Value{}, map[string]bool{}
	d := decode.New(decode.Options{})
	for _, r := range w.log {
		if r.Offset >= through {
			break
		}
		result := d.Decode(decode.Record{Value: r.Value, Timestamp: r.Time})
		for _, b := range result.Bad {
			refused[fmt.Sprintf("%d/%d", r.Offset, b.Index)] = true
		}
		for i, x := range result.Readings {
			if x.Time > r.Time+600_000 {
				refused[fmt.Sprintf("%d/%d", r.Offset, result.Index[i])] = true
				continue
			}
			for _, f := range x.Fields {
				values[ingesttest.Series{Device: x.Device, Labels: string(x.Labels.AppendKey(nil)), Metric: f.Metric,
					Time: x.Time}] = f.Value
			}
		}
	}
	return values, refused
}

// readings returns how many readings the log has that are not refused.
func (w *world) readings() (n int) {
	d := decode.New(decode.Options{})
	for _, r := range w.log {
		for _, x := range d.Decode(decode.Record{Value: r.Value, Timestamp: r.Time}).Readings {
			if x.Time <= r.Time+600_000 {
				n++
			}
		}
	}
	return n
}

// checkCommitted holds invariant I1: what lies below the committed offset is in a chunk or in the dead letters.
func (w *world) checkCommitted() {
	values, refused := w.published(w.commit)
	stored := w.Stored()
	for s := range values {
		if _, ok := stored[s]; !ok {
			require.Contains(w.t, stored, s, "committed offset %d: reading lost", w.commit)
		}
	}
	for _, l := range w.deadLetters {
		delete(refused, fmt.Sprintf("%d/%d", l.Record.Offset, l.Bad.Index))
		for _, r := range l.Elements {
			for i := r.First; i <= r.Last; i++ {
				delete(refused, fmt.Sprintf("%d/%d", l.Record.Offset, i))
			}
		}
	}
	require.Empty(w.t, refused, "committed offset %d: dead letters lost", w.commit)
}

// checkCatalog holds that the catalog has the first and last time of what is stored of every device.
func (w *world) checkCatalog() {
	type times struct{ first, last int64 }
	want := map[string]times{}
	for s := range w.Stored() {
		x, ok := want[s.Device]
		if !ok {
			x = times{s.Time, s.Time}
		}
		want[s.Device] = times{min(x.first, s.Time), max(x.last, s.Time)}
	}
	for device, x := range want {
		d, ok := w.Catalog.Entry("acme", device)
		if !ok {
			d, ok = w.Catalog.Entry("globex", device)
		}
		require.True(w.t, ok, "device %s is not listed", device)
		require.Equal(w.t, x, times{d.First, d.Last}, "the catalog's times of %s", device)
	}
}

// check holds I3, I4, I5 and I11 when everything has settled.
func (w *world) check() {
	w.checkCatalog()
	require.Equal(w.t, int64(len(w.log)), w.commit, "I11: everything is committed")
	values, _ := w.published(w.commit)
	require.Equal(w.t, values, w.Stored(), "I5: each series and instant once, with its last value")
	w.CheckChains()
	readings := 0
	for _, h := range w.Headers() {
		readings += h.Readings
	}
	require.Equal(w.t, w.readings(), readings, "I3: each reading is in one chunk")
}

// logOf returns a log that has everything: several devices and days, repeated instants, arrays, and bad records.
func logOf(seed uint64, n int) []admit.Record {
	rnd := rand.New(rand.NewPCG(seed, 9))
	var log []admit.Record
	for i := range n {
		at := int64(start + i*700)
		message := func(device string, ts int64) string {
			return fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d,"b":%g}}`, device, ts, i, rnd.Float64())
		}
		device := fmt.Sprintf("d%d", rnd.IntN(3))
		value := message(device, at)
		switch rnd.IntN(12) {
		case 0:
			value = `{"tenant":"acme","values":{}}`
		case 1:
			value = message(device, at-telemetry.DayMillis) // late, by a day
		case 2:
			value = "[" + message("d0", at) + "," + message("d1", at-30*telemetry.DayMillis) + "," + message("d0", at+1) + "]"
		case 3:
			value = message(device, at+3600_000) // too far ahead
		case 4:
			value = message(device, at-700) // an instant that may stand already
		case 5:
			value = "no json"
		}
		log = append(log, admit.Record{Offset: int64(i), Time: at, Value: []byte(value)})
	}
	return log
}

// conflicts returns how many creates met a stored chunk.
func (w *world) conflicts() int { return w.Chunks.Calls(storetest.Read) }

// heldRows holds that what a worker holds is what its parts do, and returns how much of that is rows and dead letters.
func heldRows(t testing.TB, l *ingest.Local) int64 {
	t.Helper()
	rows, known := worker.HeldByParts(l.Worker)
	require.Equal(t, l.Held(), rows+known, "held, by parts")
	return rows
}
