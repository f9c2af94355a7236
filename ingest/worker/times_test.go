package worker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// comeAndGo returns a log in which each device reports for a while and then never again.
func comeAndGo(seed uint64, n int) (log []admit.Record) {
	rnd := rand.New(rand.NewPCG(seed, 4))
	for i := range n {
		at := int64(start + i*700)
		device := fmt.Sprintf("d%d", (i+rnd.IntN(4))*4/n)
		value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":%d}}`, device, at, i)
		log = append(log, admit.Record{Offset: int64(i), Time: at, Value: []byte(value)})
	}
	return log
}

type firstLast struct{ First, Last int64 }

// taken returns the times of each device by the records below an offset.
func (w *world) taken(through int64) map[string]firstLast {
	out := map[string]firstLast{}
	values, _ := w.published(through)
	for s := range values {
		x, ok := out[s.Device]
		if !ok {
			x = firstLast{s.Time, s.Time}
		}
		out[s.Device] = firstLast{min(x.First, s.Time), max(x.Last, s.Time)}
	}
	return out
}

// checkTimes holds that the catalog and the head together have the times of all that was taken: /api/v1/devices joins
// them.
func (w *world) checkTimes(l *ingest.Local) {
	known := map[string]firstLast{}
	taken := w.taken(l.Position())
	for device := range taken {
		if e, ok := w.Catalog.Entry("acme", device); ok && e.First <= e.Last {
			known[device] = firstLast{e.First, e.Last}
		}
	}
	for _, d := range l.Bins().ListDevices(store.ListRequest{Tenant: "acme"}) {
		x, ok := known[d.Device]
		if !ok {
			x = firstLast{d.First, d.Last}
		}
		known[d.Device] = firstLast{min(x.First, d.First), max(x.Last, d.Last)}
	}
	for device, x := range taken {
		require.LessOrEqual(w.t, known[device].First, x.First, "first of %s at %d", device, l.Position())
		require.GreaterOrEqual(w.t, known[device].Last, x.Last, "last of %s at %d", device, l.Position())
	}
	if l.Position() == int64(len(w.log)) {
		require.Equal(w.t, taken, known, "the times of everything")
	}
}

// A device that is idle stays exact although its process dies, costs the catalog nothing at a takeover, and is written
// when the worker lets go of it.
func TestTimesOfIdleDevicesAcrossTakeovers(t *testing.T) {
	const devices = 20
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = time.Minute, true
	l := w.worker(w.settings)
	for i := range int64(4 * devices) {
		if i%devices == 0 {
			w.now = w.now.Add(2 * time.Minute)
			attempt(t, l)
		}
		value := fmt.Sprintf(`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":1}}`, i%devices, w.now.UnixMilli())
		r := admit.Record{Offset: i, Time: w.now.UnixMilli(), Value: []byte(value)}
		w.log = append(w.log, r)
		require.NoError(t, l.Take(t.Context(), r))
	}
	for range 5 {
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
	}
	require.Zero(t, l.OpenBins(), "all is stored")
	w.commitFloor(l)
	require.EqualValues(t, len(w.log), w.commit)
	w.checkTimes(l)
	pages := catalogCalls(w)
	for range 5 {
		l = w.worker(w.settings)
		w.checkTimes(l)
		w.now = w.now.Add(10 * time.Minute)
		attempt(t, l)
		w.commitFloor(l)
	}
	require.Equal(t, 5, w.whole)
	require.Zero(t, pages[storetest.OpCreate], "no page is written for a takeover: %v", pages)
	for range 30 {
		w.now = w.now.Add(time.Hour)
		attempt(t, l)
		w.commitFloor(l)
	}
	w.checkCatalog()
	require.False(t, w.meta.Counts(), "the journal is not needed any more")
}

// A process stores two chunks and dies before the journal has their times. The next one finds out by the tail that the
// rows are stored: it owes the times of the chunk before the tail too, where a clock had run ahead.
func TestTimesOfChunksBeforeTheTail(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = 20*time.Second, true
	for i, ahead := range []time.Duration{0, 8 * time.Minute, 0, 0} {
		at := w.now.Add(time.Duration(i) * time.Second).UnixMilli()
		value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":%d}}`, at+ahead.Milliseconds(), i)
		w.log = append(w.log, admit.Record{Offset: int64(i), Time: at, Value: []byte(value)})
	}
	dies := w.worker(w.settings)
	for i, record := range w.log {
		require.NoError(t, dies.Take(t.Context(), record))
		w.now = w.now.Add(20 * time.Second)
		for range 3 {
			for _, job := range dies.Due() {
				switch job.(type) {
				case *write.Append: // the process dies before it
				default:
					require.NoError(t, dies.Do(t.Context(), job))
				}
			}
		}
		require.Len(t, w.Headers(), i+1, "each record is in a chunk of its own")
	}
	next := w.worker(w.settings)
	for _, record := range w.log {
		require.NoError(t, next.Take(t.Context(), record))
	}
	for range 4 {
		w.now = w.now.Add(20 * time.Second)
		require.NoError(t, next.Step(t.Context()))
		w.commitFloor(next)
	}
	require.EqualValues(t, len(w.log), w.commit)
	w.checkTimes(w.worker(w.settings))
}

// Times that are written alone change the version of what heads know: a querier that has read the catalog before reads
// it again, as no head lists them any more.
func TestWrittenTimesChangeTheVersion(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = time.Minute, true
	l := w.worker(w.settings)
	take := func(device string) {
		value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`, device, w.now.UnixMilli())
		r := admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)}
		w.log = append(w.log, r)
		require.NoError(t, l.Take(t.Context(), r))
		w.now = w.now.Add(2 * time.Minute)
		attempt(t, l)
	}
	take("idle")
	take("idle")
	take("busy")
	take("busy")
	listed, _ := w.Catalog.Entry("acme", "idle")
	read := l.Bins().CatalogPending("acme").Version // a querier reads the catalog here
	for range 60 {
		w.now = w.now.Add(time.Hour)
		take("busy")
		if now, _ := w.Catalog.Entry("acme", "idle"); now.Last != listed.Last {
			require.NotEqual(t, read, l.Bins().CatalogPending("acme").Version)
			heads := l.Bins().ListDevices(store.ListRequest{Tenant: "acme", Devices: []string{"idle"}})
			require.Len(t, heads, 1, "that querier asks now")
			require.Equal(t, now.Last, heads[0].Last)
			return
		}
		require.Equal(t, read, l.Bins().CatalogPending("acme").Version)
	}
	t.Fatal("the times of an idle device are never written")
}

// So does an earlier first time, and heads list it until each reader of the catalog sees it.
func TestEarlierTimesChangeTheVersion(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = time.Minute, true
	l := w.worker(w.settings)
	take := func(ts int64) {
		value := fmt.Sprintf(`{"tenant":"acme","device":"late","ts":%d,"values":{"a":1}}`, ts)
		r := admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)}
		w.log = append(w.log, r)
		require.NoError(t, l.Take(t.Context(), r))
		w.now = w.now.Add(2 * time.Minute)
		attempt(t, l)
	}
	take(w.now.UnixMilli())
	take(w.now.UnixMilli())
	read := l.Bins().CatalogPending("acme").Version
	first := w.now.UnixMilli() - 2*telemetry.DayMillis
	take(first)
	e, _ := w.Catalog.Entry("acme", "late")
	require.Equal(t, first, e.First)
	require.NotEqual(t, read, l.Bins().CatalogPending("acme").Version)
	heads := l.Bins().ListDevices(store.ListRequest{Tenant: "acme"})
	require.Len(t, heads, 1)
	require.Equal(t, first, heads[0].First)
}

// A partition goes to another process, which stores more and dies, and comes back: the first process has the times of
// the other one too, and leaves them to the next owner.
func TestTimesOfAnotherOwnerAfterResume(t *testing.T) {
	w := withJournal(newWorld(t, comeAndGo(5, 120)))
	w.hold, w.seldom = 20*time.Second, true
	ctx := t.Context()
	a := w.worker(w.settings)
	w.readAndSettle(a, 40)
	b := w.worker(w.settings)
	w.readAndSettle(b, 80)
	require.NoError(t, a.LoadTimes(ctx, w.meta, w.blocks))
	a.Resume(worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log))})
	w.readAndSettle(a, 120)
	for range 10 { // until nothing that the first process had before counts any more
		w.readAndSettle(a, 120)
	}
	w.checkTimes(a)
	c := w.worker(w.settings)
	w.checkTimes(c)
	require.NoError(t, c.Finish(ctx))
	w.commitFloor(c)
	w.check()
}

// A partition goes to another process and comes back. If the first process dies before it has appended anything, the
// next owner still loads the times that the other one has left.
func TestTimesOfAnotherOwnerBeforeTheNextAppend(t *testing.T) {
	w := withJournal(newWorld(t, comeAndGo(5, 120)))
	w.hold, w.seldom = 20*time.Second, true
	ctx := t.Context()
	a := w.worker(w.settings)
	w.readAndSettle(a, 40)
	b := w.worker(w.settings)
	w.readAndSettle(b, 120)
	require.True(t, w.meta.Counts())
	require.NoError(t, a.LoadTimes(ctx, w.meta, w.blocks))
	a.Resume(worker.Assignment{Stream: 1, Position: w.commit, LogEnd: int64(len(w.log))})
	w.commitFloor(a)
	w.checkTimes(a)
	w.checkTimes(w.worker(w.settings))
}

// A device is erased while its partition is elsewhere, and reports again there. The process that gets the partition
// back applies the order before it takes the times of what was stored since.
func TestTimesSinceAnOrderThatWasGivenElsewhere(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = time.Minute, true
	ctx := t.Context()
	take := func(l *ingest.Local) int64 {
		at := w.now.UnixMilli()
		value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":1}}`, at)
		require.NoError(t, l.Take(ctx, admit.Record{Offset: l.Position(), Time: at, Value: []byte(value)}))
		for range 4 {
			w.now = w.now.Add(time.Minute)
			attempt(t, l)
		}
		w.commit, w.meta = l.Floor(), l.JournalCommit()
		return at
	}
	a := w.worker(w.settings)
	dir := w.dir
	take(a)
	take(a)
	w.eraseThrough("d", 1)
	w.now = w.now.Add(2 * time.Minute)
	b := w.worker(w.settings)
	take(b)
	take(b)
	last := take(b)
	require.True(t, w.meta.Counts())
	e, _ := w.Catalog.Entry("acme", "d")
	require.Less(t, e.Last, last, "the journal alone has it")
	_, err := dir.Refresh(ctx)
	require.NoError(t, err)
	require.NoError(t, a.LoadTimes(ctx, w.meta, w.blocks))
	a.Resume(worker.Assignment{Stream: 1, Position: w.commit, LogEnd: w.commit})
	attempt(t, a)
	heads := a.Bins().ListDevices(store.ListRequest{Tenant: "acme"})
	require.Len(t, heads, 1)
	require.Equal(t, last, heads[0].Last)
}

// The times of a device that was erased and reports again are written to the journal again by a process that got the
// partition back, and has not looked up the tail since: the next owner takes them all the same.
func TestTimesWithoutALookupAfterAnOrder(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = time.Minute, true
	ctx := t.Context()
	var last int64
	take := func(l *ingest.Local) {
		last = w.now.UnixMilli()
		value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":1}}`, last)
		require.NoError(t, l.Take(ctx, admit.Record{Offset: l.Position(), Time: last, Value: []byte(value)}))
		for range 4 {
			w.now = w.now.Add(time.Minute)
			attempt(t, l)
		}
	}
	take(w.worker(w.settings))
	w.eraseThrough("d", 1)
	w.now = w.now.Add(2 * time.Minute)
	w.commit = 1
	l := w.worker(w.settings)
	take(l)
	take(l)
	take(l)
	before := l.JournalCommit()
	l.Resume(worker.Assignment{Stream: 1, Position: l.Floor(), LogEnd: l.Position()})
	for range 10 {
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
	}
	w.commit, w.meta = l.Floor(), l.JournalCommit()
	require.Greater(t, w.meta.From, before.From, "they were written again")
	l = w.worker(w.settings)
	require.NoError(t, l.Step(ctx))
	heads := l.Bins().ListDevices(store.ListRequest{Tenant: "acme"})
	require.Len(t, heads, 1)
	require.Equal(t, last, heads[0].Last)
}

// A copied order covers only readings that were copied from its account. The journal keeps the times of the device's
// own readings, and an append under way keeps the times that it carries.
func TestTimesUnderACopiedOrder(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		w := withJournal(newWorld(t, nil))
		w.hold, w.seldom = time.Minute, true
		l, ctx := w.worker(w.settings), t.Context()
		var last int64
		var carries []write.Job
		for range 2 {
			last = w.now.UnixMilli()
			value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":1}}`, last)
			require.NoError(t, l.Take(ctx, admit.Record{Offset: l.Position(), Time: last, Value: []byte(value)}))
			w.now = w.now.Add(2 * time.Minute)
			attempt(t, l)
		}
		w.now = w.now.Add(time.Minute)
		for _, j := range l.Due() {
			if _, ok := j.(*write.Append); ok && inFlight {
				carries = append(carries, j)
			} else {
				require.NoError(t, l.Do(ctx, j))
			}
		}
		require.Equal(t, inFlight, len(carries) == 1)
		orders := erasure.NewOrders(w.Docs, func() time.Time { return w.now })
		o, err := orders.Announce(ctx, erasure.Order{Tenant: "acme", Device: "d", To: erasure.EveryDay, By: "test",
			Account: "west"})
		require.NoError(t, err)
		require.NoError(t, orders.Acknowledge(ctx, o.ID, []erasure.Position{{Stream: 9, Through: 5}}))
		w.now = w.now.Add(time.Minute)
		_, err = w.dir.Refresh(ctx)
		require.NoError(t, err)
		attempt(t, l)
		for _, j := range carries {
			require.NoError(t, l.Do(ctx, j))
		}
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
		require.Equal(t, l.Position(), l.Floor())
		w.commit, w.meta = l.Floor(), l.JournalCommit()
		l = w.worker(w.settings)
		require.NoError(t, l.Step(ctx))
		heads := l.Bins().ListDevices(store.ListRequest{Tenant: "acme"})
		require.Len(t, heads, 1)
		require.Equal(t, last, heads[0].Last)
	}
}

// A device that was erased, and reports again, keeps the times of what was stored since: the journal carries them to
// the next owner, which applies the order again. The times of erased rows are gone, and so are the times that an append
// carries while the order is read.
func TestTimesOfAnErasedDevice(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		w := withJournal(newWorld(t, nil))
		w.hold, w.seldom = time.Minute, true
		l, ctx := w.worker(w.settings), t.Context()
		refresh := func() {
			_, err := w.dir.Refresh(ctx)
			require.NoError(t, err)
		}
		take := func() {
			value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":1}}`, w.now.UnixMilli())
			require.NoError(t, l.Take(ctx, admit.Record{Offset: l.Position(), Time: w.now.UnixMilli(), Value: []byte(value)}))
			w.now = w.now.Add(2 * time.Minute)
			refresh()
		}
		last := func() int64 { // the later time of the catalog and the head
			e, _ := w.Catalog.Entry("acme", "d")
			last := e.Last
			for _, d := range l.Bins().ListDevices(store.ListRequest{Tenant: "acme"}) {
				last = max(last, d.Last)
			}
			return last
		}
		take()
		attempt(t, l)
		take()
		attempt(t, l)
		w.now = w.now.Add(time.Minute)
		var carries []write.Job
		for _, j := range l.Due() {
			if _, ok := j.(*write.Append); ok && inFlight {
				carries = append(carries, j)
			} else {
				require.NoError(t, l.Do(ctx, j))
			}
		}
		before := l.JournalCommit()
		orders := erasure.NewOrders(w.Docs, func() time.Time { return w.now })
		o, err := orders.Announce(ctx, erasure.Order{Tenant: "acme", Device: "d", To: erasure.EveryDay, By: "test"})
		require.NoError(t, err)
		pages, err := w.Catalog.Pages(ctx, "acme", 0)
		require.NoError(t, err)
		for _, p := range pages {
			require.NoError(t, w.Catalog.Delete(ctx, "acme", p.ID))
		}
		require.NoError(t, orders.Acknowledge(ctx, o.ID, []erasure.Position{{Stream: 1, Through: l.Position() - 1}}))
		w.now = w.now.Add(time.Minute)
		refresh()
		attempt(t, l)
		require.Equal(t, inFlight, len(carries) == 1)
		for _, j := range carries {
			require.NoError(t, l.Do(ctx, j))
		}
		require.NoError(t, l.LoadTimes(ctx, before, w.blocks)) // as if the partition had been away
		attempt(t, l)
		require.Zero(t, last())
		require.False(t, l.JournalCommit().Counts(), "no record of the journal is kept")
		for range 2 {
			w.commit, w.meta = l.Floor(), l.JournalCommit()
			l = w.worker(w.settings)
			require.NoError(t, l.Step(ctx))
			require.Zero(t, last())
		}

		var latest int64
		for range 3 {
			latest = w.now.UnixMilli()
			take()
			attempt(t, l)
		}
		w.now = w.now.Add(time.Minute)
		attempt(t, l)
		require.Equal(t, l.Position(), l.Floor())
		require.Equal(t, latest, last())
		for range 2 {
			w.commit, w.meta = l.Floor(), l.JournalCommit()
			l = w.worker(w.settings)
			require.NoError(t, l.Step(ctx))
			require.Equal(t, latest, last())
		}
	}
}

// oweTimes stores a reading of each device. The journal then loses the only records with the times of these readings.
// oweTimes returns the append that is under way.
func (w *world) oweTimes(devices int) (l *ingest.Local, onItsWay write.Job) {
	w.hold, w.seldom = 20*time.Second, true
	l = w.worker(w.settings)
	take := func() {
		for i := range devices {
			value := fmt.Sprintf(`{"tenant":"acme","device":"d%d","ts":%d,"values":{"a":1}}`, i, w.now.UnixMilli())
			w.log = append(w.log, admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)})
		}
		w.readAndSettle(l, int64(len(w.log)-devices))
		for l.Position() < int64(len(w.log)) {
			require.NoError(w.t, l.Take(w.t.Context(), w.log[l.Position()]))
		}
	}
	take()
	take()
	for range 3 { // rows go to the journal, and are stored thereafter
		w.now = w.now.Add(5 * time.Second)
		require.NoError(w.t, l.Step(w.t.Context()))
	}
	for round := range 3 {
		w.now = w.now.Add(20 * time.Second)
		for _, job := range l.Due() {
			if _, ok := job.(*write.Append); ok && round > 0 {
				onItsWay = job
			} else {
				require.NoError(w.t, l.Do(w.t.Context(), job))
			}
		}
	}
	w.commitFloor(l)
	require.EqualValues(w.t, len(w.log), w.meta.F)
	require.Less(w.t, w.commit, w.meta.F)
	require.NotNil(w.t, onItsWay)
	w.blocks.begin, w.blocks.values = 0, nil
	return l, onItsWay
}

// The journal loses its end, and more devices owe times of rows there than an append has room for. Between two appends
// the next owner reads these rows again.
func TestTimesThatManyDevicesOweAfterALostEnd(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	l, first := w.oweTimes(60)
	w.blocks.limit = 2000
	require.NoError(t, l.Do(t.Context(), first))
	for landed := 0; landed < 2; { // the first one shows what is lost
		w.now = w.now.Add(time.Second)
		for _, job := range l.Due() {
			before := w.blocks.end()
			require.NoError(t, l.Do(t.Context(), job))
			if w.blocks.end() > before {
				landed++
			}
		}
		w.commitFloor(l)
	}
	next := w.worker(w.settings)
	w.readAndSettle(next, int64(len(w.log)))
	w.checkTimes(next)
}

// The journal loses its end with the times of stored rows, and an append that got no answer hides it: the next one does
// not land lower than the one before. Where nothing is lost, all that is there still counts.
func TestTimesBehindAnAppendWithoutAnAnswer(t *testing.T) {
	for _, lost := range []int{0, 1} {
		for _, devices := range [][]string{{"a"}, {"a", "b", "c"}} {
			w := withJournal(newWorld(t, nil))
			w.hold, w.seldom = time.Minute, true
			l := w.worker(w.settings)
			send := func(devices ...string) {
				for _, device := range devices {
					value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`, device, w.now.UnixMilli())
					w.log = append(w.log, admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)})
				}
			}
			for range 2 {
				send("stored")
				w.readAndSettle(l, int64(len(w.log)))
			}
			require.EqualValues(t, len(w.log), w.commit)
			w.checkTimes(w.worker(w.settings))
			w.blocks.values = w.blocks.values[:len(w.blocks.values)-lost]
			appends := 0
			w.blocks.fault = func() (applied bool, err error) {
				if appends++; appends == 1 {
					return true, errors.New("no answer")
				}
				return true, nil
			}
			send(devices...)
			for l.Position() < int64(len(w.log)) {
				require.NoError(t, l.Take(t.Context(), w.log[l.Position()]))
			}
			for step := 0; appends < 2 || step < 8*lost; step++ { // time for another append, if one is needed
				w.now = w.now.Add(5 * time.Second)
				for _, job := range l.Due() {
					require.NoError(t, l.Try(t.Context(), job))
				}
				w.commitFloor(l)
			}
			next := w.worker(w.settings)
			w.readAndSettle(next, int64(len(w.log)))
			w.checkTimes(next)
		}
	}
}

// A broker takes no record of a device with a long name: its times go to the catalog, and hold back nothing.
func TestTimesThatNoAppendHasRoomFor(t *testing.T) {
	w := withJournal(newWorld(t, nil))
	w.hold, w.seldom = 20*time.Second, true
	w.blocks.limit = 150
	l := w.worker(w.settings)
	for range 4 {
		for _, device := range []string{"d", strings.Repeat("long", 40)} {
			value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`, device, w.now.UnixMilli())
			w.log = append(w.log, admit.Record{Offset: int64(len(w.log)), Time: w.now.UnixMilli(), Value: []byte(value)})
		}
		w.readAndSettle(l, int64(len(w.log)))
	}
	require.EqualValues(t, len(w.log), w.commit)
	w.checkTimes(w.worker(w.settings))
}

// readAndSettle reads up to an offset, and lets a worker work for 80 seconds.
func (w *world) readAndSettle(l *ingest.Local, to int64) {
	for l.Position() < to {
		require.NoError(w.t, l.Take(w.t.Context(), w.log[l.Position()]))
	}
	for range 4 {
		w.now = w.now.Add(20 * time.Second)
		require.NoError(w.t, l.Step(w.t.Context()))
		w.commitFloor(l)
	}
}
