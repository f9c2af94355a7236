package worker_test

import (
	"errors"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/ingest/write"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"

	"github.com/stretchr/testify/require"
)

// A stream that began after an order has no position in it: what was published before the order is covered by its
// timestamp. A worker of such a stream feeds nothing before it has read the orders.
func TestOrdersAndNewStreams(t *testing.T) {
	w := newWorld(t, nil)
	directory := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, directory.AskMonth(t.Context(), "chunks-2026-11", ""))
	orders := erasure.NewOrders(w.Docs, func() time.Time { return w.now })
	o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: "d0", To: erasure.EveryDay, By: "test"})
	require.NoError(t, err)

	log := ingest.NewLocal(w.config(), ingest.Stores{Chunks: w.Chunks, Catalog: w.Catalog, Directory: directory,
		Streams: stream.NewStreams(w.Docs), DeadLetters: w}, worker.Assignment{Stream: 2})
	read := func() *control.Snapshot {
		v, err := directory.Refresh(t.Context())
		require.NoError(t, err)
		return v
	}
	feed := func(offset int64, published time.Time) error {
		r := one(offset, "d0")
		r.Time = published.UnixMilli()
		return log.Feed(r, read(), w.now)
	}
	var waits *admit.PendingErasure
	log.SetHorizon(0)
	require.ErrorAs(t, feed(0, o.At.Add(-time.Second)), &waits)
	require.True(t, waits.Announced)
	require.NoError(t, orders.Acknowledge(t.Context(), o.ID,
		[]erasure.Position{{Stream: 1, Partition: 0, Through: 100}}))
	require.NoError(t, feed(0, o.At.Add(-time.Second)))
	require.NoError(t, feed(1, o.At.Add(time.Second)))
	rows := 0
	for r := range log.HeadRead(store.HeadRequest{Tenant: "acme", Range: binning.All}).Rows {
		require.EqualValues(t, 1, r.First)
		rows += r.Frame.Rows()
	}
	require.Equal(t, 1, rows)
}

// A row that comes while a cut waits for a newer snapshot, and stays in the bin, waits no longer than the hold: the
// time of the wait counts (rule E-R3).
func TestHoldIncludesTheWaitForASnapshot(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(nil)
	step := func(later time.Duration, horizon int64) {
		w.now = w.now.Add(later)
		_, err := w.dir.Refresh(t.Context())
		require.NoError(t, err)
		l.SetHorizon(horizon)
		require.NoError(t, l.Step(t.Context()))
	}
	const hold = 10 * time.Second
	step(0, 0)
	require.NoError(t, l.Take(t.Context(), one(0, "d0")))
	step(hold, 0)
	require.True(t, l.AwaitsSnapshot())
	require.NoError(t, l.Take(t.Context(), one(1, "d0")))
	step(hold-time.Second, 1)
	require.Len(t, w.Stored(), 1)
	step(time.Second, 2)
	require.Len(t, w.Stored(), 2)
}

// A process that does not know an order yet writes nothing to the catalog of a device that the order made it forget:
// the entry would count again.
func TestForgottenDeviceStaysForgotten(t *testing.T) {
	for _, erased := range []string{"d", ""} { // "" erases the whole tenant, while its catalog is empty
		w, ctx := newWorld(t, nil), t.Context()
		l := w.worker(nil)
		require.NoError(t, l.Take(ctx, one(0, "d")))
		until := w.erase(erased)
		isListed := func() bool {
			w.now = w.now.Add(10 * time.Second)
			attempt(t, l)
			_, ok := w.Catalog.Entry("acme", "d")
			return ok
		}
		for range 12 {
			require.False(t, isListed(), erased)
		}
		_, err := w.dir.Refresh(ctx)
		require.NoError(t, err)
		require.False(t, isListed())
		require.NoError(t, l.Take(ctx, one(1, "d")))
		for !isListed() {
			require.Less(t, w.now.UnixMilli(), until+10*time.Minute.Milliseconds())
		}
	}
}

// The catalog forgets what a process writes within a minute of an order that it does not know. Where its orders are
// old, or an order has no positions yet, it writes nothing of the device.
func TestEntryOfADeviceThatIsBeingErased(t *testing.T) {
	// isKnown: the process knows that the order is announced.
	for _, isKnown := range []bool{false, true} {
		w, ctx := newWorld(t, nil), t.Context()
		l := w.worker(nil)
		require.NoError(t, l.Take(ctx, one(0, "d")))
		var held []write.Job
		for _, j := range l.Due() {
			if _, ok := j.(*write.CatalogUpdate); ok {
				held = append(held, j)
			} else {
				require.NoError(t, l.Try(ctx, j))
			}
		}
		require.Len(t, held, 1)
		_, err := w.dir.Refresh(ctx)
		require.NoError(t, err)
		orders := erasure.NewOrders(w.Docs, func() time.Time { return w.now })
		o, err := orders.Announce(ctx, erasure.Order{Tenant: "acme", Device: "d", To: erasure.EveryDay, By: "test"})
		require.NoError(t, err)
		if w.now = w.now.Add(3 * time.Second); isKnown {
			w.now = w.now.Add(50 * time.Second)
			_, err := w.dir.Refresh(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, l.Take(ctx, one(1, "e")))
		attempt(t, l) // the process reads the catalog
		w.forget(o)
		require.NoError(t, orders.Acknowledge(ctx, o.ID, []erasure.Position{{Stream: 1, Through: 0}}))
		w.now = o.ForgottenUntil().Add(2 * time.Second)
		for range 3 {
			for _, j := range append(held, l.Due()...) {
				require.NoError(t, l.Try(ctx, j))
			}
			_, ok := w.Catalog.Entry("acme", "d")
			require.False(t, ok, "the order is known: %t", isKnown)
			w.now, held = w.now.Add(time.Second), nil
		}
	}
}

// forget has the catalog forget the devices of an order.
func (w *world) forget(o *erasure.Order) {
	until := o.ForgottenUntil().UnixMilli()
	id, doc, err := catalog.Encode(catalog.Page{Updated: until,
		Forget: []catalog.Forgotten{{Device: catalog.Digest(o.Device), Until: until}}})
	require.NoError(w.t, err)
	require.NoError(w.t, w.Catalog.Create(w.t.Context(), o.Tenant, id, doc))
}

// erase gives an order about the first record of a device, and returns until when the catalog forgets the device, ms.
func (w *world) erase(device string) (until int64) { return w.eraseThrough(device, 0) }

// eraseThrough gives an order about the records of a device up to an offset.
func (w *world) eraseThrough(device string, through int64) (until int64) {
	ctx, orders := w.t.Context(), erasure.NewOrders(w.Docs, func() time.Time { return w.now })
	o, err := orders.Announce(ctx, erasure.Order{Tenant: "acme", Device: device, To: erasure.EveryDay, By: "test"})
	require.NoError(w.t, err)
	w.forget(o)
	require.NoError(w.t, orders.Acknowledge(ctx, o.ID, []erasure.Position{{Stream: 1, Through: through}}))
	return o.ForgottenUntil().UnixMilli()
}

// A device is erased, and sends its tags once more before the process knows the order. The catalog forgets what it had
// of the device, and has these tags again.
func TestTagsSinceAnOrder(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	l := w.worker(nil)
	require.NoError(t, l.Take(ctx, site(0, "rome")))
	until := w.erase("d")
	require.NoError(t, l.Take(ctx, site(1, "oslo")))
	require.NoError(t, l.Take(ctx, one(2, "d")))
	_, err := w.dir.Refresh(ctx)
	require.NoError(t, err)
	for w.now.UnixMilli() < until+time.Minute.Milliseconds() {
		w.now = w.now.Add(10 * time.Second)
		attempt(t, l)
	}
	w.hasSite("oslo")
}

// A chunk that an order erases, and no sweep has reached, has no times for the catalog: a lookup may find it.
func TestErasedTailShowsNoTimes(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	l := w.worker(nil)
	require.NoError(t, l.Take(ctx, one(0, "d")))
	w.now = w.now.Add(time.Minute)
	attempt(t, l)
	require.Len(t, w.Stored(), 1)
	w.erase("d")
	l = w.worker(nil)
	require.NoError(t, l.Take(ctx, one(1, "d")))
	for range 12 {
		w.now = w.now.Add(10 * time.Second)
		attempt(t, l)
	}
	require.Len(t, w.Stored(), 2)
	e, ok := w.Catalog.Entry("acme", "d")
	require.True(t, ok)
	require.EqualValues(t, start+1, e.First)
}

// A lookup fails after an order has erased all rows of its chain: nothing is left to be cut, and later rows are.
func TestErasedDuringALookupThatFails(t *testing.T) {
	w, ctx := newWorld(t, nil), t.Context()
	l := w.worker(nil)
	require.NoError(t, l.Take(ctx, one(0, "d")))
	w.now = w.now.Add(20 * time.Second)
	var lookup *write.Lookup
	for _, j := range l.Due() {
		if found, ok := j.(*write.Lookup); ok {
			lookup = found
			continue
		}
		require.NoError(t, l.Try(ctx, j))
	}
	require.NotNil(t, lookup)
	w.erase("d")
	_, err := w.dir.Refresh(ctx)
	require.NoError(t, err)
	l.Due()
	lookup.Failed(write.ResultOf(errors.New("no answer")))
	l.Done(lookup, w.now)
	w.now = w.now.Add(time.Hour)
	attempt(t, l)
	require.Empty(t, w.Stored())
	require.NoError(t, l.Take(ctx, one(1, "d")))
	w.now = w.now.Add(time.Hour)
	attempt(t, l)
	require.Len(t, w.Stored(), 1)
}
