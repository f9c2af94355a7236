package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// world is a log, a store and a clock: everything that survives the death of a worker.
type world struct {
	*ingesttest.Stores
	t      *testing.T
	now    time.Time
	log    []worker.Record
	buried []worker.DeadLetter
	commit int64

	mu    sync.Mutex      // guards ops
	ops   int             // operations outside so far
	fatal func(n int) int // asked before operation n: die, and if so whether the operation happens
	kill  context.CancelFunc
}

// What fatal answers.
const (
	live = iota
	dieBefore
	dieAfter
)

var errDead = errors.New("the process is dead")

const start = 1795183200123 // 2026-11-20 14:00 UTC

func newWorld(t *testing.T, log []worker.Record) *world {
	w := &world{Stores: ingesttest.NewStores(t, "2026-10", "2026-11"), t: t, now: time.UnixMilli(start).Add(time.Minute),
		log: log}
	w.Chunks.Fault = func(storetest.Op) *storetest.Fault {
		applied, err := w.op()
		if err == nil {
			return nil
		}
		return &storetest.Fault{Applied: applied, Err: err}
	}
	w.Catalog.Fault = func(_, _, _ string) *controltest.Fault {
		applied, err := w.op()
		if err == nil {
			return nil
		}
		return &controltest.Fault{Applied: applied, Err: err}
	}
	return w
}

// op counts an operation outside and kills the process when it is time.
func (w *world) op() (applied bool, err error) {
	w.mu.Lock()
	w.ops++
	n := w.ops
	w.mu.Unlock()
	if w.fatal == nil {
		return true, nil
	}
	switch w.fatal(n) {
	case dieBefore:
		w.kill()
		return false, errDead
	case dieAfter:
		w.kill()
		return true, errDead
	}
	return true, nil
}

// Bury is ingest.Undertaker.
func (w *world) Bury(_ context.Context, letters []worker.DeadLetter) error {
	applied, err := w.op()
	if applied {
		w.buried = append(w.buried, letters...)
	}
	return err
}

func (w *world) config() ingest.Config {
	return ingest.Config{
		Config: worker.Config{
			Register: true, Hold: 10 * time.Second, NoteEvery: -1, Linger: time.Second, CommitEvery: time.Nanosecond,
			StampEvery:   time.Hour,
			RetryBackoff: time.Nanosecond,
		},
		Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler),
	}
}

// worker is a process that reads the log from the committed offset.
func (w *world) worker(change func(*ingest.Config)) *ingest.Local {
	return w.process(func(cfg *ingest.Config, _ *ingest.Stores) {
		if change != nil {
			change(cfg)
		}
	})
}

// process is a worker whose stores may be others too.
func (w *world) process(change func(*ingest.Config, *ingest.Stores)) *ingest.Local {
	cfg := w.config()
	stores := ingest.Stores{Chunks: w.Chunks, Catalog: w.Catalog, Streams: control.NewStreams(w.Docs), Letters: w}
	change(&cfg, &stores)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: cfg.Now})
	_, err := dir.Refresh(context.Background())
	require.NoError(w.t, err)
	stores.Directory = dir
	return ingest.NewLocal(cfg, stores, worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log))})
}

// live runs a process until it dies or the log is done, in steps that the seed decides. It reports whether it lived.
func (w *world) live(seed uint64) bool {
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	w.kill = kill
	l := w.worker(nil)
	rnd := rand.New(rand.NewPCG(seed, 5))
	for l.Position() < int64(len(w.log)) {
		for range 1 + rnd.IntN(6) {
			if at := l.Position(); at < int64(len(w.log)) {
				if l.Take(ctx, w.log[at]) != nil {
					return false
				}
			}
		}
		w.now = w.now.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
		if l.Step(ctx) != nil || !w.commitFloor(l) {
			return false
		}
	}
	return l.Finish(ctx) == nil && w.commitFloor(l)
}

func (w *world) commitFloor(l *ingest.Local) bool {
	floor := l.Floor()
	if floor == w.commit {
		return true
	}
	applied, err := w.op()
	if applied {
		require.GreaterOrEqual(w.t, floor, w.commit, "the committed offset went back")
		w.commit = floor
		w.checkCommitted()
	}
	return err == nil
}

// published is what a plain map makes of the log up to an offset.
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

// checkCommitted holds invariant I1: what lies below the committed offset is in a chunk or in the dead letters.
func (w *world) checkCommitted() {
	values, refused := w.published(w.commit)
	stored := w.Stored()
	for s := range values {
		require.Contains(w.t, stored, s, "committed offset %d: reading lost", w.commit)
	}
	for _, l := range w.buried {
		delete(refused, fmt.Sprintf("%d/%d", l.Record.Offset, l.Bad.Index))
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
		body, ok, err := w.catalogEntry(device)
		require.NoError(w.t, err)
		require.True(w.t, ok, "device %s is not listed", device)
		var d control.Device
		require.NoError(w.t, json.Unmarshal(body, &d))
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
}

// logOf is a log that has everything: several devices and days, repeated instants, arrays, and bad records.
func logOf(seed uint64, n int) []worker.Record {
	rnd := rand.New(rand.NewPCG(seed, 9))
	var log []worker.Record
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
		log = append(log, worker.Record{Offset: int64(i), Time: at, Value: []byte(value)})
	}
	return log
}

// conflicts is how many creates met a stored chunk.
func (w *world) conflicts() int { return w.Chunks.Calls(storetest.Read) }

// catalogEntry is the entry of a device of acme, as JSON.
func (w *world) catalogEntry(device string) (body []byte, ok bool, err error) {
	fault := w.Catalog.Fault
	w.Catalog.Fault = nil
	defer func() { w.Catalog.Fault = fault }()
	d, ok, err := w.Catalog.Read(context.Background(), "acme", device)
	if err != nil || !ok {
		return nil, ok, err
	}
	body, err = json.Marshal(d)
	return body, ok, err
}

// heldRows holds that what a worker holds is what its parts do, and returns how much of that is rows and dead letters.
func heldRows(t *testing.T, l *ingest.Local) int64 {
	t.Helper()
	rows, known := worker.HeldByParts(l.Worker)
	require.Equal(t, l.Held(), rows+known, "held, by parts")
	return rows
}
