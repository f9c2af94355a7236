package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// blockLog is a partition of the journal. It is ingest.Journal and ingest.BlockLog.
type blockLog struct {
	begin  int64
	values [][]byte
	fault  func() (applied bool, err error) // of an append; nil: none
	limit  int                              // bytes of an append; 0: none

	forgets bool // it keeps nothing
	taken   int  // bytes that Kafka would store, about
}

func (b *blockLog) end() int64 { return b.begin + int64(len(b.values)) }

func (b *blockLog) Append(_ context.Context, _ string, _ int32, values [][]byte) (int64, error) {
	applied, err := true, error(nil)
	if b.fault != nil {
		applied, err = b.fault()
	}
	if size := len(bytes.Join(values, nil)); b.limit > 0 && size > b.limit {
		return 0, fmt.Errorf("an append of %d bytes: %w", size, store.ErrTooLarge)
	}
	base := b.end()
	for _, v := range values {
		b.taken += len(v) + 10
	}
	if applied && b.forgets {
		b.begin += int64(len(values))
		return base, err
	}
	if applied {
		for _, v := range values {
			b.values = append(b.values, slices.Clone(v))
		}
	}
	return base, err
}

func (b *blockLog) Partition(string, int32) ingest.BlockLog { return b }

func (b *blockLog) Bounds(context.Context) (first, end int64, err error) {
	return b.begin, b.end(), nil
}

func (b *blockLog) Each(_ context.Context, from, to int64, f func(int64, []byte) error) error {
	for at := from; at < min(to, b.end()); at++ {
		if err := f(at, b.values[at-b.begin]); err != nil {
			return err
		}
	}
	return nil
}

// withJournal gives a world a journal.
func withJournal(w *world) *world {
	w.blocks = &blockLog{}
	return w
}

// long returns a hold that nothing in a test outlives: rows are in the journal, or replayed.
func long(c *ingest.Config) { c.Hold, c.JournalEvery = 6*time.Hour, 5*time.Second }

// A process that dies leaves its bins in the journal: the next one has them again, reads the log from where the journal
// ends, cuts nothing, and asks the store nothing.
func TestJournalRestoresBins(t *testing.T) {
	const devices, records = 5, 1000
	w := withJournal(newWorld(t, nil))
	l, ctx := w.worker(long), ingesttest.Deadline(t)
	for i := range int64(records) {
		r := one(i, fmt.Sprintf("d%d", i%devices))
		w.log = append(w.log, r)
		require.NoError(t, l.Take(ctx, r))
		if i%10 == 0 {
			w.now = w.now.Add(time.Second)
			require.NoError(t, l.Step(ctx))
			w.commitFloor(l)
		}
	}
	require.Zero(t, w.commit, "nothing is stored")
	require.Greater(t, w.meta.F, int64(records/2))
	before := rowsOf(l)
	require.Equal(t, records, before)

	calls := w.Chunks.Calls(storetest.Last) + w.Chunks.Calls(storetest.Create)
	next := w.worker(long)
	require.Equal(t, 1, w.whole)
	require.Equal(t, w.meta.F, next.Position(), "the log is read from there")
	for at := next.Position(); at < records; at++ {
		require.NoError(t, next.Take(ctx, w.log[at]))
	}
	require.NoError(t, next.Step(ctx))
	require.Equal(t, records, rowsOf(next))
	require.Equal(t, calls, w.Chunks.Calls(storetest.Last)+w.Chunks.Calls(storetest.Create))
	require.NoError(t, next.Finish(ctx))
	w.commitFloor(next)
	require.False(t, w.meta.Counts(), "nothing of the journal is needed any more")
	w.check()
	require.Equal(t, devices, w.Chunks.Calls(storetest.Create), "a chunk each")
}

// Leaving: everything goes to the journal, and the next owner reads nothing of the log again.
func TestFlushLeavesNothingToReplay(t *testing.T) {
	w := withJournal(newWorld(t, logOf(4, 300)))
	l, ctx := w.worker(long), ingesttest.Deadline(t)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.True(t, l.Loose())
	l.Flush()
	for l.Loose() {
		require.NoError(t, l.Step(ctx))
	}
	w.commitFloor(l)
	require.Equal(t, int64(len(w.log)), w.meta.F)
	next := w.worker(long)
	require.Equal(t, int64(len(w.log)), next.Position())
	require.NoError(t, next.Finish(ctx))
	w.commitFloor(next)
	w.check()
}

// Processes come and go more often than times are written: each goes on with the bins of the one before, and the
// catalog's times are never much further behind than the interval.
func TestCatalogTimesAcrossRestarts(t *testing.T) {
	const devices, day = 20, 24 * time.Hour
	w := withJournal(newWorld(t, nil))
	change := func(c *ingest.Config) {
		c.Hold, c.JournalEvery, c.CatalogEvery, c.CatalogWait = 36*time.Hour, 5*time.Second, 7*day, 10*time.Second
		c.Past = 100 * day
	}
	l := w.worker(change)
	for hour := 0; hour < 30*24; hour += 6 {
		for i := range devices {
			value := fmt.Sprintf(`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":1}}`, i, w.now.UnixMilli())
			r := admit.Record{Offset: l.Position(), Time: w.now.UnixMilli(), Value: []byte(value)}
			w.log = append(w.log, r)
			require.NoError(t, l.Take(t.Context(), r))
		}
		for range 6 {
			w.now = w.now.Add(time.Hour)
			attempt(t, l)
		}
		for i := range devices {
			e, ok := w.Catalog.Entry("acme", fmt.Sprintf("d%d", i))
			require.True(t, ok)
			require.Less(t, w.now.Sub(time.UnixMilli(e.Last)), 8*day, "d%d after %d hours", i, hour)
		}
		if hour%48 == 0 {
			l.Flush()
			for l.Loose() {
				require.NoError(t, l.Step(t.Context()))
			}
			w.commitFloor(l)
			l = w.worker(change)
		}
	}
	require.Greater(t, w.whole, 10, "bins were taken over")
}

// A journal that is down holds nothing up: what is stored moves the floor, and blocks go out again when it is back.
func TestJournalOutage(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	down, appends := true, 0
	w.blocks.fault = func() (bool, error) {
		appends++
		if down {
			return appends%2 == 0, errors.New("no leader")
		}
		return true, nil
	}
	l, ctx := w.worker(func(c *ingest.Config) {
		c.Hold, c.JournalEvery, c.RetryBackoff = time.Minute, 5*time.Second, time.Second
	}), ingesttest.Deadline(t)
	try := func() {
		for _, j := range l.Due() {
			require.NoError(t, l.Try(ctx, j))
		}
	}
	for i := range int64(300) {
		w.log = append(w.log, one(i, fmt.Sprintf("d%d", i%3)))
		require.NoError(t, l.Take(ctx, w.log[i]))
		w.now = w.now.Add(time.Second)
		try()
	}
	require.Positive(t, l.Floor(), "bins are stored all the same")
	require.Equal(t, l.Floor(), l.JournalFloor())
	require.Less(t, appends, 100, "attempts back off")
	down = false
	w.now = w.now.Add(time.Minute)
	for range 8 {
		w.now = w.now.Add(5 * time.Second)
		try()
	}
	require.NoError(t, l.Finish(ctx))
	w.commitFloor(l)
	w.check()
}

// What no append has room for does not hold up the others: its bin is stored. A broker that takes less than it should
// gets less at once.
func TestBrokerWithSmallMaximumMessage(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.blocks.limit = 2000
	l, ctx := w.worker(long), ingesttest.Deadline(t)
	for i := range int64(60) {
		w.log = append(w.log, one(i, fmt.Sprintf("d%d", i)))
	}
	w.log = append(w.log, values(60, fmt.Sprintf(`{"text":"%x"}`, ingesttest.Random(5000, 5))))
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	for range 30 {
		w.now = w.now.Add(time.Second)
		require.NoError(t, l.Step(ctx))
	}
	w.commitFloor(l)
	require.Equal(t, int64(len(w.log)), w.meta.F, "the small ones are in the journal, the large one is stored")
	require.Equal(t, 1, w.Chunks.Calls(storetest.Create))
	require.NoError(t, l.Finish(ctx))
	w.commitFloor(l)
	w.check()
}

// lostShelf loses what it takes.
type lostShelf struct{}

// Put implements binning.Shelf.
func (s lostShelf) Put([]byte) (binning.Shelved, error) { return s, nil }

// Get implements binning.Shelved.
func (lostShelf) Get() ([]byte, error) { return nil, errors.New("the disk has another block there") }

// A partition that comes back finds that rows are lost in the spill file, and leaves at once: it commits nothing, its
// head fails rather than lack these rows, and the next owner loads them.
func TestNothingIsCommittedOnceRowsAreLost(t *testing.T) {
	w, ctx := withJournal(newWorld(t, nil)), t.Context()
	l := w.worker(long)
	for i := range int64(400) {
		w.log = append(w.log, one(i, fmt.Sprintf("d%d", i/200)))
		require.NoError(t, l.Take(ctx, w.log[i]))
		w.now = w.now.Add(time.Second)
		attempt(t, l)
	}
	w.now = w.now.Add(10 * time.Second)
	attempt(t, l)
	w.commitFloor(l)
	require.EqualValues(t, len(w.log), w.meta.F)
	require.NoError(t, worker.Shelve(l.Worker, "d0", lostShelf{}))
	l.Resume(worker.Assignment{Stream: 1, Position: 50, LogEnd: 400})
	require.Error(t, l.Lost())
	var faults []error
	for _, err := range l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All}).Rows {
		faults = append(faults, err)
	}
	require.ErrorContains(t, errors.Join(faults...), "the disk has another block there")
	w.commitFloor(l)
	require.Equal(t, len(w.log), rowsOf(w.worker(long)))
}

// A partition goes to another process, and the journal is made anew. It comes back once the other one has appended
// more than was there before: what the first process had appended is gone, though no link shows it. It does not count
// on that, nor on an append that was on its way.
func TestJournalMadeAnewWhileThePartitionIsAway(t *testing.T) {
	for _, onItsWay := range []bool{false, true} {
		w := withJournal(newWorld(t, nil))
		w.blocks.begin = 10 // the first ones are deleted by age
		ctx := ingesttest.Deadline(t)
		take := func(l *ingest.Local, to int64) {
			for at := l.Position(); at < to; at++ {
				if at == int64(len(w.log)) {
					w.log = append(w.log, one(at, fmt.Sprintf("d%d", at)))
				}
				require.NoError(t, l.Take(ctx, w.log[at]))
			}
		}
		flush := func(l *ingest.Local) {
			for l.Flush(); l.Loose(); {
				require.NoError(t, l.Step(ctx))
			}
			w.commitFloor(l)
		}
		a := w.worker(long)
		take(a, 2)
		flush(a)
		take(a, 3)
		var late []write.Job
		if a.Flush(); onItsWay {
			w.now = w.now.Add(time.Second)
			isAppend := func(j write.Job) bool { _, ok := j.(*write.Append); return ok }
			late = do(t, a, a.Due(), not(isAppend))
			require.Len(t, late, 1)
			require.NoError(t, a.Attempt(ctx, late[0]))
		}

		b := w.worker(long)
		take(b, 4)
		w.blocks.begin, w.blocks.values = 0, nil
		flush(b)
		take(b, 20)
		flush(b)
		require.NoError(t, a.LoadTimes(ctx, w.meta, w.blocks))
		a.Resume(worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log))})
		for _, j := range late {
			a.Done(j, w.now)
		}
		w.commitFloor(a)

		c := w.worker(long)
		take(c, 20)
		w.checkAnswer(c)
		take(a, 30)
		flush(a)
		c = w.worker(long)
		require.EqualValues(t, 30, c.Position())
		w.checkAnswer(c)
	}
}
