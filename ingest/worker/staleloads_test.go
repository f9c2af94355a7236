package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// at returns a record of a device and an instant with its offset as value.
func at(offset int64, device string, instant int64) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d}}`, device, start+instant, offset)}
}

// checkAnswer holds that the store and a head together give what the log has up to the head's position (I5, I8).
func (w *world) checkAnswer(l *ingest.Local) {
	w.t.Helper()
	values, from := map[ingesttest.Series]telemetry.Value{}, map[ingesttest.Series]store.Source{}
	for r, err := range l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All}).Rows {
		require.NoError(w.t, err)
		ingesttest.Merge(values, from, r.Device, r.Source, r.Frame)
	}
	for _, d := range w.Chunks.Documents() {
		c, err := chunk.Parse(d.Doc)
		require.NoError(w.t, err)
		frame, err := c.Frame(nil)
		require.NoError(w.t, err)
		id := c.Header.ID
		ingesttest.Merge(values, from, d.Key.Device,
			store.Source{Stream: id.Stream, Partition: id.Partition, Through: c.Header.Through}, frame)
	}
	want, _ := w.published(l.Position())
	require.Equal(w.t, want, values, "position %d", l.Position())
}

// jobOf wants the look-ups and creates of a device.
func jobOf(device string) func(write.Job) bool {
	return func(j write.Job) bool {
		switch j := j.(type) {
		case *write.Lookup:
			return j.Keys[0].Device == device
		case *write.Create:
			return j.Key.Device == device
		}
		return false
	}
}

// A process journals some rows of a chain, stores them together with later ones that never come to the journal, and
// dies while another chain holds the committed offset back. A process that loads the journal has the older rows and not
// the later ones: what it reads from there on does not lift the older ones above those that are stored, neither in its
// own head nor, out of the journal, in that of the next owner (rules J4, R5).
func TestLoadedRowsDoNotWinOverLaterChunks(t *testing.T) {
	for _, later := range []int{1, 200} {
		w := withJournal(newWorld(t, []admit.Record{at(0, "d1", 0), at(1, "d0", 0), at(2, "d0", 5)}))
		ctx := ingesttest.Deadline(t)
		flush := func(l *ingest.Local) {
			l.Flush()
			for l.Loose() {
				require.NoError(t, l.Step(ctx))
			}
		}
		take := func(l *ingest.Local, n int) {
			for ; n > 0; n-- {
				i := int64(len(w.log))
				w.log = append(w.log, at(i, "d0", 10+i))
				require.NoError(t, l.Take(ctx, w.log[i]))
				w.checkAnswer(l)
			}
		}
		first := w.worker(long)
		for _, r := range w.log {
			require.NoError(t, first.Take(ctx, r))
		}
		flush(first)
		w.log = append(w.log, at(3, "d0", 0))
		require.NoError(t, first.Take(ctx, w.log[3]))
		first.Drain()
		for range 2 { // look-up, create
			do(t, first, first.Due(), jobOf("d0"))
		}
		require.Len(t, w.Chunks.Documents(), 1)
		w.commitFloor(first)
		require.Equal(t, []int64{0, 4}, []int64{w.commit, w.meta.F})

		second := w.worker(long)
		w.checkAnswer(second)
		take(second, later)
		flush(second)
		w.commitFloor(second)
		require.Zero(t, w.commit)

		third := w.worker(long)
		require.Equal(t, 2, w.whole)
		w.checkAnswer(third)
		take(third, 1)

		second.Drain() // it does not know that it has lost the partition, and stores another chunk
		for range 3 {
			do(t, second, second.Due(), jobOf("d0"))
		}
		require.Len(t, w.Chunks.Documents(), 2)
		w.checkAnswer(second)
		third.Drain()
		left := do(t, third, third.Due(), jobOf("d0"))
		w.checkAnswer(third) // the result of the lookup lingers
		do(t, third, left, all)
		require.NoError(t, third.Finish(ctx))
		w.checkAnswer(third)
		w.commitFloor(third)
		w.check()
	}
}

// A partition comes back to a process that has a create under way: others have stored these rows in two chunks, later
// ones among them, and the create meets the first one. What comes back into the bin is not lifted above the second one
// by what is read from then on (rules W8, R5).
func TestCreateOutlivesItsGeneration(t *testing.T) {
	w := newWorld(t, []admit.Record{at(0, "d0", 0), at(1, "d0", 1), at(2, "d0", 1), at(3, "d0", 2)})
	ctx := context.Background()
	first, other := w.worker(nil), w.worker(nil)
	for _, r := range w.log[:2] {
		require.NoError(t, first.Take(ctx, r))
	}
	w.now = w.now.Add(20 * time.Second)
	isCreate := func(j write.Job) bool { _, ok := j.(*write.Create); return ok }
	create := do(t, first, first.Due(), not(isCreate))
	create = do(t, first, append(create, first.Due()...), not(isCreate))
	require.Len(t, create, 1)

	require.NoError(t, other.Take(ctx, w.log[0]))
	require.NoError(t, other.Finish(ctx))
	for _, r := range w.log[1:3] {
		require.NoError(t, other.Take(ctx, r))
	}
	require.NoError(t, other.Finish(ctx))
	require.Len(t, w.Chunks.Documents(), 2)
	w.commitFloor(other)

	first.Resume(worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log))})
	require.NoError(t, first.Take(ctx, w.log[3]))
	w.checkAnswer(first)
	do(t, first, create, all)
	w.checkAnswer(first)
	require.NoError(t, first.Finish(ctx))
	w.checkAnswer(first)
	w.commitFloor(first)
	w.check()
}
