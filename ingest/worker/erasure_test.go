package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// erasing is what a walk does about orders of erasure: they are announced and acknowledged at any moment, owners know
// them late or never, and a sweeper dies in the middle. A reader knows every order that is acknowledged.
type erasing struct {
	k        *walk
	orders   *erasure.Orders
	own      *control.Directory // of the reader and of the sweeper
	pending  *erasure.Order
	through  int64           // the end of the log, as it was read after pending was announced; -1 before
	reached  int64           // below it, some owner has fetched all records
	replayed map[int64]int64 // first offset of records that are replayed dead letters
	sweeper  *erase.Sweeper
}

// newErasing makes a walk with orders. Some records of its log are dead letters that were published again.
func newErasing(t *testing.T, seed uint64, journaled bool) *walk {
	k := newWalk(t, seed, 160, journaled)
	now := func() time.Time { return k.now }
	e := &erasing{k: k, through: -1, replayed: map[int64]int64{}, orders: erasure.NewOrders(k.Docs, now),
		own: control.NewDirectory(control.DirectoryConfig{Documents: k.Docs, Now: now})}
	_, err := e.own.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, e.own.AskMonth(t.Context(), "chunks-2026-11"))
	for i := range k.log {
		if i > 0 && k.rnd.IntN(5) == 0 {
			first := k.rnd.Int64N(int64(i))
			e.replayed[int64(i)] = first
			k.log[i].Headers = []admit.Header{{Key: deadletter.HeaderReplayOf,
				Value: fmt.Appendf(nil, "0/%d/0@%d 00", first, int64(start))}}
		}
	}
	k.erasing, k.erased = e, e.covers
	k.owners = nil
	k.begin()
	e.begin()
	return k
}

// begin starts a sweeper that knows nothing of what an earlier one has done.
func (e *erasing) begin() {
	e.sweeper = erase.NewSweeper(erase.Config{Chunks: e.k.Chunks, Rollups: storetest.NewRollups(e.k.t),
		Orders: e.orders, Snapshot: e.own.Refresh, By: "test", RUs: 1e12, Pause: time.Nanosecond,
		Now: func() time.Time { return e.k.now }})
}

// list returns the orders that are acknowledged.
func (e *erasing) list() (out erasure.List) {
	for _, o := range e.own.Snapshot().Erasures("acme") {
		if o.IsAcknowledged() {
			out = append(out, o)
		}
	}
	return out
}

// covers reports whether an order covers a reading of the record at an offset (rules E-R2 and E-R6).
func (e *erasing) covers(device string, at, offset int64) bool {
	if first, ok := e.replayed[offset]; ok {
		offset = first
	}
	return offset <= e.list().Through(device, telemetry.DayOf(at), erasure.Partition{Stream: 1})
}

// hides reports whether a reader leaves a chunk out (rule E-R9). Behind other chunks of its chain it is swept by the
// end of the sweep, and no other one comes (rule E-R8).
func (e *erasing) hides(h *chunk.Header) bool {
	for _, o := range e.list().Of(h.Device, h.ID.Day) {
		if h.Through <= o.Through(1, 0) && !o.SweptAt.IsZero() && h.Rows > 0 {
			require.Zero(e.k.t, h.ID.Number, "stored behind a fence of %s: %s %s", o.ID, h.Device, h.ID)
		}
	}
	return h.Through <= e.list().Through(h.Device, h.ID.Day, erasure.Partition{Stream: 1})
}

// ask returns the orders as a reader gives them to heads.
func (e *erasing) ask() (out []store.HeadErasure) {
	for _, o := range e.list() {
		out = append(out, store.HeadErasure{Device: o.Device, From: o.From, To: o.To,
			Positions: []store.HeadPosition{{Stream: 1, Offset: o.Through(1, 0)}}})
	}
	return out
}

// step does one random step.
func (e *erasing) step() string {
	for _, o := range e.k.owners {
		e.reached = max(e.reached, o.Position())
	}
	switch n := e.k.rnd.IntN(10); {
	case n < 3 && e.pending == nil && len(e.list()) < 6:
		e.announce()
		return "announced"
	case n < 3 && e.pending != nil && e.through < 0:
		e.readEnd()
		return "end read"
	case n < 1 && e.pending != nil && e.through >= 0:
		e.acknowledge()
		return "acknowledged"
	case n < 7:
		o := e.k.owners[e.k.rnd.IntN(len(e.k.owners))]
		e.refresh(o, o.Position())
		return "orders read"
	case n < 8:
		e.k.fault = &storetest.Fault{Applied: e.k.rnd.IntN(2) == 0, Err: errGivenUp}
		if e.k.rnd.IntN(2) == 0 {
			e.k.fault = nil
		}
		err := e.sweeper.Round(context.Background())
		e.k.fault = nil
		if err != nil {
			e.begin()
			return "sweeper died"
		}
		return "swept"
	}
	return "no order"
}

func (e *erasing) announce() {
	o := erasure.Order{Tenant: "acme", By: "test", To: erasure.EveryDay}
	if e.k.rnd.IntN(3) > 0 {
		o.Device = fmt.Sprintf("d%d", e.k.rnd.IntN(2))
	}
	if e.k.rnd.IntN(2) == 0 {
		o.From = telemetry.DayOf(start)
		o.To = o.From + 1
	}
	var err error
	e.pending, err = e.orders.Announce(e.k.t.Context(), o)
	require.NoError(e.k.t, err)
}

// readEnd takes the end of the log: whatever was fetched lies below.
func (e *erasing) readEnd() { e.through = min(int64(len(e.k.log)), e.reached+e.k.rnd.Int64N(3)) - 1 }

// acknowledge stores the end of the log as the order's position.
func (e *erasing) acknowledge() {
	if e.through < 0 {
		e.readEnd()
	}
	err := e.orders.Acknowledge(e.k.t.Context(), e.pending.ID,
		[]erasure.Position{{Stream: 1, Through: e.through}})
	if errors.Is(err, erasure.ErrVoid) { // it took too long
		e.k.steps["void"]++
	} else {
		require.NoError(e.k.t, err)
	}
	e.reached, e.pending, e.through = max(e.reached, e.through+1), nil, -1
	_, err = e.own.Refresh(e.k.t.Context())
	require.NoError(e.k.t, err)
}

// refresh has an owner read the orders, when it has fetched all records below an offset (rule E-R3).
func (e *erasing) refresh(o *owner, fetched int64) {
	e.k.now = e.k.now.Add(time.Millisecond)
	_, err := o.dir.Refresh(e.k.t.Context())
	require.NoError(e.k.t, err)
	o.SetHorizon(fetched)
}

// take feeds a record to an owner, and has it read the orders as often as the record needs it (rules E-R5 and E-R6).
func (e *erasing) take(o *owner, rec admit.Record) {
	e.reached = max(e.reached, rec.Offset+1)
	for n := 0; ; n++ {
		err := o.Feed(rec, o.dir.Snapshot(), e.k.now)
		var waits *admit.PendingErasure
		if !errors.As(err, &waits) {
			require.NoError(e.k.t, err)
			return
		}
		e.k.steps["waited for orders"]++
		if e.pending != nil && n > 0 {
			e.acknowledge()
		}
		e.refresh(o, rec.Offset+1)
	}
}

// end acknowledges what is announced, lets requests of those who do not know it land, and has the last owner read it.
func (e *erasing) end() {
	if e.pending != nil {
		e.acknowledge()
	}
	e.refresh(e.k.last, e.k.last.Position())
}

// sweepAll gives each order again, which erases nothing else, and sweeps until each is swept for good. A request may
// have landed after the sweep of the first one had ended.
func (e *erasing) sweepAll() {
	ctx := e.k.t.Context()
	for _, o := range e.list() {
		again, err := e.orders.Announce(ctx, *o)
		require.NoError(e.k.t, err)
		require.NoError(e.k.t, e.orders.Acknowledge(ctx, again.ID, o.Positions()))
	}
	e.k.now = e.k.now.Add(time.Hour)
	for range 2 {
		require.NoError(e.k.t, e.sweeper.Round(ctx))
	}
	_, err := e.own.Refresh(ctx)
	require.NoError(e.k.t, err)
	for _, o := range e.list() {
		require.False(e.k.t, o.SweptAt.IsZero())
	}
}

// Orders of erasure come while owners that may not know them feed, cut, journal, replay and hand on: nothing that an
// order covers is answered once it is acknowledged, nor stored in the end, and nothing else is lost (rules E-R1 to
// E-R9).
func TestErasuresInRandomWalks(t *testing.T) {
	const first = 31_000
	t.Log("seeds from", first)
	steps := map[string]int{}
	for seed := range uint64(ingesttest.Rounds(20, 8)) {
		k := newErasing(t, first+seed, seed%2 == 0)
		k.handsOn = seed%4 == 0
		for range 300 {
			k.step()
			k.check()
			if t.Failed() {
				t.Fatalf("seed %d", first+seed)
			}
		}
		k.settle()
		for name, n := range k.steps {
			steps[name] += n
		}
	}
	t.Log(steps)
	for _, name := range []string{"announced", "end read", "acknowledged", "orders read", "void", "swept",
		"sweeper died", "waited for orders",
		"orphan stored", "orphan refused", "appended", "assign", "seek"} {
		require.Positive(t, steps[name], name)
	}
}

// A stream that began after an order has no position in it: what was published before the order is covered by its
// timestamp. A worker of such a stream feeds nothing before it has read the orders.
func TestOrdersAndNewStreams(t *testing.T) {
	w := newWorld(t, nil)
	directory := control.NewDirectory(control.DirectoryConfig{Documents: w.Docs, Now: func() time.Time { return w.now }})
	_, err := directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NoError(t, directory.AskMonth(t.Context(), "chunks-2026-11"))
	orders := erasure.NewOrders(w.Docs, func() time.Time { return w.now })
	o, err := orders.Announce(t.Context(), erasure.Order{Tenant: "acme", Device: "d0", To: erasure.EveryDay, By: "test"})
	require.NoError(t, err)

	log := ingest.NewLocal(w.config(), ingest.Stores{Chunks: w.Chunks, Catalog: w.Catalog, Directory: directory,
		Streams: stream.NewStreams(w.Docs), DeadLetters: w}, worker.Assignment{Stream: 2, Unmarked: true})
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
	require.False(t, waits.Announced)
	log.SetHorizon(1)
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
