package tenantcopy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/ops/tenantcopy"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	// The encoder of pages is made for all, once: not in the bubble of a test.
	if _, _, err := catalog.Encode(catalog.Page{Entries: []catalog.Entry{{Device: "m1"}}}); err != nil {
		panic(err)
	}
	m.Run()
}

var (
	noon   = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	months = []string{"chunks-2026-10", "chunks-2026-11"}
	all    = telemetry.Range{To: noon.Add(24 * time.Hour).UnixMilli()}
)

// pair is two accounts. The source has three devices with two streams.
type pair struct {
	t        *testing.T
	from, to *querytest.World
	waited   atomic.Int64 // ns since noon, by the clocks of the copy and of both accounts
}

// wait lets time go by.
func (p *pair) wait(d time.Duration) { p.waited.Add(int64(d)) }

func (p *pair) now() time.Time { return noon.Add(time.Duration(p.waited.Load())) }

func twoAccounts(t *testing.T) *pair {
	p := &pair{t: t, from: querytest.New(t, noon), to: querytest.New(t, noon)}
	p.from.Store.Now, p.to.Store.Now = p.now, p.now
	p.stream(p.from, "old")
	return p
}

func newPair(t *testing.T) *pair {
	p := twoAccounts(t)
	for _, name := range months {
		p.to.Store.CreateContainer(name)
	}
	for d := range 3 {
		for day := range 3 {
			for n := range 3 {
				p.chunk(p.from, reading{uint32(1 + d%2), d, 18 + day, n, 1})
			}
		}
	}
	p.chunk(p.from, reading{1, 0, -5, 0, 1}) // in another container
	return p
}

func (p *pair) stream(w *querytest.World, topic string) uint32 {
	s, err := stream.NewStreams(w.Documents).Find(p.t.Context(), "c", topic, 1)
	require.NoError(p.t, err)
	return s.Number
}

// reading names the readings of a chunk: their values are those of the last number.
type reading struct {
	stream         uint32
	device, day, n int
	value          float64
}

func (p *pair) chunk(w *querytest.World, r reading) {
	var records []querytest.Record
	for i := range 3 {
		at := time.Date(2026, 11, r.day, r.n, i, 0, 0, time.UTC)
		records = append(records, querytest.Record{
			Position: telemetry.Position{Stream: r.stream, Offset: int64(10*r.n + i)},
			Reading: telemetry.Reading{Tenant: "acme", Device: fmt.Sprintf("m%d", r.device), Time: at.UnixMilli(),
				Fields: []telemetry.Field{{Metric: "x", Value: telemetry.FloatValue(r.value + float64(i)/8)},
					{Metric: "state", Value: telemetry.TextValue("<on>&")}}},
		})
	}
	w.Chunk(records...)
}

func (p *pair) side(w *querytest.World) tenantcopy.Side {
	return tenantcopy.Side{Documents: w.Documents, OfTenants: w.Documents,
		Orders:    erasure.NewOrders(w.Documents, p.now),
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Now: p.now}),
		Catalog:   w.Catalog, Chunks: w.Store}
}

// config is that of a copy which gives up at the first failure.
func (p *pair) config() tenantcopy.Config {
	return tenantcopy.Config{From: p.side(p.from), To: p.side(p.to), Tenant: "acme", Days: all, Attempts: 1,
		Now: p.now}
}

func (p *pair) copy(cfg tenantcopy.Config) tenantcopy.Result {
	p.t.Helper()
	r, err := tenantcopy.New(cfg).Run(p.t.Context())
	require.NoError(p.t, err)
	return r
}

// rows are the answer of an account to a strict query.
func (p *pair) rows(w *querytest.World, devices ...string) (rows []query.Row) {
	p.t.Helper()
	directory := p.side(w).Directory
	_, err := directory.Refresh(p.t.Context())
	require.NoError(p.t, err)
	w.Log.Set(1000)
	w.Heads.SetOnly(store.PartitionHead{Stream: 1, Position: 1000})
	q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Catalog: w.Catalog, Directory: directory, Log: w.Log,
		Now: p.now})
	require.NoError(p.t, err)
	res, err := q.Readings(p.t.Context(), query.Request{Tenant: "acme", Devices: devices, Range: all, Strict: true},
		func(row query.Row) error {
			row.Values = slices.Clone(row.Values)
			rows = append(rows, row)
			return nil
		})
	require.NoError(p.t, err)
	require.Empty(p.t, res.Incomplete)
	return rows
}

func (p *pair) requireEqual(r tenantcopy.Result) {
	p.t.Helper()
	require.Empty(p.t, r.Different)
	require.True(p.t, r.IsEqual(), "%+v", r)
	require.Equal(p.t, p.rows(p.from), p.rows(p.to))
}

// order gives an order that covers both streams of an account up to an offset.
func (p *pair) annotations(w *querytest.World) *tenant.Annotations {
	return tenant.NewAnnotations(w.Documents, w.Documents, func(string) erasure.List { return nil })
}

func (p *pair) order(w *querytest.World, o erasure.Order, through int64) *erasure.Order {
	orders := p.side(w).Orders
	o.Tenant = "acme"
	given, err := orders.Announce(context.Background(), o)
	require.NoError(p.t, err)
	require.NoError(p.t, orders.Acknowledge(context.Background(), given.ID, []erasure.Position{
		{Stream: 1, Through: through}, {Stream: 2, Through: through}}))
	return given
}

// sweep sweeps the orders of an account as the role provision does.
func (p *pair) sweep(w *querytest.World) {
	s := p.side(w)
	require.NoError(p.t, erase.NewSweeper(erase.Config{Chunks: w.Store, Rollups: w.Rollups, Orders: s.Orders,
		Catalog: w.Catalog, Snapshot: s.Directory.Refresh, By: "test", RUs: 1e9, Now: p.now}).Round(
		context.Background()))
}

// A copy has what the source has; a repeat writes nothing.
func TestCopyEqualsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		r := p.copy(p.config())
		require.Equal(t, 28, r.Copied)
		require.Equal(t, []int{28, 10, 84, 3}, []int{r.Chunks, r.Chains, int(r.Rows), r.Devices})
		p.requireEqual(r)
		from, _ := p.from.Catalog.Entry("acme", "m1")
		to, _ := p.to.Catalog.Entry("acme", "m1")
		require.Equal(t, from, to)

		notes, theirs := p.annotations(p.from), p.annotations(p.to)
		for i, text := range []string{"new firmware", "a storm"} {
			_, err := notes.Add(t.Context(), "acme", tenant.Annotation{Time: noon.UnixMilli() + int64(i), Text: text}, 0)
			require.NoError(t, err)
		}
		_, err := theirs.Add(t.Context(), "acme", tenant.Annotation{Time: 1, Text: "the target's own"}, 0)
		require.NoError(t, err)
		before := p.to.Store.Documents()
		p.copy(p.config())
		again := p.copy(p.config())
		copied, err := theirs.List(t.Context(), "acme")
		require.NoError(t, err)
		made, err := notes.List(t.Context(), "acme")
		require.NoError(t, err)
		require.Len(t, copied, 3)
		for i := range made {
			require.NotEmpty(t, copied[1+i].Account)
			copied[1+i].Account = ""
		}
		require.Equal(t, made, copied[1:])
		require.Zero(t, again.Copied+again.Replaced)
		require.Equal(t, before, p.to.Store.Documents())
		p.requireEqual(again)
	})
}

// lagging reads from a replica that lacks some chunks.
type lagging struct {
	store.Chunks
	lacks func(doc []byte) bool
}

func (l *lagging) Scan(ctx context.Context, s store.Scan, yield func(doc []byte) error) (store.Usage, error) {
	return l.Chunks.Scan(ctx, s, func(doc []byte) error {
		if l.lacks(doc) {
			return nil
		}
		return yield(doc)
	})
}

// A chain is copied from its first chunk on, also where a replica of the source shows others before that (rule T3).
func TestCopyOfALaggingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg := p.config()
		var asked sync.Map
		cfg.From.Chunks = &lagging{cfg.From.Chunks, func(doc []byte) bool {
			_, found := asked.LoadOrStore(string(doc), true)
			return !found && bytes.Contains(doc, []byte(`.00000.000000"`)) && !bytes.Contains(doc, []byte(`"20261026.`))
		}}
		p.requireEqual(p.copy(cfg)) // the store of the test takes no chunk without the one before
	})
}

// A copy has the last chunk of a chain that was stored before it began, also where no replica showed it for minutes.
func TestCopyOfALaggingEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg := p.config()
		began := time.Now()
		cfg.From.Now = func() time.Time { return noon.Add(time.Since(began)) }
		cfg.From.Chunks = &lagging{cfg.From.Chunks, func(doc []byte) bool {
			return time.Since(began) < 4*time.Minute && bytes.Contains(doc, []byte(`.00000.000002"`))
		}}
		p.requireEqual(p.copy(cfg))
		require.Equal(t, 5*time.Minute+time.Second, time.Since(began))
		again := time.Now()
		p.requireEqual(p.copy(cfg))
		require.Equal(t, 5*time.Minute, time.Since(again), "nothing has come")
	})
}

// The target's catalog has the times of what was copied, although the source's is behind (rule T6).
func TestCopiedTimesAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		want, _ := p.from.Catalog.Entry("acme", "m1")
		behind := want
		behind.First, behind.Last = want.First+1, want.Last-1
		p.from.Catalog = storetest.NewCatalog(t)
		p.from.Catalog.AddPage("acme", behind, catalog.Entry{Device: "m2", First: 1})
		p.copy(p.config())
		is, _ := p.to.Catalog.Entry("acme", "m1")
		require.Equal(t, want, is)
		is, _ = p.to.Catalog.Entry("acme", "m2")
		require.Equal(t, []int64{time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC).UnixMilli(),
			time.Date(2026, 11, 20, 2, 2, 0, 0, time.UTC).UnixMilli()}, []int64{is.First, is.Last})
	})
}

// Only the device and the days that were asked for are copied.
func TestCopyOfADeviceAndDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg := p.config()
		cfg.Device = "m1"
		cfg.Days = telemetry.Range{From: noon.Add(-36 * time.Hour).UnixMilli(), To: noon.Add(12 * time.Hour).UnixMilli()}
		r := p.copy(cfg)
		require.Equal(t, []int{6, 6, 1}, []int{r.Copied, r.Chunks, r.Devices})
		require.Len(t, p.to.Store.Documents(), 6)
	})
}

// A dry run changes nothing on either side.
func TestDryRunOfACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for _, docs := range []*storetest.Documents{p.from.Documents, p.to.Documents} {
			docs.Fault = func(op, _, id string) *storetest.Fault {
				if op == storetest.OpCreate || op == storetest.OpReplace {
					t.Errorf("%s %s in a dry run", op, id)
				}
				return nil
			}
		}
		cfg := p.config()
		cfg.DryRun = true
		r := p.copy(cfg)
		require.Equal(t, 28, r.Copied)
		require.Equal(t, months, r.Missing)
		require.Empty(t, p.to.Store.Documents())
	})
}

// A target that stores the same tenant and devices itself keeps all that it has: streams that are copied have numbers
// that it has never used, and the numbers that it uses later are others again.
func TestCopyToATargetThatIngests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for n := range 2 {
			p.chunk(p.to, reading{1, 1, 19, n, 50})    // other values of the same instants
			p.chunk(p.to, reading{1, 1, 20, 6 + n, 7}) // and instants that the source lacks
		}
		own := p.to.Store.Documents()
		var created atomic.Int64
		p.to.Store.Fault = func(op storetest.Op) *storetest.Fault {
			if op.Kind == storetest.Create && created.Add(1) == 5 { // the target goes on, also with a stream that is new
				p.stream(p.to, "newer")
				p.chunk(p.to, reading{1, 1, 19, 2, 50})
			}
			return nil
		}
		r := p.copy(p.config())
		require.True(t, r.IsEqual(), "%+v", r)
		require.Equal(t, map[uint32]uint32{1: 2, 2: 3}, r.Streams)
		for _, s := range own {
			require.Contains(t, p.to.Store.Documents(), s)
		}
		require.Equal(t, p.rows(p.from, "m0"), p.rows(p.to, "m0"))
		both := p.rows(p.to, "m1")
		require.Len(t, both, 9*3+6, "no instant is answered twice, and none is missing")
		for _, row := range p.rows(p.from, "m1") {
			require.Contains(t, both, row, "of two values of an instant that of the copy wins")
		}
		require.Equal(t, uint32(4), p.stream(p.to, "newer"))
		again := p.copy(p.config())
		require.Zero(t, again.Copied+again.Replaced)
	})
}

// An order that comes when its days were compared is found: the copy has not ended before.
func TestOrderBehindTheComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg, isGiven := p.config(), false
		cfg.Progress = func(r tenantcopy.Result) {
			if r.Chunks == 28 && !isGiven {
				isGiven = true
				p.order(p.from, erasure.Order{Device: "m1", To: erasure.EveryDay}, 15)
			}
		}
		r := p.copy(cfg)
		p.requireEqual(r)
		require.Equal(t, []int{28, 6, 6}, []int{r.Copied, r.Replaced, r.Erased})
	})
}

// A stream of the target's own that begins while an order is announced there has readings that nobody has erased.
func TestOrderAndAStreamOfTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.order(p.from, erasure.Order{Device: "m1", To: erasure.EveryDay}, 15)
		var own uint32
		p.to.Documents.Fault = func(op, _, id string) *storetest.Fault {
			if op == storetest.OpCreate && strings.HasSuffix(id, ".order") {
				p.to.Documents.Fault = nil
				own = p.stream(p.to, "begun")
			}
			return nil
		}
		p.copy(p.config())
		require.NotZero(t, own)
		v, err := p.side(p.to).Directory.Refresh(t.Context())
		require.NoError(t, err)
		through, isKnown := v.Erasures("acme")[0].Position(erasure.Partition{Stream: own})
		require.True(t, isKnown)
		require.EqualValues(t, -1, through)
	})
}

// Orders that come one after the other make one fence in a copied chain, and a longer chunk takes its place (rules T3
// and E-R8).
func TestChunkInPlaceOfAFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoAccounts(t)
		p.to.Store.CreateContainer(months[1])
		p.chunk(p.from, reading{1, 0, 19, 0, 1})
		p.copy(p.config())
		for _, through := range []int64{5, 8} {
			p.order(p.to, erasure.Order{Device: "m0", To: erasure.EveryDay}, through)
			p.sweep(p.to)
		}
		p.chunk(p.from, reading{1, 0, 19, 1, 1})
		r := p.copy(p.config())
		require.True(t, r.IsEqual(), "%+v", r)
		require.Equal(t, 1, r.Replaced)
		(&ingesttest.Stores{T: t, Chunks: p.to.Store}).CheckChains()
	})
}

// A certificate of the target counts what was erased there, and stays true when more is copied without rows.
func TestCopyLeavesCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg := p.config()
		cfg.Days.To = time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC).UnixMilli()
		p.copy(cfg)
		given := p.order(p.from, erasure.Order{Device: "m1", To: telemetry.DayOf(all.To)}, 100)
		p.copy(cfg)
		for range 3 {
			p.sweep(p.to)
			p.wait(9 * time.Minute)
		}
		v, err := p.side(p.to).Directory.Refresh(t.Context())
		require.NoError(t, err)
		all := v.Erasures("acme")
		require.Equal(t, given.ID, all[0].ID)
		cert, err := erase.NewCertificate(all[0], "target", nil)
		require.NoError(t, err)
		require.Equal(t, []int{3, 9}, []int{cert.Chunks[0].Chunks, cert.Chunks[0].Rows})
		p.requireEqual(p.copy(p.config()))
		found, err := erase.Verify(t.Context(), erase.VerifyConfig{Chunks: p.to.Store, Rollups: p.to.Rollups,
			Catalog: p.to.Catalog, Annotations: p.annotations(p.to), Now: p.now, RUs: 1e9}, v, cert)
		require.NoError(t, err)
		require.Empty(t, found.Findings)
	})
}

// The time to live of a copy is what is left of the chunk's, and a day that is hidden is not copied.
func TestCopyKeepsTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoAccounts(t)
		p.to.Store.CreateContainer(months[1])
		_, err := control.NewDirectory(control.DirectoryConfig{Documents: p.from.Documents, Now: p.now,
			Retention: 10 * 24 * time.Hour}).Register(t.Context(), "acme")
		require.NoError(t, err)
		p.chunk(p.from, reading{1, 0, 19, 0, 1})
		p.chunk(p.from, reading{1, 0, 12, 0, 1})
		p.wait(5 * 24 * time.Hour)
		r := p.copy(p.config())
		require.Equal(t, []int{1, 1}, []int{r.Chunks, r.Expiring})
		stored := p.to.Store.Documents()
		require.Len(t, stored, 1)
		c, err := chunk.Parse(stored[0].Doc)
		require.NoError(t, err)
		require.Equal(t, int((4*24+12)*time.Hour/time.Second), c.Header.TTL)
		v, err := p.side(p.to).Directory.Refresh(t.Context())
		require.NoError(t, err)
		acme, _ := v.Tenant("acme")
		require.Equal(t, 10*24*time.Hour, acme.Retention, "the retention goes first")
	})
}

// Chunks of a day that expires do not vanish at once: one that was stored late stays when the one before it is gone.
func TestCopyOfAnExpiringDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoAccounts(t)
		p.from.Store.Expiry = true
		p.to.Store.CreateContainer(months[1])
		for w, days := range map[*querytest.World]time.Duration{p.from: 10, p.to: 400} {
			_, err := control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Now: p.now,
				Retention: days * 24 * time.Hour}).Register(t.Context(), "acme")
			require.NoError(t, err)
		}
		p.chunk(p.from, reading{1, 0, 19, 0, 1})
		p.wait(time.Hour)
		p.chunk(p.from, reading{1, 0, 19, 1, 1}) // with the time to live of when it was cut, an hour before
		p.wait(9*24*time.Hour + 11*time.Hour + 30*time.Minute)
		r := p.copy(p.config())
		require.Empty(t, r.Different)
		require.Equal(t, []int{0, 1}, []int{r.Chunks, r.Expiring})
	})
}

// A container that the target lacks is asked for, and the copy waits for it.
func TestCopyWaitsForContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		for _, name := range months {
			p.to.Store.DeleteContainer(name)
		}
		began := time.Now()
		go func() {
			time.Sleep(time.Minute)
			for _, name := range months {
				p.to.Store.CreateContainer(name)
			}
		}()
		p.requireEqual(p.copy(p.config()))
		require.Greater(t, time.Since(began), time.Minute-time.Second)
	})
}

// What the target has in the place of a chunk and is not its copy is named, and stays.
func TestOtherChunkIsADifference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.copy(p.config())
		stored := p.to.Store.Documents()[3]
		doc := slices.Clone(stored.Doc)
		replaced := false
		for i := range doc {
			if string(doc[i:min(len(doc), i+10)]) == `"readings"` {
				doc[i+11], replaced = '4', true
			}
		}
		require.True(t, replaced)
		var etag string
		_, err := p.to.Store.Scan(t.Context(), store.Scan{Key: stored.Key, Range: all}, func(d []byte) error {
			etag = etagOf(t, d, stored.ID, etag)
			return nil
		})
		require.NoError(t, err)
		_, err = p.to.Store.ReplaceChunk(t.Context(), store.Version{Key: stored.Key, ID: stored.ID, ETag: etag}, doc)
		require.NoError(t, err)
		r := p.copy(p.config())
		require.False(t, r.IsEqual())
		require.Len(t, r.Different, 1)
		require.Contains(t, r.Different[0], "the target has another one")
	})
}

func etagOf(t *testing.T, doc []byte, id, known string) string {
	var d struct {
		ID   string `json:"id"`
		ETag string `json:"_etag"`
	}
	require.NoError(t, json.Unmarshal(doc, &d))
	if d.ID == id {
		return d.ETag
	}
	return known
}

// What the target has of its own stays in its lists, and so do its annotations, when an order about all of the tenant
// comes from the source (rules T4 and E-R10).
func TestCopiedOrderLeavesWhatIsTheTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.chunk(p.to, reading{1, 1, 20, 6, 7})
		own, _ := p.to.Catalog.Entry("acme", "m1")
		for w, text := range map[*querytest.World]string{p.from: "the source's", p.to: "the target's own"} {
			_, err := p.annotations(w).Add(t.Context(), "acme", tenant.Annotation{Time: 1, Text: text}, 0)
			require.NoError(t, err)
		}
		p.copy(p.config())
		both, _ := p.to.Catalog.Entry("acme", "m1")
		require.NotEqual(t, own.First, both.First)
		p.order(p.from, erasure.Order{To: erasure.EveryDay}, 100)
		p.copy(p.config())
		is, _ := p.to.Catalog.Entry("acme", "m1")
		require.Equal(t, own, is)
		_, isKnown := p.to.Catalog.Entry("acme", "m0")
		require.False(t, isKnown)
		v, err := p.side(p.to).Directory.Refresh(t.Context())
		require.NoError(t, err)
		shown, err := tenant.NewAnnotations(p.to.Documents, p.to.Documents, v.Erasures).List(t.Context(), "acme")
		require.NoError(t, err)
		require.Len(t, shown, 1)
		require.Equal(t, "the target's own", shown[0].Text)
		require.False(t, v.Erasures("acme").Hides("m1", -1, 0), "a reading that the target has refused")
	})
}

// What an earlier release has copied does not name its source: then the catalog forgets all of the device.
func TestOrderAfterACopyOfAnEarlierRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		account, err := control.AccountName(t.Context(), p.from.Documents)
		require.NoError(t, err)
		_, err = stream.NewStreams(p.to.Documents).Find(t.Context(), "copied from "+account, "0000000001", 0)
		require.NoError(t, err)
		p.to.Catalog.AddPage("acme", storetest.Entry("m1", nil, "copied before"))
		p.order(p.from, erasure.Order{Device: "m1", To: erasure.EveryDay}, 100)
		p.from.Catalog = storetest.NewCatalog(t)
		p.copy(p.config())
		_, isKnown := p.to.Catalog.Entry("acme", "m1")
		require.False(t, isKnown)
	})
}

// The target lists a device that the source's catalog learns of after its first chunk was stored (rule T6).
func TestCopyListsWhatTheCatalogLearnsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.from.Catalog = storetest.NewCatalog(t)
		cfg, began := p.config(), time.Now()
		cfg.From.Now = func() time.Time { return noon.Add(time.Since(began)) }
		go func() {
			time.Sleep(time.Minute)
			p.from.Catalog.AddPage("acme", storetest.Entry("m2", nil, "x"))
		}()
		p.copy(cfg)
		is, _ := p.to.Catalog.Entry("acme", "m2")
		require.Equal(t, []string{"x"}, is.MetricNames())
	})
}

// Where a device is erased while it is copied, and reports again, the target lists it from then on.
func TestCopiedTimesAfterAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg, isGiven := p.config(), false
		cfg.Progress = func(r tenantcopy.Result) {
			if r.Chunks < 28 || isGiven {
				return
			}
			isGiven = true
			o := p.order(p.from, erasure.Order{Device: "m1", To: erasure.EveryDay}, 100)
			require.NoError(t, erasure.Forget(t.Context(), p.from.Catalog, o))
			id, doc, err := catalog.Encode(catalog.Page{Updated: o.ForgottenUntil().UnixMilli() + 1, Entries: []catalog.Entry{
				{Device: "m1", First: noon.UnixMilli(), Last: noon.UnixMilli()}}})
			require.NoError(t, err)
			require.NoError(t, p.from.Catalog.Create(t.Context(), "acme", id, doc))
		}
		p.copy(cfg)
		is, isKnown := p.to.Catalog.Entry("acme", "m1")
		require.True(t, isKnown)
		require.Equal(t, []int64{noon.UnixMilli(), noon.UnixMilli()}, []int64{is.First, is.Last})
	})
}

// Chunks of a day expire together at a target that keeps the tenant for longer: it does not hide the day (rule T5).
func TestCopiedDayExpiresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoAccounts(t)
		p.to.Store.CreateContainer(months[1])
		for w, days := range map[*querytest.World]time.Duration{p.from: 10, p.to: 400} {
			_, err := control.NewDirectory(control.DirectoryConfig{Documents: w.Documents, Now: p.now,
				Retention: days * 24 * time.Hour}).Register(t.Context(), "acme")
			require.NoError(t, err)
		}
		p.chunk(p.from, reading{1, 0, 19, 0, 1})
		p.wait(time.Hour)
		p.chunk(p.from, reading{1, 0, 19, 1, 1}) // with the time to live of when it was cut, an hour before
		p.copy(p.config())
		var all []int
		for _, s := range p.to.Store.Documents() {
			c, err := chunk.Parse(s.Doc)
			require.NoError(t, err)
			all = append(all, c.Header.TTL)
		}
		want := int((9*24 + 11) * time.Hour / time.Second)
		require.Equal(t, []int{want, want}, all)
	})
}

// An order of the source is older than the age at which the target makes those void that are only announced. It is
// stored under its id all the same, however long the catalog takes.
func TestSlowCatalogUnderACopiedOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		given, forgets := p.order(p.from, erasure.Order{To: erasure.EveryDay}, 100), 0
		p.wait(time.Hour)
		p.to.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
			if op == storetest.OpCreate && forgets == 0 {
				forgets++
				p.sweep(p.to)
			}
			return nil
		}
		p.copy(p.config())
		v, err := p.side(p.to).Directory.Refresh(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, forgets)
		require.Len(t, v.Erasures("acme"), 1)
		require.Equal(t, given.ID, v.Erasures("acme")[0].ID)
		require.True(t, v.Erasures("acme")[0].IsAcknowledged())
	})
}

// standing is a target at which a copy stands still before its first create.
type standing struct {
	store.Chunks
	creates atomic.Int64
	late    atomic.Bool
}

func (s *standing) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	if s.creates.Add(1) == 1 {
		time.Sleep(10 * time.Minute)
		s.late.Store(ctx.Err() == nil)
	}
	if err := ctx.Err(); err != nil {
		return store.Receipt{}, err
	}
	return s.Chunks.Create(ctx, key, id, doc)
}

// A copy that stood still since it looked at the orders stores nothing: the sweep of one that came may have ended.
func TestCopyThatStoodStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		cfg := p.config()
		to := &standing{Chunks: cfg.To.Chunks}
		cfg.To.Chunks, cfg.Attempts = to, 3
		p.requireEqual(p.copy(cfg))
		require.False(t, to.late.Load())
	})
}

// A copy that can't read the control documents at its end fails, and does not crash.
func TestCopyThatFailsAtItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		isLast := false
		p.to.Documents.Fault = func(_, kind, _ string) *storetest.Fault {
			isLast = isLast || strings.HasPrefix(kind, tenant.KindAnnotations)
			if isLast && kind == tenant.Kind {
				return &storetest.Fault{Err: errors.New("busy")}
			}
			return nil
		}
		_, err := tenantcopy.New(p.config()).Run(t.Context())
		require.True(t, isLast)
		require.ErrorContains(t, err, "busy")
	})
}
