package audit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/ops/audit"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

const (
	today    = telemetry.Day(20777) // 2026-11-20
	month    = "chunks-2026-11"
	next     = "chunks-2026-12"
	rusOfOne = 3 // of a scan of the store in memory
)

// containers are those of a rig.
type containers []string

func (c containers) List(context.Context) ([]string, error) { return c, nil }

// rig is a store with chains of two tenants over two days, all as it must be.
type rig struct {
	t      *testing.T
	memory *storetest.Memory
	docs   store.Documents
	places map[string]*sharding.Placement
}

func newRig(t *testing.T, seed uint64) *rig { return newRigOf(t, seed, "cluster") }

// newRigOf returns a rig with a stream of a cluster.
func newRigOf(t *testing.T, seed uint64, cluster string) *rig {
	r := &rig{t: t, memory: storetest.NewMemory(t, month, next), docs: storetest.NewDocuments(t),
		places: make(map[string]*sharding.Placement)}
	dir := control.NewDirectory(control.DirectoryConfig{Documents: r.docs})
	_, err := stream.NewStreams(r.docs).Find(t.Context(), cluster, "telemetry", 4)
	require.NoError(t, err)
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, tenant := range []string{"acme", "globex"} {
		view, err := dir.Register(t.Context(), tenant)
		require.NoError(t, err)
		known, ok := view.Tenant(tenant)
		require.True(t, ok)
		r.places[tenant] = known.Placement
		for d := range 6 {
			for day := today; day < today+2; day++ {
				through := int64(-1)
				for n := range uint32(3 + random.IntN(4)) {
					h := chunk.Header{ID: chunk.ID{Day: day, Stream: 1, Partition: int32(d % 4), Number: n}, After: through}
					h.First = through + 1 + random.Int64N(100)
					h.Through = h.First + random.Int64N(50)
					through = h.Through
					r.create(tenant, fmt.Sprintf("m%d", d), h)
				}
			}
		}
	}
	return r
}

// create stores a chunk of one row where it belongs; of one reading, unless the header says otherwise.
func (r *rig) create(tenant, device string, h chunk.Header) {
	key := r.places[tenant].Key(device, h.ID.Day, h.ID.Number)
	h.TenantShard, h.Device, h.Readings = key.TenantShard, device, max(h.Readings, 1)
	doc, err := chunk.Encode(h, chunk.Frame{Groups: []chunk.Group{{
		Times:   []int64{h.ID.Day.Start() + int64(h.ID.Number)},
		Columns: []chunk.Column{{Metric: "v", Kind: telemetry.Float, Bits: []uint64{telemetry.FloatValue(1).Bits()}}},
	}}})
	require.NoError(r.t, err)
	_, err = r.memory.Create(r.t.Context(), key, h.ID.String(), doc)
	require.NoError(r.t, err)
}

// chunk is a stored document by its number, of acme's m1 on the first day.
func (r *rig) chunk(number uint32) storetest.Stored {
	id := chunk.ID{Day: today, Stream: 1, Partition: 1, Number: number}.String()
	for _, s := range r.memory.Documents() {
		if s.ID == id && s.Key == r.places["acme"].Key("m1", today, number) {
			return s
		}
	}
	require.FailNow(r.t, "no such chunk", id)
	return storetest.Stored{}
}

// change damages one property of a stored document, in place.
func (r *rig) change(s storetest.Stored, name string, value any) {
	r.memory.Damage(s.Key, s.ID, r.with(s.Doc, name, value))
}

// with is a document with another value of a property, without it if the value is nil.
func (r *rig) with(doc []byte, name string, value any) []byte {
	var all map[string]any
	require.NoError(r.t, json.Unmarshal(doc, &all))
	if all[name] = value; value == nil {
		delete(all, name)
	}
	out, err := json.Marshal(all)
	require.NoError(r.t, err)
	return out
}

func (r *rig) audit(change func(*audit.Config)) (found []audit.Finding, sum audit.Summary) {
	r.t.Helper()
	cfg := config()
	if change != nil {
		change(&cfg)
	}
	sum, err := audit.Run(r.t.Context(), cfg, r.stores(), func(f audit.Finding) error {
		found = append(found, f)
		return nil
	})
	require.NoError(r.t, err)
	require.Equal(r.t, len(found), sum.Findings)
	return found, sum
}

func config() audit.Config {
	return audit.Config{From: "2026-11-20", To: "2026-11-21", NoKafka: true, Topics: []string{"telemetry"}}
}

func (r *rig) stores() audit.Stores {
	return audit.Stores{Headers: r.memory, Containers: containers{month, "control", next}, Documents: r.docs}
}

func TestCleanStore(t *testing.T) {
	for seed := range uint64(5) {
		r := newRig(t, seed)
		for _, columns := range []bool{false, true} {
			found, sum := r.audit(func(c *audit.Config) { c.Columns = columns })
			require.Empty(t, found)
			require.Equal(t, len(r.memory.Documents()), sum.Chunks)
			require.Equal(t, 2*6*2, sum.Chains)
			require.Equal(t, 2, sum.Days)
			require.EqualValues(t, sum.Chunks, sum.Readings)
		}
		found, sum := r.audit(func(c *audit.Config) { c.Tenant, c.Device, c.To = "acme", "m1", "" })
		require.Empty(t, found)
		require.Equal(t, 1, sum.Chains)
	}
}

// Each way to damage a store is named, with the place.
func TestEveryKindOfFinding(t *testing.T) {
	for name, c := range map[string]struct {
		damage  func(r *rig)
		columns bool
		want    []audit.Kind
		number  int64
	}{
		"a chunk in the middle is gone": {func(r *rig) { s := r.chunk(1); r.memory.Damage(s.Key, s.ID, nil) }, false,
			[]audit.Kind{audit.Gap}, 1},
		"the first is gone": {func(r *rig) { s := r.chunk(0); r.memory.Damage(s.Key, s.ID, nil) }, false,
			[]audit.Kind{audit.Gap}, 0},
		"two are gone": {func(r *rig) {
			for n := range uint32(2) {
				s := r.chunk(n)
				r.memory.Damage(s.Key, s.ID, nil)
			}
		}, false, []audit.Kind{audit.Gap}, 0},
		"after is too high": {func(r *rig) {
			s := r.chunk(1)
			var h struct{ After, First int64 }
			require.NoError(r.t, json.Unmarshal(s.Doc, &h))
			doc := r.with(r.with(s.Doc, "after", 1<<20), "first", 1<<20+1)
			r.memory.Damage(s.Key, s.ID, r.with(doc, "through", 1<<20+2))
			n := r.chunk(2)
			doc = r.with(r.with(n.Doc, "after", 1<<20+2), "first", 1<<20+3)
			r.memory.Damage(n.Key, n.ID, r.with(doc, "through", 1<<20+3))
			for _, s := range r.memory.Documents() { // nothing behind them
				id, err := chunk.ParseID(s.ID)
				require.NoError(r.t, err)
				if s.Key == n.Key && id.Day == today && id.Partition == 1 && id.Number > 2 {
					r.memory.Damage(s.Key, s.ID, nil)
				}
			}
		}, false, []audit.Kind{audit.Gap}, 1},
		"after is too low": {func(r *rig) { r.change(r.chunk(1), "after", -1) }, false,
			[]audit.Kind{audit.Overlap}, 1},
		"through is too high": {func(r *rig) { r.change(r.chunk(1), "through", 1<<40) }, false,
			[]audit.Kind{audit.Overlap}, 2},
		"first is not behind after": {func(r *rig) { r.change(r.chunk(0), "after", 1<<40) }, false,
			[]audit.Kind{audit.Gap, audit.Order}, 0},
		"through lies before first": {func(r *rig) { r.change(r.chunk(0), "first", 1<<40) }, false,
			[]audit.Kind{audit.Order}, 0},
		"an instant of the next day": {func(r *rig) { r.change(r.chunk(1), "to", today.End()) }, false,
			[]audit.Kind{audit.Foreign}, 1},
		"instants of another day": {func(r *rig) {
			s := r.chunk(1)
			r.memory.Damage(s.Key, s.ID, r.with(r.with(s.Doc, "from", (today+7).Start()), "to", (today+7).Start()))
		}, false, []audit.Kind{audit.Foreign}, 1},
		"under another slot": {func(r *rig) {
			s := r.chunk(1)
			r.memory.Damage(s.Key, s.ID, nil)
			s.Key.TenantShard = "acme~zz"
			r.memory.Damage(s.Key, s.ID, r.with(s.Doc, "tenantShard", s.Key.TenantShard))
		}, false, []audit.Kind{audit.Misplaced}, 1},
		"in another month": {func(r *rig) {
			s := r.chunk(1)
			r.memory.Damage(s.Key, s.ID, nil)
			s.Key.Container = next
			r.memory.Damage(s.Key, s.ID, s.Doc)
		}, false, []audit.Kind{audit.Misplaced}, 1},
		"twice": {func(r *rig) {
			s := r.chunk(1)
			s.Key.TenantShard = "acme~zz"
			r.memory.Damage(s.Key, s.ID, r.with(s.Doc, "tenantShard", s.Key.TenantShard))
		}, false, []audit.Kind{audit.Duplicate, audit.Misplaced}, 1},
		"of a tenant that nobody knows": {func(r *rig) {
			s := r.chunk(0)
			s.Key.TenantShard = "nobody~0"
			r.memory.Damage(s.Key, s.ID, r.with(s.Doc, "tenantShard", s.Key.TenantShard))
		}, false, []audit.Kind{audit.Orphan}, 0},
		"of a stream that nobody knows": {func(r *rig) {
			s := r.chunk(0)
			id := "20261120.9.00001.000000"
			r.memory.Damage(s.Key, id, r.with(s.Doc, "id", id))
		}, false, []audit.Kind{audit.Orphan}, 0},
		"a header without a number": {func(r *rig) { r.change(r.lastOf(), "through", nil) }, false,
			[]audit.Kind{audit.Damaged}, -1},
		"a header with a broken one": {func(r *rig) { r.change(r.lastOf(), "readings", 0.5) }, false,
			[]audit.Kind{audit.Damaged}, -1},
		"another kind of document": {func(r *rig) { r.change(r.lastOf(), "type", "note") }, false,
			[]audit.Kind{audit.Damaged}, -1},
		"columns that are none": {func(r *rig) { r.change(r.lastOf(), "data", "AAAA") }, true,
			[]audit.Kind{audit.Damaged}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 7)
			c.damage(r)
			found, _ := r.audit(func(cfg *audit.Config) { cfg.Columns = c.columns })
			var kinds []audit.Kind
			for _, f := range found {
				kinds = append(kinds, f.Kind)
				require.Equal(t, c.number, f.Number, "%s", f)
				require.Contains(t, []string{"acme", "nobody"}, f.Tenant)
				require.Equal(t, "m1", f.Device)
				require.Equal(t, "2026-11-20", f.Day)
				require.NotEmpty(t, f.String())
			}
			require.Equal(t, c.want, kinds, "%v", found)
			other, _ := r.audit(func(cfg *audit.Config) { cfg.Tenant = "globex" })
			require.Empty(t, other)
		})
	}
}

// lastOf is the last chunk of acme's m1 on the first day: that one being none leaves a chain without a gap.
func (r *rig) lastOf() (last storetest.Stored) {
	for _, s := range r.memory.Documents() {
		id, err := chunk.ParseID(s.ID)
		require.NoError(r.t, err)
		if id.Day == today && s.Key == r.places["acme"].Key("m1", today, id.Number) && s.ID > last.ID {
			last = s
		}
	}
	return last
}

// A chain does not show its end: without the log nothing shows that its last chunk is gone.
func TestMissingLastChunkNeedsTheLog(t *testing.T) {
	r := newRig(t, 3)
	s := r.lastOf()
	r.memory.Damage(s.Key, s.ID, nil)
	found, _ := r.audit(nil)
	require.Empty(t, found)
}

// What is written while the audit reads is no gap: a later chunk may be seen where an earlier one was not.
func TestConcurrentWritesAreNoGap(t *testing.T) {
	r := newRig(t, 3)
	s := r.chunk(1)
	r.memory.Damage(s.Key, s.ID, nil)
	reads := 0
	r.memory.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind == storetest.Headers {
			if reads++; reads == 3 { // the first day's containers are read
				r.memory.Damage(s.Key, s.ID, s.Doc)
			}
		}
		return nil
	}
	found, _ := r.audit(nil)
	require.Empty(t, found)
	require.Equal(t, 2*2+2, reads, "the device's day is read again")
}

// A tenant and a stream that come while the audit reads are no strangers.
func TestTenantRegisteredMeanwhile(t *testing.T) {
	r := newRig(t, 3)
	come := sync.OnceFunc(func() {
		view, err := control.NewDirectory(control.DirectoryConfig{Documents: r.docs}).Register(t.Context(), "initech")
		require.NoError(t, err)
		known, _ := view.Tenant("initech")
		r.places["initech"] = known.Placement
		s, err := stream.NewStreams(r.docs).Find(t.Context(), "cluster", "another", 4)
		require.NoError(t, err)
		require.EqualValues(t, 2, s.Number)
		r.create("initech", "new", chunk.Header{ID: chunk.ID{Day: today, Stream: 1}, First: 1, Through: 2, After: -1})
		r.create("acme", "m1", chunk.Header{ID: chunk.ID{Day: today, Stream: 2}, First: 1, Through: 2, After: -1})
	})
	chunks := len(r.memory.Documents())
	r.memory.Fault = func(op storetest.Op) *storetest.Fault {
		if op.Kind == storetest.Headers {
			come()
		}
		return nil
	}
	found, sum := r.audit(nil)
	require.Empty(t, found)
	require.Equal(t, chunks+2, sum.Chunks)
}

// The audit takes no more than it may: two days in two containers at 1 request unit a second.
func TestMaxRUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1)
		_, sum := r.audit(func(c *audit.Config) { c.MaxRUs = 1; c.Now = time.Now })
		require.Equal(t, 4*rusOfOne*time.Second, sum.Took)
		require.EqualValues(t, 4*rusOfOne, sum.RUs)
	})
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []audit.Config{
		{From: "yesterday"}, {From: "2026-11-20", To: "2026-11-19"}, {From: "2026-11-20", To: "2028-11-20"},
		{From: "2026-11-20", Tenant: "A"}, {From: "2026-11-20", MaxRUs: -1},
		{From: "2026-11-20", NoKafka: true, Log: true}, {},
	} {
		_, err := audit.Run(t.Context(), cfg, audit.Stores{}, nil)
		require.Error(t, err)
	}
}
