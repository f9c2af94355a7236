package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control/controltest"

	"github.com/stretchr/testify/require"
)

// The catalog is written when something is new, and then as seldom as it was asked for: a device that goes on
// reporting the same metrics must not cost a write each time.
func TestTheCatalogIsWrittenSeldom(t *testing.T) {
	for _, v := range []struct {
		name  string
		every time.Duration
		most  int
	}{
		{"with every chunk", -1, 1 + 60/10 + 1}, // what is new, the chunks of a minute at a hold of ten seconds, the end
		{"every half a minute", 30 * time.Second, 1 + 60/30 + 1},
		{"every hour", time.Hour, 1 + 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := newWorld(t, nil)
			for i := range 60 {
				at := int64(start + i*1000)
				value := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":%d}}`, at, i)
				w.log = append(w.log, worker.Record{Offset: int64(i), Time: at, Value: []byte(value)})
			}
			writes := 0
			w.Catalog.Fault = func(op, _, _ string) *controltest.Fault {
				if op == controltest.OpWrite {
					writes++
				}
				return nil
			}
			ctx := context.Background()
			l := w.worker(func(c *ingest.Config) { c.NoteEvery, c.CommitEvery = v.every, time.Second })
			for _, r := range w.log {
				require.NoError(t, l.Take(ctx, r))
				w.now = w.now.Add(time.Second)
				require.NoError(t, l.Step(ctx))
			}
			require.NoError(t, l.Finish(ctx))
			require.LessOrEqual(t, writes, v.most)
			require.Greater(t, writes, 0)
			d, ok, err := w.Catalog.Read(ctx, "acme", "d0")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, [2]int64{start, start + 59_000}, [2]int64{d.First, d.Last}, "in the end first and last are exact")
		})
	}
}

// everyone feeds a reading of each of n devices, at now.
func everyone(t *testing.T, w *world, l *ingest.Local, n int) {
	t.Helper()
	for i := range n {
		at := l.Position()
		r := of(at, "acme", fmt.Sprintf("d%05d", i), w.now.UnixMilli())
		r.Time = w.now.UnixMilli()
		require.NoError(t, l.Take(t.Context(), r))
	}
}

// catalogCalls counts what is asked of the catalog.
func catalogCalls(w *world) map[string]int {
	calls := map[string]int{}
	w.Catalog.Fault = func(op, _, _ string) *controltest.Fault {
		calls[op]++
		return nil
	}
	return calls
}

// Who takes a partition over compares what it sees with the catalog, and writes nothing that is not new: the times
// wait for their turn, which comes evenly over the interval, and hold nothing back meanwhile.
func TestATakeoverDoesNotRewriteTheCatalog(t *testing.T) {
	const n, every = 300, 6 * time.Hour
	w := newWorld(t, nil)
	change := func(c *ingest.Config) { c.NoteEvery, c.CommitEvery, c.Hold = every, time.Second, 30*time.Minute }
	first := w.worker(change)
	everyone(t, w, first, n)
	require.NoError(t, first.Finish(ingesttest.Soon(t)))
	w.commit = first.Floor()
	require.EqualValues(t, n, w.commit)

	w.now = w.now.Add(time.Minute)
	calls := catalogCalls(w)
	second := w.worker(change)
	everyone(t, w, second, n)
	minutes := map[int]int{}
	until := func(d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
			before := calls[controltest.OpWrite]
			attempt(t, second)
			minutes[int(w.now.UnixMilli()/600_000)] += calls[controltest.OpWrite] - before
		}
	}
	until(35 * time.Minute)
	require.Equal(t, n, calls[controltest.OpRead]-calls[controltest.OpWrite], "each is compared once")
	require.Less(t, calls[controltest.OpWrite], n/6)
	require.EqualValues(t, 2*n, second.Floor(), "a later time holds nothing back")
	until(every)
	require.Equal(t, n, calls[controltest.OpWrite], "once in the interval")
	for at, writes := range minutes {
		require.Less(t, writes, n/10, "ten minutes from %d", at)
	}
}

// Many devices that are taken over together are compared evenly within half of the hold, not all at once.
func TestManyDevicesAreComparedEvenly(t *testing.T) {
	const n = 3000
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.NoteEvery, c.CommitEvery, c.Hold = 6*time.Hour, time.Second, time.Minute })
	everyone(t, w, l, n)
	calls := catalogCalls(w)
	most := 0
	for range 31 {
		before := calls[controltest.OpRead]
		attempt(t, l)
		if at := calls[controltest.OpRead] - before; calls[controltest.OpRead] > 300 {
			most = max(most, at)
		}
		w.now = w.now.Add(time.Second)
	}
	require.Equal(t, n, calls[controltest.OpRead])
	require.Less(t, most, 2*n/30)
}

// The process dies between the create of a chunk and the catalog's entry. The next one finds the rows stored already,
// drops them, and lists their times all the same.
func TestTimesOfRowsThatWereStoredAlready(t *testing.T) {
	for _, lookedUp := range []bool{true, false} {
		w := newWorld(t, nil)
		l := w.worker(nil)
		require.NoError(t, l.Take(t.Context(), one(0, "d0")))
		attempt(t, l) // the device is listed
		for i := range int64(5) {
			require.NoError(t, l.Take(t.Context(), one(1+i, "d0")))
		}
		w.now = w.now.Add(time.Minute)
		for jobs := l.Due(); len(jobs) > 0; jobs = l.Due() {
			if do(t, l, jobs, not(isNote)); len(w.Chunks.Documents()) > 0 {
				break
			}
		}
		require.Len(t, w.Chunks.Documents(), 1)
		require.Zero(t, l.Floor(), "the entry is not written: that holds the floor here")

		next := w.worker(nil)
		if !lookedUp {
			require.NoError(t, next.Take(t.Context(), one(0, "d0")))
			w.now = w.now.Add(time.Minute)
			attempt(t, next) // the tail is known when the others come
		}
		for i := next.Position(); i < 6; i++ {
			require.NoError(t, next.Take(t.Context(), one(i, "d0")))
		}
		w.now = w.now.Add(time.Minute)
		attempt(t, next)
		require.EqualValues(t, 6, next.Floor())
		w.checkCatalog()
	}
}
