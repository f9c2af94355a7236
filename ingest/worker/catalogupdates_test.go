package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// The catalog is written when something is new, and then as seldom as it was asked for: a device that goes on
// reporting the same metrics must not cost a write each time.
func TestCatalogIsWrittenSeldom(t *testing.T) {
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
				w.log = append(w.log, admit.Record{Offset: int64(i), Time: at, Value: []byte(value)})
			}
			writes := 0
			w.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
				if op == storetest.OpCreate {
					writes++
				}
				return nil
			}
			ctx := context.Background()
			l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.CommitEvery = v.every, time.Second })
			for _, r := range w.log {
				require.NoError(t, l.Take(ctx, r))
				w.now = w.now.Add(time.Second)
				require.NoError(t, l.Step(ctx))
			}
			require.NoError(t, l.Finish(ctx))
			require.LessOrEqual(t, writes, v.most)
			require.Greater(t, writes, 0)
			d, ok := w.Catalog.Entry("acme", "d0")
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
	w.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
		calls[op]++
		return nil
	}
	return calls
}

// The next owner of a partition compares what it sees with the catalog, which it reads once, and writes nothing that is
// not new: the times wait for their turn, which comes over the interval, and hold nothing back meanwhile.
func TestTakeoverDoesNotRewriteCatalog(t *testing.T) {
	const n, every = 300, 6 * time.Hour
	w := newWorld(t, nil)
	change := func(c *ingest.Config) {
		c.CatalogEvery, c.CatalogWait, c.CommitEvery, c.Hold = every, 10*time.Second, time.Second, 30*time.Minute
	}
	first := w.worker(change)
	everyone(t, w, first, n)
	require.NoError(t, first.Finish(ingesttest.Deadline(t)))
	w.commit = first.Floor()
	require.EqualValues(t, n, w.commit)

	w.now = w.now.Add(time.Minute)
	calls := catalogCalls(w)
	second := w.worker(change)
	everyone(t, w, second, n)
	until := func(d time.Duration) {
		for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Second) {
			attempt(t, second)
		}
	}
	until(35 * time.Minute)
	require.EqualValues(t, 2*n, second.Floor(), "a later time holds nothing back")
	require.LessOrEqual(t, calls[storetest.OpRead], 1)
	require.Less(t, calls[storetest.OpCreate], n/6)
	until(every)
	before, _ := w.Catalog.Entry("acme", "d00007")
	require.NotZero(t, calls[storetest.OpCreate])
	require.LessOrEqual(t, calls[storetest.OpCreate], n, "each is written once in the interval")
	require.Equal(t, w.now.Add(-every-35*time.Minute).UnixMilli(), before.Last)
}

// News of many devices is written together: at once when nothing was written for a while, then together with what
// comes within the wait.
func TestCatalogUpdatesAreBatched(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) {
		c.CatalogEvery, c.CatalogWait, c.CommitEvery, c.Hold = 6*time.Hour, 10*time.Second, time.Second, time.Hour
	})
	calls := catalogCalls(w)
	everyone(t, w, l, 3000)
	attempt(t, l)
	require.Equal(t, 3000, w.Catalog.Index("acme").Len())
	require.LessOrEqual(t, calls[storetest.OpCreate], 3)
	before := calls[storetest.OpCreate]
	for i := range 60 {
		at := l.Position()
		require.NoError(t, l.Take(t.Context(), of(at, "acme", fmt.Sprintf("n%d", i), w.now.UnixMilli())))
		attempt(t, l)
		w.now = w.now.Add(time.Second)
	}
	require.LessOrEqual(t, calls[storetest.OpCreate]-before, 6)
	require.GreaterOrEqual(t, w.Catalog.Index("acme").Len(), 3050, "news wait no longer than that")
	everyone(t, w, l, 2*4096+1)
	attempt(t, l)
	require.Equal(t, 2*4096+1+60, w.Catalog.Index("acme").Len(), "many wait for no others")
}

// More tenants than are written at once do not wait for others' devices too: the next are written after the first.
func TestCatalogUpdatesOfManyTenants(t *testing.T) {
	const n = 100
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.CatalogWait = 6*time.Hour, time.Hour })
	for i := range n {
		at := l.Position()
		require.NoError(t, l.Take(t.Context(), of(at, fmt.Sprintf("t%d", i), "d", w.now.UnixMilli())))
	}
	for range n {
		attempt(t, l)
	}
	for i := range n {
		require.Equal(t, []string{"d"}, w.Catalog.Index(fmt.Sprintf("t%d", i)).Devices())
	}
}

// A failed update is repeated after the pause of a failure: it does not wait for others as well, or what was
// read meanwhile could not be committed for as long.
func TestFailedCatalogUpdateRetriesWithoutWait(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) {
		c.CatalogEvery, c.CatalogWait, c.RetryBackoff = 6*time.Hour, time.Hour, 100*time.Millisecond
	})
	failures := 4
	w.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
		if failures--; failures < 0 {
			return nil
		}
		return &storetest.Fault{Err: errors.New("the store is away")}
	}
	everyone(t, w, l, 3)
	for range 30 {
		attempt(t, l)
		w.now = w.now.Add(time.Second)
	}
	require.Equal(t, 3, w.Catalog.Index("acme").Len())
}

// What the catalog may not show yet is listed by the head: until it is written, and for a while longer. The version
// shows each change.
func TestHeadListsPendingUpdates(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.CommitEvery = time.Hour, time.Second })
	empty := l.Bins().CatalogPending("acme")
	require.Empty(t, empty.Devices)
	at := w.now.UnixMilli()
	value := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1},"tags":{"site":"x"},"labels":{"axis":"y"}}`, at)
	require.NoError(t, l.Take(t.Context(), admit.Record{Time: at, Value: []byte(value)}))
	news := l.Bins().CatalogPending("acme")
	require.Len(t, news.Devices, 1)
	require.Equal(t, "x", news.Devices[0].Tags[0].Value)
	require.Equal(t, "y", news.Devices[0].Labels[0].Value)
	require.NotEqual(t, empty.Version, news.Version)
	require.Empty(t, l.Bins().CatalogPending("globex").Devices)

	w.now = w.now.Add(time.Second)
	attempt(t, l)
	require.Contains(t, w.Catalog.Index("acme").Devices(), "d0")
	told := l.Bins().CatalogPending("acme")
	require.Len(t, told.Devices, 1, "a reader that is behind may not see it yet")
	require.NotEqual(t, news.Version, told.Version)
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Take(t.Context(), of(1, "acme", "d1", w.now.UnixMilli())))
	attempt(t, l)
	after := l.Bins().CatalogPending("acme")
	require.NotEqual(t, told.Version, after.Version)
	require.Len(t, after.Devices, 1)
	require.Equal(t, "d1", after.Devices[0].Device)
	require.Equal(t, after.Version, l.Bins().CatalogPending("acme").Version)
}

// Units are in the catalog as soon as a device has sent one, also one that was known before it.
func TestCatalogHasUnits(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.Decode.Tenant = time.Hour, "acme" })
	senml := func(offset int64, unit string) admit.Record {
		value := fmt.Sprintf(`[{"bn":"d0/","bt":%d.0,"n":"speed","v":1%s}]`, w.now.Unix()+offset, unit)
		return admit.Record{Offset: offset, Time: w.now.UnixMilli(), Value: []byte(value), Headers: []admit.Header{
			{Key: "content-type", Value: []byte("application/senml+json")}}}
	}
	for offset, unit := range []string{``, `,"u":"m/s"`, `,"u":"m/s"`} {
		require.NoError(t, l.Take(t.Context(), senml(int64(offset), unit)))
		attempt(t, l)
	}
	metrics := w.Catalog.Index("acme").Select(nil, 0, 1).Metrics()
	require.Len(t, metrics, 1)
	require.Equal(t, []string{"m/s"}, metrics[0].Units)
	require.Len(t, w.Catalog.All("acme"), 2, "the device, and then the unit")
}

// The process dies between the create of a chunk and the catalog's entry. The next one finds the rows stored already,
// drops them, and lists their times all the same.
func TestCatalogTimesOfReplayedRows(t *testing.T) {
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
			if do(t, l, jobs, not(isCatalogUpdate)); len(w.Chunks.Documents()) > 0 {
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

// When the head stops listing a device, the version changes: a reader of the catalog before then may have read a
// replica that lagged, and must not go on with that.
func TestVersionChangesWhenUpdateIsVisible(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) {
		c.CatalogEvery, c.CommitEvery, c.Hold = 1000*time.Hour, time.Second, time.Minute
	})
	versions := map[uint64]string{l.Bins().CatalogPending("acme").Version: "before"}
	changed := func(when string) {
		v := l.Bins().CatalogPending("acme").Version
		require.Empty(t, versions[v], when)
		versions[v] = when
	}
	take := func(device string) {
		at := l.Position()
		value := fmt.Sprintf(`{"tenant":"acme","device":%q,"ts":%d,"values":{"a":1}}`, device, w.now.UnixMilli())
		require.NoError(t, l.Take(t.Context(), admit.Record{Offset: at, Time: w.now.UnixMilli(), Value: []byte(value)}))
	}
	take("d0")
	changed("news of d0")
	attempt(t, l)
	changed("d0 written")
	w.now = w.now.Add(10 * time.Second)
	attempt(t, l)
	require.Empty(t, l.Bins().CatalogPending("acme").Devices)
	changed("d0 shown")

	take("d0")
	last := w.now.UnixMilli()
	isWritten := func() bool { e, _ := w.Catalog.Entry("acme", "d0"); return e.Last == last }
	for i := 0; i < 50 && !isWritten(); i++ { // until the chain is forgotten
		w.now = w.now.Add(time.Hour)
		attempt(t, l)
	}
	require.Len(t, l.Bins().CatalogPending("acme").Devices, 1, "a reader that is behind may not see the times yet")
	changed("the last time of d0 is written")
	w.now = w.now.Add(time.Hour)
	attempt(t, l)
	require.Empty(t, l.Bins().CatalogPending("acme").Devices)
	changed("the tenant is gone")
	take("d1")
	changed("news of d1, of the tenant that was gone")
	attempt(t, l)
	changed("d1 written")
	w.now = w.now.Add(10 * time.Second)
	attempt(t, l)
	changed("d1 shown")
}

// A device with more metrics or labels than find room in its entry says so there: a search for devices by what they
// have must not take its entry for all of it.
func TestEntryOverflow(t *testing.T) {
	for name, message := range map[string]string{
		"metrics": `"values":{"%[1]s":1}`, "labels": `"values":{"a":1},"labels":{"%[1]s":"x"}`,
	} {
		w := newWorld(t, nil)
		l := w.worker(func(c *ingest.Config) { c.CatalogEvery, c.CommitEvery = time.Hour, time.Second })
		lacks := func() bool {
			attempt(t, l)
			e, ok := w.Catalog.Entry("acme", "d0")
			require.True(t, ok)
			return len(e.Labels) > 0 && e.Labels[0] == catalog.Partial
		}
		take := func(n int) {
			body := fmt.Sprintf(message, fmt.Sprintf("%0190d", n))
			require.NoError(t, l.Take(t.Context(), admit.Record{Offset: l.Position(), Time: w.now.UnixMilli(),
				Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,%s}`, w.now.UnixMilli(), body)}))
		}
		for n := range 1000 {
			take(n)
		}
		require.False(t, lacks(), name)
		for n := range 1000 {
			take(1000 + n)
		}
		require.True(t, lacks(), name)
		require.True(t, lacks(), name)
		found := w.Catalog.Index("acme").Select([]catalog.Matcher{{Of: catalog.OfMetric,
			Match: func(s string) bool { return s == "none of those that are listed" }}}, 0, 1)
		require.Equal(t, 1, found.Len(), name)
		require.Empty(t, w.Catalog.Index("acme").LabelValues().Len(""))
		for _, c := range w.Catalog.Index("acme").Select(nil, 0, 1).Labels() {
			require.NotEmpty(t, c.Name)
		}
	}
}

// A reading before all others of its device is written soon, and one that is far ahead of the written time, as when a
// past is sent: a list of the devices of a range must have them in all of it.
func TestCatalogTimesFarOff(t *testing.T) {
	const day = 24 * time.Hour
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) {
		c.CatalogEvery, c.CatalogWait, c.CommitEvery, c.Hold, c.Past = 7*day, 10*time.Second, time.Second, day, 100*day
	})
	take := func(at time.Time) {
		value := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, at.UnixMilli())
		r := admit.Record{Offset: l.Position(), Time: w.now.UnixMilli(), Value: []byte(value)}
		require.NoError(t, l.Take(t.Context(), r))
		for range 60 {
			w.now = w.now.Add(time.Second)
			attempt(t, l)
		}
	}
	told := func(first, last time.Time) {
		t.Helper()
		e, ok := w.Catalog.Entry("acme", "d0")
		require.True(t, ok)
		require.Equal(t, []int64{first.UnixMilli(), last.UnixMilli()}, []int64{e.First, e.Last})
	}
	now := w.now
	take(now.Add(-60 * day))
	told(now.Add(-60*day), now.Add(-60*day))
	take(now.Add(-70 * day))
	told(now.Add(-70*day), now.Add(-60*day))
	take(now.Add(-54 * day))
	told(now.Add(-70*day), now.Add(-60*day)) // that is near enough
	take(now.Add(-50 * day))
	told(now.Add(-70*day), now.Add(-50*day))
	take(now)
	told(now.Add(-70*day), now)
}

// An answer of the catalog is lost, and the tag that was written changes back: the value between must not stay, which
// this process has not seen in the catalog.
func TestTagAfterALostAnswer(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	l := w.worker(nil)
	offset := int64(0)
	take := func(name string) {
		require.NoError(t, l.Take(ctx, site(offset, name)))
		offset++
		w.now = w.now.Add(15 * time.Second)
		attempt(t, l)
	}
	take("rome")
	isLost := false
	w.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
		if op != storetest.OpCreate {
			return nil
		}
		isLost = true
		return &storetest.Fault{Applied: true, Err: store.ErrBusy}
	}
	take("")
	require.True(t, isLost)
	w.Catalog.Fault = nil
	take("rome")
	w.hasSite("rome")
}

// hasSite holds which site the catalog has of the device d.
func (w *world) hasSite(site string) {
	w.t.Helper()
	e, _ := w.Catalog.Entry("acme", "d")
	require.Equal(w.t, site, e.Tags[0].Value)
}

// site is a record of the device d at a site.
func site(offset int64, site string) admit.Record {
	value := fmt.Sprintf(`{"tenant":"acme","device":"d","ts":%d,"values":{"a":1},"tags":{"site":%q}}`, start+offset, site)
	return admit.Record{Offset: offset, Time: start, Value: []byte(value)}
}

// Two workers read a partition, and one of them lags: its older tag does not count, although it is written last (rule
// W13).
func TestTagOfWorkerThatLags(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	lags, owner := w.worker(nil), w.worker(nil)
	for i, s := range []string{"rome", "oslo"} {
		require.NoError(t, lags.Take(ctx, site(int64(i), s)))
		require.NoError(t, owner.Take(ctx, site(int64(i), s)))
	}
	require.NoError(t, owner.Take(ctx, site(2, "rome")))
	for _, l := range []*ingest.Local{owner, lags} {
		w.now = w.now.Add(15 * time.Second)
		attempt(t, l)
	}
	w.hasSite("rome")
}

// A process writes a page with another tag, and dies before the page is seen. The next process has read that tag in the
// log, and writes the value after it, although the catalog seems to have it (rule W13).
func TestTagBetweenTwoOthers(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	first := w.worker(nil)
	require.NoError(t, first.Take(ctx, site(0, "rome")))
	w.now = w.now.Add(15 * time.Second)
	attempt(t, first)
	next := w.worker(nil)
	for i, s := range []string{"rome", "oslo", "rome"} {
		require.NoError(t, next.Take(ctx, site(int64(i), s)))
	}
	w.now = w.now.Add(15 * time.Second)
	attempt(t, next)
	require.NoError(t, first.Take(ctx, site(1, "oslo")))
	w.now = w.now.Add(15 * time.Second)
	attempt(t, first)
	w.hasSite("rome")
}

// A partition was away, and comes back: its new owner has written another tag, and the one that was seen before is new
// again (rule W13).
func TestTagOfPartitionThatReturns(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	l, other := w.worker(nil), w.worker(nil)
	turn := func(l *ingest.Local, offset int64, s string) {
		require.NoError(t, l.Take(ctx, site(offset, s)))
		w.now = w.now.Add(15 * time.Second)
		attempt(t, l)
	}
	turn(l, 0, "rome")
	turn(other, 0, "rome")
	turn(other, 1, "oslo")
	l.Resume(worker.Assignment{Position: 2})
	turn(l, 2, "rome")
	w.hasSite("rome")
}

// A page that was acknowledged before a takeover may be seen a moment after it: no tag is compared before (rule W13).
func TestTagAfterATakeover(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	first := w.worker(nil)
	require.NoError(t, first.Take(ctx, site(0, "rome")))
	w.now = w.now.Add(15 * time.Second)
	attempt(t, first)
	w.commit = 2
	next := w.worker(nil)
	require.NoError(t, next.Take(ctx, site(2, "rome")))
	attempt(t, next)
	require.NoError(t, first.Take(ctx, site(1, "oslo")))
	attempt(t, first)
	w.now = w.now.Add(15 * time.Second)
	attempt(t, next)
	w.hasSite("rome")
}
