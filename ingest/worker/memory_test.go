package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"

	"github.com/stretchr/testify/require"
)

// alone returns a worker with stores that keep nothing: only its own memory grows.
func (w *world) alone(change func(*ingest.Config)) (*discard, *ingest.Local) {
	discard := &discard{}
	return discard, w.process(func(c *ingest.Config, s *ingest.Stores) {
		s.Chunks, s.Catalog = discard, noCatalog{}
		change(c)
	})
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one has found, pools give up with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a worker says that it holds is what it takes of the heap, within a fifth, whatever fills it.
func TestHeldEqualsSumOfParts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	numbers := func(metrics int) string {
		var b strings.Builder
		for m := range metrics {
			fmt.Fprintf(&b, `,"metric%04d":%d.5`, m, rnd.IntN(1000))
		}
		return "{" + b.String()[1:] + "}"
	}
	text := func(n int) string { return fmt.Sprintf("%x", ingesttest.Random(n/2, rnd.Int64())) }
	plain := func(_, _ int) (labels, values string) { return "{}", numbers(10) }

	// The process's encoders, which the first chunks make, belong to no device.
	first := newWorld(t, nil)
	_, l := first.alone(func(*ingest.Config) {})
	for d := range int64(1000) {
		require.NoError(t, l.Take(ingesttest.Deadline(t), reading(d, fmt.Sprint("first-", d), first.now)))
	}
	require.NoError(t, l.Finish(ingesttest.Deadline(t)))
	for _, c := range []struct {
		name            string
		devices, rounds int
		reading         func(device, round int) (labels, values string)
		stored          bool
	}{
		{"many devices", 12_000, 1, plain, false},
		{"many rows", 300, 200, plain, false},
		{"wide devices", 60, 12, func(_, _ int) (string, string) { return "{}", numbers(800) }, false},
		{"devices with names of their own", 1200, 2, func(device, _ int) (string, string) {
			return "{}", strings.ReplaceAll(numbers(60), "metric", fmt.Sprintf("of-the-device-%d-", device))
		}, false},
		{"long labels", 300, 40, func(_, _ int) (string, string) {
			return fmt.Sprintf(`{"route":%q}`, text(600)), `{"a":1}`
		}, false},
		{"texts", 300, 60, func(_, _ int) (string, string) {
			return "{}", fmt.Sprintf(`{"log":%q}`, text(300))
		}, false},
		{"changing columns", 300, 200, func(_, round int) (string, string) {
			return "{}", fmt.Sprintf(`{"m%d":1,"m%d":2}`, round%17, 20+round%13)
		}, false},
		{"idle devices", 12_000, 1, plain, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, ctx := newWorld(t, nil), ingesttest.Deadline(t)
			_, l := w.alone(func(c *ingest.Config) {
				c.Hold, c.CatalogEvery, c.Linger = time.Hour, time.Hour, time.Second
			})
			require.NoError(t, l.Take(ctx, reading(0, "first", w.now))) // the tenant is registered
			before, counted := heap(), l.Held()
			offset := int64(1)
			for round := range c.rounds {
				for d := range c.devices {
					labels, values := c.reading(d, round)
					at := w.now.UnixMilli()
					value := fmt.Appendf(nil, `{"tenant":"acme","device":"truck-%05d","ts":%d,"labels":%s,"values":%s}`,
						d, at+int64(round), labels, values)
					require.NoError(t, l.Take(ctx, admit.Record{Offset: offset, Time: at, Value: value}))
					offset++
				}
			}
			if c.stored {
				require.NoError(t, l.Finish(ctx))
				w.now = w.now.Add(time.Minute)
				require.NoError(t, l.Step(ctx))
				require.Zero(t, heldRows(t, l))
			}
			taken, says := heap()-before, l.Held()-counted
			t.Logf("%d devices, %d rounds: takes %d KB, counts %d KB: %d bytes a device",
				c.devices, c.rounds, taken>>10, says>>10, taken/int64(c.devices))
			require.InEpsilon(t, taken, says, 0.2)
			if c.stored {
				require.Less(t, taken/int64(c.devices), int64(500),
					"bytes of a device of which nothing is held, with its entry of the catalog")
			}
			runtime.KeepAlive(l)
		})
	}
}

// A producer that invents devices fills memory, and no more: feeding goes on, and what is known of idle ones makes
// room.
func TestManyNewDevicesDoNotFillMemory(t *testing.T) {
	const bound = 2 << 20
	w, ctx := newWorld(t, nil), t.Context()
	_, l := w.alone(func(c *ingest.Config) {
		c.Hold, c.CatalogEvery, c.CatalogWait = time.Hour, time.Hour, time.Minute
		c.MemoryBytes, c.CommitEvery = bound, time.Second
	})
	n := int64(ingesttest.Rounds(20_000, 8000))
	for i := range n {
		require.NoError(t, l.Take(ctx, reading(i, fmt.Sprintf("invented-%d", i), w.now)))
		w.now = w.now.Add(50 * time.Millisecond)
		require.NoError(t, l.Step(ctx))
		require.Less(t, l.Held(), int64(bound)*21/20)
	}
	require.Less(t, worker.Devices(l.Worker), 5000)
	require.Greater(t, l.Floor(), n/2)
	heldRows(t, l)
}

// A device that sends nothing but readings of days long gone is forgotten too, also when its last one has stretched the
// times that its entry in the catalog gives.
func TestDevicesAreForgottenAfterABackfill(t *testing.T) {
	w, ctx := newWorld(t, nil), context.Background()
	l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.CommitEvery = 6*time.Hour, time.Second })
	old := w.now.Add(-10 * 24 * time.Hour)
	for i := range int64(200) {
		r := reading(i, fmt.Sprintf("d%d", i%100), old.Add(time.Duration(i/100)*time.Second))
		r.Time = w.now.UnixMilli()
		require.NoError(t, l.Take(ctx, r))
		require.NoError(t, l.Step(ctx)) // the first note is done before the second reading stretches the entry
	}
	for range 8 {
		w.now = w.now.Add(20 * time.Minute)
		require.NoError(t, l.Step(ctx))
	}
	require.Zero(t, worker.Devices(l.Worker))
}

// Once a day is over, rows of its bins that go to the journal as they are become a block in memory, too.
func TestRowsOfADayThatIsOverBecomeBlocks(t *testing.T) {
	w, ctx := withJournal(newWorld(t, nil)), ingesttest.Deadline(t)
	l := w.worker(func(c *ingest.Config) { c.Hold, c.JournalEvery = 48*time.Hour, 5*time.Second })
	held := []int64{l.Held()}
	for i, later := range []time.Duration{5 * time.Second, 24 * time.Hour} {
		for k := range int64(20) {
			require.NoError(t, l.Take(ctx, one(20*int64(i)+k, "d")))
		}
		require.NoError(t, l.Step(ctx))
		w.now = w.now.Add(later)
		require.NoError(t, l.Step(ctx))
		held = append(held, l.Held())
	}
	require.Less(t, held[2], held[1], "twice the rows take less")
	require.Equal(t, 40, rowsOf(l))
}
