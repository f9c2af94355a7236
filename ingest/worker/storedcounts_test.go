package worker_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// A head counts the chunks that it learns to be stored. A chunk of rows that the head has never shown restarts the
// count from which on tails explain all chunks (rule R8).
func TestHeadsCountWhatIsStored(t *testing.T) {
	w, ctx := newWorld(t, nil), ingesttest.Deadline(t)
	l := w.worker(func(c *ingest.Config) { c.Hold = time.Hour })
	other := w.worker(nil)
	feed := func(to *ingest.Local, device string, offsets ...int64) {
		for _, o := range offsets {
			require.NoError(t, to.Take(ctx, one(o, device)))
		}
	}
	read := func() store.HeadStored {
		return *l.HeadRead(store.HeadRequest{Tenant: "acme", Bins: true, Stored: true}).Stored
	}
	before := read()
	counts := func(what string, explained bool) {
		t.Helper()
		after := read()
		require.Greater(t, after.Count, before.Count, what)
		if explained {
			require.Equal(t, before.Exact, after.Exact, what)
		} else {
			require.Greater(t, after.Exact, before.Count, what)
		}
		before = after
	}
	step := func(after time.Duration) {
		w.now = w.now.Add(after)
		require.NoError(t, l.Step(ctx))
	}

	feed(l, "d0", 0, 1)
	step(time.Hour)
	counts("a chunk that was created here", true)

	feed(l, "d0", 2)
	feed(other, "d0", 0, 1, 2)
	require.NoError(t, other.Finish(ctx))
	step(time.Hour)
	counts("a create that met the chunk of another process", false)
	step(2 * time.Second)
	counts("rows that others have stored leave the head", false)

	feed(other, "d1", 3)
	require.NoError(t, other.Finish(ctx))
	feed(l, "d1", 3, 4)
	w.now = w.now.Add(time.Hour)
	do(t, l, l.Due(), all)
	counts("a lookup that found a chunk", false)
	step(0)
	counts("what the lookup has left", true)

	feed(l, "d2", 5)
	l.Resume(worker.Assignment{Stream: 1, Position: 6, LogEnd: 6})
	counts("a partition that was away", false)

	feed(l, "d3", 6)
	step(time.Hour)
	before = read()
	step(49 * time.Hour)
	step(2 * time.Second)
	after := read()
	require.Equal(t, before.Count, after.Count)
	require.Equal(t, before.Count, after.Exact, "the tail of a chain that is forgotten shows no more")
}
