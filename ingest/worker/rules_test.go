package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// noise returns a message with text that does not compress, and fills a third of a document.
func noise(offset int64, device string) admit.Record {
	return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
		`{"tenant":"acme","device":%q,"ts":%d,"values":{"log":"%x"}}`, device, start+offset,
		ingesttest.Random(16_000, offset))}
}

func all(write.Job) bool { return true }

// rowsOf returns how many rows a head shows.
func rowsOf(l *ingest.Local) (n int) {
	for r := range l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All}).Rows {
		n += r.Frame.Rows()
	}
	return n
}

// A bin that fills several documents goes out as a whole when its hold is over (rule W5).
func TestLargeBinIsCutWhole(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(12) {
		require.NoError(t, l.Take(ctx, noise(i, "d0")))
	}
	w.now = w.now.Add(20 * time.Second)
	require.NoError(t, l.Step(ctx))
	require.Len(t, w.Stored(), 12)
	require.GreaterOrEqual(t, len(w.Chunks.Documents()), 4)
	w.CheckChains()
}

// However large a record is, its readings of one chain are in one chunk (rule W2).
func TestRecordIsNotDivided(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	const each, records = 7, 6
	for i := range int64(records) {
		value := []byte("[")
		for k := range int64(each) {
			if k > 0 {
				value = append(value, ',')
			}
			value = fmt.Appendf(value, `{"tenant":"acme","device":"d0","ts":%d,"values":{"log":"%x"}}`, start+i*each+k,
				ingesttest.Random(4000, i*each+k))
		}
		require.NoError(t, l.Take(ctx, admit.Record{Offset: i, Time: start, Value: append(value, ']')}))
	}
	require.NoError(t, l.Finish(ctx))
	w.CheckChains()
	require.Len(t, w.Stored(), each*records)
	for _, h := range w.Headers() {
		require.EqualValues(t, each*(h.Through-h.First+1), h.Readings)
	}
	require.GreaterOrEqual(t, len(w.Headers()), 3)
}

// News that come while older news are on their way to the catalog do not hide those.
func TestFloorWaitsForOldestCatalogUpdate(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.CatalogEvery = time.Hour }), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, values(0, `{"a":1}`)))
	w.now = w.now.Add(20 * time.Second)
	notes := do(t, l, l.Due(), not(isCatalogUpdate))
	require.NoError(t, l.Take(ctx, values(1, `{"b":1}`)))
	require.NoError(t, l.Take(ctx, values(2, `{"c":1}`)))
	w.now = w.now.Add(20 * time.Second)
	for range 3 {
		notes = append(notes, do(t, l, l.Due(), not(isCatalogUpdate))...)
	}
	require.Len(t, notes, 1, "one at a time")
	require.Zero(t, l.Floor())
	do(t, l, notes, all)
	require.EqualValues(t, 1, l.Floor(), "b and c are not in the catalog yet")
	require.NoError(t, l.Step(ctx))
	require.EqualValues(t, 3, l.Floor())
}

// What holds the floor back by too many records is cut before its hold is over (rule W7).
func TestLaggingBinIsCut(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Hold, c.MaxBehind = time.Hour, 100 }), ingesttest.Deadline(t)
	for i := range int64(300) {
		device := "d1"
		if i == 0 {
			device = "d0"
		}
		require.NoError(t, l.Take(ctx, one(i, device)))
		if i%10 == 0 {
			w.now = w.now.Add(time.Second)
			require.NoError(t, l.Step(ctx))
		}
		require.GreaterOrEqual(t, l.Floor(), i-120)
	}
}

// When the log is about to delete what is not stored, the bins that hold it are cut, and no others.
func TestBinsBelowRetentionAreStored(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Hold = 24 * time.Hour }), ingesttest.Deadline(t)
	for i := range int64(100) {
		require.NoError(t, l.Take(ctx, one(i, fmt.Sprintf("d%d", i/10))))
	}
	require.NoError(t, l.Step(ctx))
	require.Zero(t, l.Floor())
	l.CutBelow(25, w.now)
	require.NoError(t, l.Step(ctx))
	require.Equal(t, int64(30), l.Floor())
	require.Equal(t, 3, w.Chunks.Calls(storetest.Create))
}

// A fleet with bins that begin together does not lag together: what holds back the floor by too many records goes out
// evenly.
func TestFleetDoesNotLagTogether(t *testing.T) {
	const devices, behind = 200, 4000
	w := newWorld(t, nil)
	discard, l := w.alone(func(c *ingest.Config) {
		c.Hold, c.MaxBehind, c.CatalogEvery, c.CommitEvery = 24*time.Hour, behind, time.Hour, time.Second
	})
	offset, before, most := int64(0), 0, 0
	for range 3 * behind / devices {
		for d := range devices {
			require.NoError(t, l.Take(context.Background(), one(offset, fmt.Sprintf("truck-%04d", d))))
			offset++
		}
		w.now = w.now.Add(time.Second)
		require.NoError(t, l.Step(context.Background()))
		most, before = max(most, discard.Chunks-before), discard.Chunks
	}
	require.GreaterOrEqual(t, l.Floor(), offset-behind-2*devices)
	require.Less(t, most, 4*devices*devices/behind, "chunks a second, of 200 devices in twenty seconds")
}

// A create with a lost answer meets its own chunk: the rows stay in the head for a moment all the same (rule R1).
func TestStoredRowsLinger(t *testing.T) {
	w := newWorld(t, nil)
	lost := true
	w.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind == storetest.Create && lost {
			lost = false
			return &storetest.Fault{Applied: true, Err: errors.New("connection reset")}
		}
		return nil
	}
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(5) {
		require.NoError(t, l.Take(ctx, one(i, "d0")))
	}
	w.now = w.now.Add(20 * time.Second)
	require.NoError(t, l.Step(ctx))
	require.Len(t, w.Stored(), 5)
	require.False(t, lost)
	require.Equal(t, 5, rowsOf(l))
	w.now = w.now.Add(2 * time.Second)
	require.NoError(t, l.Step(ctx))
	require.Zero(t, rowsOf(l))
	require.Zero(t, heldRows(t, l))
}

// A partition that comes back may have been read further by others, which have answered from it: it counts as caught up
// only when it has reached the log's end as of then (rule R3), and chains it does not know are looked up (rule W3).
func TestResume(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, one(0, "d0")))
	require.True(t, l.CaughtUp())

	other := w.worker(nil)
	for i := range int64(50) {
		require.NoError(t, other.Take(ctx, one(i, fmt.Sprintf("d%d", i%5))))
	}
	require.NoError(t, other.Finish(ctx))
	l.Resume(worker.Assignment{Stream: 1, Position: 10, LogEnd: 50})
	require.False(t, l.CaughtUp())
	require.EqualValues(t, 10, l.Position())
	head := l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All})
	require.EqualValues(t, 50, head.CaughtUp)
	for i := l.Position(); i < 50; i++ {
		require.NoError(t, l.Take(ctx, one(i, fmt.Sprintf("d%d", i%5))))
	}
	require.True(t, l.CaughtUp())
	require.NoError(t, l.Finish(ctx))
	w.CheckChains()
	require.Len(t, w.Stored(), 50)
	require.LessOrEqual(t, w.conflicts(), 1, "only the chain that was thought to be known")
}

// A partition was away, and somebody else has stored its rows, and a correction of one of them: what comes later does
// not carry the old value past the correction (rules W8, R5).
func TestResumeDropsStaleRows(t *testing.T) {
	at := func(offset, ts int64, value int) admit.Record {
		return admit.Record{Offset: offset, Time: start, Value: fmt.Appendf(nil,
			`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":%d}}`, ts, value)}
	}
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, at(0, start, 1)))
	require.NoError(t, l.Take(ctx, at(1, start+1, 5)))

	other := w.worker(nil)
	for _, r := range []admit.Record{at(0, start, 1), at(1, start+1, 5), at(2, start, 2)} {
		require.NoError(t, other.Take(ctx, r))
	}
	require.NoError(t, other.Finish(ctx))

	l.Resume(worker.Assignment{Stream: 1, Position: 3, LogEnd: 3})
	require.NoError(t, l.Take(ctx, at(3, start+2, 7)))
	correction := store.Source{Stream: 1, Through: 2}
	for rows := range l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All}).Rows {
		if rows.Frame.Groups[0].Times[0] == start {
			require.Negative(t, rows.Source.Compare(correction), "the correction is newer")
		}
	}
	require.NoError(t, l.Step(ctx))
	require.EqualValues(t, 3, l.Floor())
	w.now = w.now.Add(2 * time.Second)
	require.NoError(t, l.Step(ctx))
	require.Equal(t, 1, rowsOf(l), "what others have stored leaves the head after a moment")
	require.NoError(t, l.Finish(ctx))
	w.CheckChains()
	require.Equal(t, telemetry.FloatValue(2), w.Stored()[ingesttest.Series{Device: "d0", Metric: "a", Time: start}])
	require.Zero(t, w.conflicts(), "the tail was looked up again")
}

// A tail that lies beyond all that is known of the log is suspect until the log turns out to reach further (rule W9).
func TestSuspectTail(t *testing.T) {
	w := newWorld(t, nil)
	former, ctx := w.worker(nil), ingesttest.Deadline(t)
	for i := range int64(50) {
		require.NoError(t, former.Take(ctx, one(i, "d0")))
	}
	require.NoError(t, former.Finish(ctx))

	w.log = make([]admit.Record, 20) // the log ends at 20 now
	l := w.worker(nil)
	require.NoError(t, l.Take(ctx, one(0, "d0")))
	_, suspect := l.Bins().Suspect()
	require.False(t, suspect)
	l.Drain()
	require.NoError(t, l.Step(ctx))
	tail, suspect := l.Bins().Suspect()
	require.True(t, suspect)
	require.EqualValues(t, 49, tail)
	l.Bins().SetLogEnd(49)
	_, suspect = l.Bins().Suspect()
	require.True(t, suspect, "record 49 is not there")
	l.Bins().SetLogEnd(50)
	_, suspect = l.Bins().Suspect()
	require.False(t, suspect)
}

// A container that is about to be dropped is asked for, not written to.
func TestExpiredContainer(t *testing.T) {
	w := newWorld(t, nil)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	require.NoError(t, dir.AskMonth(context.Background(), "chunks-2026-11", ""))
	expired, err := dir.Mark(context.Background(), dir.Snapshot().Month("chunks-2026-11"), control.MonthExpired)
	require.NoError(t, err)
	l, ctx := w.worker(func(c *ingest.Config) { c.RetryBackoff = time.Millisecond }), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, one(0, "d0")))
	w.now = w.now.Add(20 * time.Second)
	for _, j := range l.Due() {
		if _, ok := j.(*write.Lookup); ok {
			require.NoError(t, l.Do(ctx, j))
		}
	}
	creates := l.Due()
	require.Len(t, creates, 1)
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Do(short, creates[0]), context.DeadlineExceeded)
	require.Empty(t, w.Chunks.Documents())

	_, err = dir.Mark(ctx, expired, control.MonthAsked)
	require.NoError(t, err)
	require.NoError(t, l.Do(ctx, creates[0]))
	require.Len(t, w.Chunks.Documents(), 1)
}

// A snapshot that has grown old is read again before a reading is placed or refused (rule W1).
func TestStaleSnapshot(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, one(0, "d0")))
	w.now = w.now.Add(5 * time.Hour)
	late := one(1, "d0")
	late.Time = w.now.UnixMilli()
	late.Value = fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, late.Time)
	lists := 0
	w.Docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpList {
			lists++
		}
		return nil
	}
	require.NoError(t, l.Take(ctx, late))
	require.NoError(t, l.Finish(ctx))
	require.Empty(t, w.deadLetters)
	require.Len(t, w.Stored(), 2)
	require.Positive(t, lists)
}

// Readings of tenants that nobody has registered do not have the snapshot read again for each of them.
func TestUnknownTenantsReadSnapshotSeldom(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Register = false }), ingesttest.Deadline(t)
	lists := 0
	w.Docs.Fault = func(op, _, _ string) *storetest.Fault {
		if op == storetest.OpList {
			lists++
		}
		return nil
	}
	for i := range int64(1000) {
		w.now = w.now.Add(5 * time.Millisecond)
		require.NoError(t, l.Take(ctx, admit.Record{Offset: i, Time: start,
			Value: fmt.Appendf(nil, `{"tenant":"t%d","device":"d","ts":%d,"values":{"a":1}}`, i, start)}))
	}
	require.LessOrEqual(t, lists, 5*7, "five lists a second")
	require.Positive(t, lists)

	// One that is registered meanwhile is known within a second.
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := dir.Register(ctx, "t7")
	require.NoError(t, err)
	w.now = w.now.Add(time.Second)
	require.NoError(t, l.Take(ctx, admit.Record{Offset: 1000, Time: start,
		Value: fmt.Appendf(nil, `{"tenant":"t7","device":"d","ts":%d,"values":{"a":1}}`, start)}))
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.deadLetters, 1000)
	require.Len(t, w.Stored(), 1)
}

// Of a tenant with a damaged document new readings are refused, and those in memory wait; others go on meanwhile. Once
// it is mended all is stored that was not refused.
func TestDamagedTenantHoldsUpNobody(t *testing.T) {
	w := newWorld(t, nil)
	ctx := ingesttest.Deadline(t)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := dir.Refresh(ctx)
	require.NoError(t, err)
	l := ingest.NewLocal(w.config(), ingest.Stores{Chunks: w.Chunks, Directory: dir, Catalog: w.Catalog,
		Streams: stream.NewStreams(w.Docs), DeadLetters: w}, worker.Assignment{Stream: 1, LogEnd: 10})
	offset := int64(0)
	take := func(tenant string) {
		require.NoError(t, l.Take(ctx, admit.Record{Offset: offset, Time: start,
			Value: fmt.Appendf(nil, `{"tenant":%q,"device":"d","ts":%d,"values":{"a":1}}`, tenant, start+offset)}))
		offset++
	}
	take("globex")
	take("acme")
	old, found, err := w.Docs.Read(ctx, tenant.Kind, "globex")
	require.NoError(t, err)
	require.True(t, found)
	damaged := old
	damaged.Body = []byte(`{"epoch":7}`)
	old.ETag, err = w.Docs.Replace(ctx, damaged)
	require.NoError(t, err)
	_, err = dir.Refresh(ctx)
	require.NoError(t, err)
	take("globex")
	take("acme")
	w.now = w.now.Add(24 * time.Hour)
	require.NoError(t, l.Step(ctx))
	require.Len(t, w.deadLetters, 1)
	require.Len(t, w.Stored(), 2, "those of acme")
	_, err = w.Docs.Replace(ctx, old)
	require.NoError(t, err)
	w.now = w.now.Add(time.Second) // a later snapshot than that under which acme's readings were stored
	_, err = dir.Refresh(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.deadLetters, 1)
	require.Len(t, w.Stored(), 3)
}

// Without a mark nothing is created; a Stamp that fails is made again (rule W9).
func TestMarkComesBeforeChunks(t *testing.T) {
	w := newWorld(t, nil)
	ctx := ingesttest.Deadline(t)
	streams := stream.NewStreams(w.Docs)
	s, err := streams.Find(ctx, "cluster", "topic", 1)
	require.NoError(t, err)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err = dir.Refresh(ctx)
	require.NoError(t, err)
	l := ingest.NewLocal(w.config(), ingest.Stores{Chunks: w.Chunks, Directory: dir, Catalog: w.Catalog, Streams: streams,
		DeadLetters: w},
		worker.Assignment{Stream: s.Number, LogEnd: 10, Unmarked: true})
	require.Nil(t, l.Committed(0, w.now), "there is no record to mark yet")
	for i := range int64(5) {
		require.NoError(t, l.Take(ctx, one(i, "d0")))
	}
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Step(ctx))
	require.Empty(t, w.Chunks.Documents())
	failures := 0
	w.Docs.Fault = func(op, kind, _ string) *storetest.Fault {
		if kind == stream.KindMark && op == storetest.OpCreate && failures < 3 {
			failures++
			return &storetest.Fault{Err: errors.New("down")}
		}
		return nil
	}
	stamp := l.Committed(l.Floor(), w.now)
	require.NotNil(t, stamp)
	require.Nil(t, l.Committed(l.Floor(), w.now), "one is under way")
	require.NoError(t, l.Do(ctx, stamp))
	require.Equal(t, 3, failures)
	_, _, marked, err := streams.Of(ctx, "cluster", "topic", 1, 0)
	require.NoError(t, err)
	require.True(t, marked)
	require.NoError(t, l.Step(ctx))
	require.Len(t, w.Chunks.Documents(), 1)
}

// The head shows exactly the rows that are held, while records are fed; the race detector watches.
func TestHeadReadsWhileFeeding(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Linger = 1000 * time.Hour }), ingesttest.Deadline(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range ingesttest.Rounds(150, 30) {
			head := l.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All})
			seen := map[int64]bool{}
			for r := range head.Rows {
				for _, at := range r.Frame.Groups[0].Times {
					seen[at-start] = true
				}
			}
			// Nothing has left the head yet: it shows every offset below its position, and none above.
			if int64(len(seen)) != head.Position {
				t.Errorf("position %d, %d rows", head.Position, len(seen))
				return
			}
		}
	}()
	offset := int64(0)
	for running := true; running && offset < 3000; {
		select {
		case <-done:
			running = false
		default:
		}
		for range 20 {
			require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%d", offset%3))))
			offset++
		}
		w.now = w.now.Add(time.Second)
		require.NoError(t, l.Step(ctx))
	}
	<-done
}

// No chunk goes past a dead letter that is not acknowledged (rule W5): else a reading between could be committed,
// refused and lost at once.
func TestNoChunkPassesDeadLetter(t *testing.T) {
	bad := func(offset int64) admit.Record {
		return admit.Record{Offset: offset, Time: start, Value: []byte("bad")}
	}
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	feed := func(records ...admit.Record) {
		for _, r := range records {
			require.NoError(t, l.Take(ctx, r))
		}
	}
	var burials []write.Job
	settle := func() {
		w.now = w.now.Add(20 * time.Second)
		for range 4 {
			burials = append(burials, do(t, l, l.Due(), not(isPublish))...)
		}
	}
	feed(one(0, "d0"), bad(1), one(2, "d0"))
	settle()
	require.Empty(t, w.Headers(), "dead letter 1 is under way")
	feed(one(3, "d0"), bad(4), one(5, "d0"))
	settle()
	require.Empty(t, w.Headers())

	require.Len(t, burials, 2, "both are under way")
	do(t, l, burials[1:], all)
	settle()
	require.Empty(t, w.Headers(), "dead letter 1 is under way still")
	w = newWorld(t, nil)
	l = w.worker(nil)
	burials = nil
	feed(one(0, "d0"), bad(1), one(2, "d0"), one(3, "d0"))
	settle()
	feed(bad(4), one(5, "d0"))
	settle()
	first := burials[:1]
	burials = burials[1:]
	do(t, l, first, all)
	settle()
	require.Len(t, w.Headers(), 1, "what was to be cut goes out, whatever came since")
	require.LessOrEqual(t, w.Headers()[0].Through, int64(3), "dead letter 4 is under way")
	do(t, l, burials, all)
	burials = nil
	settle()
	require.Len(t, w.Headers(), 2)
	require.EqualValues(t, 6, l.Floor())
	w.CheckChains()
}

// A day that begins after the partition came here has no chunks: nobody is asked (rule W3).
func TestNewDayNeedsNoLookup(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	w.now = w.now.Add(24 * time.Hour)
	at := w.now.UnixMilli()
	require.NoError(t, l.Take(ctx, admit.Record{Offset: 0, Time: at,
		Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, at)}))
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.Stored(), 1)
	require.Zero(t, w.Chunks.Calls(storetest.Last))
}

// A reading with a retention that was over when it was published is a dead letter, by the record's timestamp (rule
// W10).
func TestExpiredReadingIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	ctx := ingesttest.Deadline(t)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now },
		Retention: 24 * time.Hour})
	_, err := dir.Register(ctx, "acme")
	require.NoError(t, err)
	l := w.worker(nil)
	old := one(0, "d0")
	old.Time += 3 * 86_400_000
	require.NoError(t, l.Take(ctx, old))
	require.NoError(t, l.Take(ctx, one(1, "d0")), "as late, but published in time")
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.deadLetters, 1)
	require.Equal(t, decode.Expired, w.deadLetters[0].Bad.Reason)
	require.Len(t, w.Stored(), 1)
}
