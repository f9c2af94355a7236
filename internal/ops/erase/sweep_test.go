package erase_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

const (
	container = "chunks-2026-11"
	devices   = 3
	days      = 3
)

var firstDay = must(telemetry.ParseDay("20261110"))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// world is a store with chains of acme and globex, and the control documents.
type world struct {
	t         *testing.T
	memory    *storetest.Memory
	rollups   *storetest.Rollups
	now       func() time.Time
	ttl       int // of chunks; 0: as their header says
	docs      *storetest.Documents
	directory *control.Directory
	orders    *erasure.Orders
	places    map[string]*sharding.Placement
}

func newWorld(t *testing.T) *world { return newWorldAt(t, time.Now, 0) }

// newWorldAt makes a world with a clock of its own, and chunks that live for ttl seconds.
func newWorldAt(t *testing.T, now func() time.Time, ttl int) *world {
	w := &world{ttl: ttl, t: t, memory: storetest.NewMemory(t, container), now: now,
		rollups: storetest.NewRollups(t, "rollups-2026-11"), docs: storetest.NewDocuments(t),
		places: make(map[string]*sharding.Placement)}
	w.memory.Now = func() time.Time { return w.now() }
	w.rollups.Now = w.memory.Now
	w.directory = control.NewDirectory(control.DirectoryConfig{Documents: w.docs})
	w.orders = erasure.NewOrders(w.docs, w.memory.Now)
	require.NoError(t, w.directory.AskMonth(t.Context(), container, ""))
	for _, tenant := range []string{"acme", "globex"} {
		v, err := w.directory.Register(t.Context(), tenant)
		require.NoError(t, err)
		known, _ := v.Tenant(tenant)
		w.places[tenant] = known.Placement
		for d := range devices {
			for day := range telemetry.Day(days) {
				for n := range uint32(3) { // through 9, 19 and 29
					w.create(tenant, device(d), header(firstDay+day, n, int64(n)*10-1))
				}
			}
		}
	}
	return w
}

func device(d int) string { return fmt.Sprintf("m%d", d) }

// header is that of a chunk with the ten records behind another one.
func header(day telemetry.Day, number uint32, after int64) chunk.Header {
	return chunk.Header{ID: chunk.ID{Day: day, Stream: 1, Partition: 0, Number: number}, First: after + 1,
		Through: after + 10, After: after, TTL: 1000, Readings: 1}
}

func (w *world) create(tenant, device string, h chunk.Header) {
	require.NoError(w.t, w.send(tenant, device, h))
}

func (w *world) send(tenant, device string, h chunk.Header) error {
	return w.sendTo(w.places[tenant].Key(device, h.ID.Day, h.ID.Number), h)
}

// plant stores a chunk wherever it is told to.
func (w *world) plant(key sharding.Key, h chunk.Header) { require.NoError(w.t, w.sendTo(key, h)) }

func (w *world) sendTo(key sharding.Key, h chunk.Header) error {
	h.TenantShard, h.Device, h.TTL = key.TenantShard, key.Device, cmp.Or(w.ttl, h.TTL)
	doc, err := chunk.Encode(h, chunk.Frame{Groups: []chunk.Group{{
		Times:   []int64{h.ID.Day.Start() + int64(h.ID.Number)},
		Columns: []chunk.Column{{Metric: "v", Kind: telemetry.Float, Bits: []uint64{telemetry.FloatValue(1).Bits()}}},
	}}})
	require.NoError(w.t, err)
	_, err = w.memory.Create(w.t.Context(), key, h.ID.String(), doc)
	return err
}

// order announces and acknowledges an order up to an offset of partition 0, and of others.
func (w *world) order(o erasure.Order, through int64, others ...int32) *erasure.Order {
	announced, err := w.orders.Announce(w.t.Context(), o)
	require.NoError(w.t, err)
	positions := []erasure.Position{{Stream: 1, Partition: 0, Through: through}}
	for _, p := range others {
		positions = append(positions, erasure.Position{Stream: 1, Partition: p, Through: through})
	}
	require.NoError(w.t, w.orders.Acknowledge(w.t.Context(), announced.ID, positions))
	return announced
}

func (w *world) sweeper() *erase.Sweeper {
	return erase.NewSweeper(erase.Config{Chunks: w.memory, Rollups: w.rollups, Now: w.memory.Now, Orders: w.orders,
		Snapshot: w.directory.Refresh, By: "test", RUs: 1e9})
}

// chunks returns the stored chunks of a tenant's device, by id.
func (w *world) chunks(tenant, device string) map[string]*chunk.Chunk {
	out := make(map[string]*chunk.Chunk)
	for _, s := range w.memory.Documents() {
		if s.Key.Device == device && strings.HasPrefix(s.Key.TenantShard, tenant+"~") {
			out[s.ID] = must(chunk.Parse(s.Doc))
		}
	}
	return out
}

// requireSwept requires that nothing of an order is stored, and all else as it was made.
func (w *world) requireSwept(o *erasure.Order, through int64) {
	w.t.Helper()
	for _, tenant := range []string{"acme", "globex"} {
		for d := range devices {
			tails := make(map[telemetry.Day]int64)
			for id, c := range w.chunks(tenant, device(d)) {
				h := c.Header
				touched := tenant == o.Tenant && o.Matches(h.Device, h.ID.Day)
				tails[h.ID.Day] = max(tails[h.ID.Day], h.Through)
				require.Equal(w.t, touched && h.Through <= through, h.IsErased(), "%s %s %s", tenant, h.Device, id)
			}
			require.Len(w.t, tails, days)
			for day, tail := range tails {
				if tenant == o.Tenant && o.Matches(device(d), day) {
					require.GreaterOrEqual(w.t, tail, through, "a chain that is open")
				} else {
					require.EqualValues(w.t, 29, tail)
				}
			}
		}
	}
}

func TestSweepErasesDeviceAndClosesItsChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := w.order(erasure.Order{Tenant: "acme", Device: "m1", From: firstDay + 1, To: firstDay + 6, By: "jane"}, 50)
		time.Sleep(100 * time.Second)
		s := w.sweeper()
		require.NoError(t, s.Round(t.Context()))
		w.requireSwept(o, 50)
		stub := w.chunks("acme", "m1")["20261111.1.00000.000001"].Header
		require.Equal(t, []int64{10, 19, 9}, []int64{stub.First, stub.Through, stub.After})
		require.Equal(t, 900, stub.TTL, "what is left of it")
		fence := w.chunks("acme", "m1")["20261111.1.00000.000003"].Header
		require.Equal(t, []int64{50, 50, 29}, []int64{fence.First, fence.Through, fence.After})

		// What a writer sends late meets the fence, and the next chunk is behind it.
		require.ErrorIs(t, w.send("acme", "m1", header(firstDay+1, 3, 29)), store.ErrExists)
		w.create("acme", "m1", header(firstDay+1, 4, 50))

		_, found, err := w.docs.Read(t.Context(), erasure.Kind, o.ID+".swept")
		require.NoError(t, err)
		require.False(t, found, "a worker may not know the order")
		w.create("acme", "m1", header(firstDay+4, 0, -1)) // the first of a chain that had none
		time.Sleep(5 * time.Minute)
		require.NoError(t, s.Round(t.Context()))
		for id, c := range w.chunks("acme", "m1") {
			h := c.Header
			require.Equal(t, o.Matches("m1", h.ID.Day) && h.Through <= 50, h.IsErased(), id)
		}
		require.Equal(t, "test", w.swept(o).By)
		require.Len(t, w.swept(o).Places, 1)
		require.Equal(t, 7, w.swept(o).Places[0].Rows)
		require.Equal(t, 3, w.swept(o).Places[0].Fences)
		before := w.memory.Calls(storetest.Scan)
		require.NoError(t, s.Round(t.Context()))
		require.Equal(t, before, w.memory.Calls(storetest.Scan), "what is swept costs nothing")
	})
}

// What a sweep has done is stored after each container, once; a later one does not begin to count again.
func TestSweepStoresItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		require.NoError(t, w.directory.AskMonth(t.Context(), "chunks-2026-12", ""))
		o := w.order(erasure.Order{Tenant: "acme", Device: "m1", From: firstDay + 1, To: firstDay + 40, By: "jane"}, 50)
		progress := func() *erasure.Progress {
			v, err := w.directory.Refresh(t.Context())
			require.NoError(t, err)
			return v.Erasures("acme")[0].Progress
		}
		require.Nil(t, progress())
		isBroken := true
		w.memory.Fault = func(op storetest.Op) *storetest.Fault {
			if isBroken && op.Key.Container == "chunks-2026-12" {
				return &storetest.Fault{Err: errors.New("broken")}
			}
			return nil
		}
		s, want := w.sweeper(), erasure.Progress{Containers: 1, Of: 2, Chunks: 6, Rows: 6}
		begun := time.Now()
		require.ErrorContains(t, s.Round(t.Context()), "broken")
		want.At = begun.UnixMilli()
		require.Equal(t, &want, progress())
		isBroken = false
		time.Sleep(time.Second)
		require.NoError(t, s.Round(t.Context()))
		want.At, want.Containers = want.At+1000, 2
		require.Equal(t, &want, progress())
		time.Sleep(6 * time.Minute)
		require.NoError(t, s.Round(t.Context()))
		require.Equal(t, &want, progress())
		require.Len(t, w.swept(o).Places, 1)
	})
}

type sweptBody struct {
	At     int64
	By     string
	Places []erasure.Swept
}

func (w *world) swept(o *erasure.Order) (b sweptBody) {
	d, found, err := w.docs.Read(w.t.Context(), erasure.Kind, o.ID+".swept")
	require.NoError(w.t, err)
	require.True(w.t, found)
	require.NoError(w.t, json.Unmarshal(d.Body, &b))
	return b
}

// An order that nobody acknowledges is made void in time, also during a long sweep of another one.
func TestAbandonedOrderIsMadeVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		swept := w.order(erasure.Order{Tenant: "acme", From: firstDay, To: firstDay + 3}, 50)
		s := erase.NewSweeper(erase.Config{Chunks: w.memory, Rollups: w.rollups, Now: w.memory.Now, Orders: w.orders,
			Snapshot: w.directory.Refresh, RUs: 1})
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		o, err := w.orders.Announce(ctx, erasure.Order{Tenant: "acme", From: firstDay, To: firstDay + 1})
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.ErrorIs(t, w.orders.Acknowledge(ctx, o.ID, nil), erasure.ErrVoid)
		require.Nil(t, w.orderOf(swept).Progress, "the sweep goes on")
		end()
		<-done
	})
}

// An account without containers of rollups has nothing to clear there: the order ends.
func TestErasureEndsWithoutRollups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.rollups = storetest.NewRollups(t)
		w.order(erasure.Order{Tenant: "acme", Device: "m1", From: firstDay, To: firstDay + 1}, 50)
		s := w.sweeper()
		for range 3 { // the sweep ends, then what it has to wait for is over
			time.Sleep(9 * time.Minute)
			require.NoError(t, s.Round(t.Context()))
		}
		v, err := w.directory.Refresh(t.Context())
		require.NoError(t, err)
		require.False(t, v.Erasures("acme")[0].ClearedAt.IsZero())
	})
}

// A replica that lacks the progress which is stored already leaves it as it is.
func TestProgressBehindALaggingReplica(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.orders.StoreProgress(t.Context(), "o", erasure.Progress{Containers: 1}))
	w.docs.Lagging = func(string) bool { return true }
	require.NoError(t, w.orders.StoreProgress(t.Context(), "o", erasure.Progress{Containers: 2}))
}

// An order that was copied is older than its acknowledgement. It is swept again some minutes after that: a copy that
// did not know it may have a create in flight.
func TestOldOrderIsSweptAgain(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := newWorldAt(t, func() time.Time { return now }, 1e8)
	o := &erasure.Order{ID: "20261119T000000Z-1", Tenant: "acme", Device: "m9", To: erasure.EveryDay,
		At: now.Add(-24 * time.Hour)}
	require.NoError(t, w.orders.Restore(t.Context(), o))
	require.NoError(t, w.orders.Acknowledge(t.Context(), o.ID, []erasure.Position{{Stream: 1, Through: 50}}))
	s := w.sweeper()
	require.NoError(t, s.Round(t.Context()))
	w.create("acme", "m9", header(firstDay, 0, -1))
	now = now.Add(erase.SettledAfter + time.Second)
	require.NoError(t, s.Round(t.Context()))
	for _, c := range w.chunks("acme", "m9") {
		require.Zero(t, c.Header.Rows)
	}
	require.Len(t, w.chunks("acme", "m9"), 2, "and a fence")
	require.NotZero(t, w.orderOf(o).SweptAt)
}
