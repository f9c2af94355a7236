package rollups_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

const (
	day    = telemetry.Day(20777) // 2026-11-20
	margin = 12 * time.Second
	lagged = 4 * time.Second // replicas, at most
	skewed = 4 * time.Second // clocks, at most
)

// world is a tenant's chunks of a day, a store with replicas that lag and clocks that differ, and what was stored when.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	now     time.Time
	chunks  *storetest.Memory
	rollups *storetest.Rollups
	tenant  tenant.Tenant
	stored  []record
	chains  map[string]uint32
	names   int
	calm    bool // nothing lags
	erased  map[string]time.Time
	docs    *storetest.Documents // with orders of erasure
}

// record is a chunk as it was stored.
type record struct {
	device  string
	key     sharding.Key
	id      chunk.ID
	source  store.Source
	frame   chunk.Frame
	at      time.Time
	expires int64 // s since 1970, 0 never
	gone    time.Time
}

func newWorld(t *testing.T, rnd *rand.Rand) *world {
	w := &world{t: t, rnd: rnd, now: time.UnixMilli(day.Start()).Add(3 * time.Hour), chains: make(map[string]uint32),
		erased: make(map[string]time.Time), docs: storetest.NewDocuments(t)}
	clock := func() time.Time { return w.now }
	w.chunks = storetest.NewMemory(t, "chunks-2026-11")
	w.rollups = storetest.NewRollups(t, "rollups-2026-11")
	w.chunks.Now, w.rollups.Now, w.chunks.Expiry = clock, clock, true
	w.chunks.Behind, w.rollups.Behind = w.upTo(lagged), w.upTo(lagged)
	w.chunks.Skew = w.upTo(skewed)
	e := sharding.FirstEpoch("acme", 2)
	e.Heavy = map[string][]sharding.Slot{"heavy": sharding.Spread("heavy", 2)}
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{e})
	require.NoError(t, err)
	w.tenant = tenant.Tenant{Name: "acme", Placement: p}
	return w
}

func (w *world) upTo(most time.Duration) func() time.Duration {
	return func() time.Duration {
		if w.calm {
			return 0
		}
		return time.Duration(w.rnd.Int64N(int64(most/time.Second)+1)) * time.Second
	}
}

var devices = []string{"m1", "m2", "m3", "heavy"}

// store stores a chunk of a device, somewhere in the day so far.
func (w *world) store() {
	device := devices[w.rnd.IntN(len(devices))]
	if _, erased := w.erased[device]; erased {
		return
	}
	source := store.Source{Stream: 1, Partition: w.rnd.Int32N(2)}
	chain := fmt.Sprint(device, source.Partition)
	n := w.chains[chain]
	w.chains[chain]++
	source.Through = int64(n)*10 + 9
	r := record{device: device, source: source, frame: w.frame(), at: w.now,
		id: chunk.ID{Day: day, Stream: source.Stream, Partition: source.Partition, Number: n}}
	r.key = w.tenant.Placement.Key(device, day, n)
	h := chunk.Header{ID: r.id, TenantShard: r.key.TenantShard, Device: device, Readings: 1, First: int64(n) * 10,
		Through: source.Through, After: int64(n)*10 - 1, Cut: w.now.UnixMilli()}
	if w.rnd.IntN(4) == 0 {
		h.TTL = 20 + w.rnd.IntN(4*3600)
	}
	doc, err := chunk.Encode(h, r.frame)
	require.NoError(w.t, err)
	_, err = w.chunks.Create(w.t.Context(), r.key, r.id.String(), doc)
	require.NoError(w.t, err)
	if h.TTL > 0 {
		r.expires = w.stamp(r) + int64(h.TTL)
	}
	w.stored = append(w.stored, r)
	w.now = w.now.Add(time.Millisecond) // no two chunks come at one moment
}

// stamp is the _ts of a chunk.
func (w *world) stamp(r record) (at int64) {
	calm := w.calm
	w.calm = true
	defer func() { w.calm = calm }()
	all := telemetry.Range{From: 0, To: telemetry.MaxMillis}
	_, err := w.chunks.Scan(w.t.Context(), store.Scan{Key: r.key, Range: all},
		func(doc []byte) error {
			c, err := chunk.Parse(doc)
			if err == nil && c.Header.ID == r.id {
				at = c.Stored()
			}
			return err
		})
	require.NoError(w.t, err)
	return at
}

// frame is a few rows of the day so far, with corrections of others, at minutes' ends and at midnight.
func (w *world) frame() chunk.Frame {
	hours := int(min(w.now.Sub(time.UnixMilli(day.Start()))/time.Hour+1, 24))
	from := w.rnd.IntN(hours)
	var g chunk.Group
	if w.rnd.IntN(4) == 0 {
		g.Labels = telemetry.Labels{{Name: "wheel", Value: "left"}}
	}
	at := day.Start() + int64(from)*3_600_000
	for range 1 + w.rnd.IntN(5) {
		if at < day.End() {
			g.Times = append(g.Times, at)
		}
		at += []int64{1, 30_000, 60_000, 1_200_000, 3_600_000}[w.rnd.IntN(5)]
	}
	for _, metric := range []string{"odometer", "velocity", "weight"}[:1+w.rnd.IntN(3)] {
		c := chunk.Column{Metric: metric, Kind: telemetry.Int}
		for range g.Times {
			c.Bits = append(c.Bits, uint64(w.rnd.IntN(1000)))
		}
		g.Columns = append(g.Columns, c)
	}
	return chunk.Frame{Groups: []chunk.Group{g}}
}

// visible is the chunks of a device that a replica shows which has come to a moment, at another one.
func (w *world) visible(device string, replica, now time.Time) (out []record) {
	for _, r := range w.stored {
		if r.device == device && !r.at.After(replica) && (r.expires == 0 || now.Unix() < r.expires) &&
			(r.gone.IsZero() || now.Before(r.gone)) {
			out = append(out, r)
		}
	}
	return out
}

// answer is the result for a device: per series and bucket all that its rollups would say.
type answer map[string]string

// raw is the answer that chunks give, over some hours.
func raw(records []record, from, to int, families func(metric string) rollup.Families) answer {
	sourced(records)
	frames := make([]chunk.Frame, len(records))
	for i := range records {
		frames[i] = records[i].frame
	}
	out := answer{}
	merged := rollup.Merge(frames, nil)
	for i := range merged {
		s := &merged[i]
		kept := families(s.Metric)
		if kept == nil {
			continue
		}
		t := rollup.NewTable(1, (to-from)*60, rollup.AllFamilies)
		at0, _ := s.Fill(t, 0, day, from, to)
		out.add(fmt.Sprint(s.Labels, s.Metric), t, 0, at0, kept)
	}
	return out
}

// sourced sorts records by source.
func sourced(records []record) []record {
	slices.SortFunc(records, func(a, b record) int { return a.source.Compare(b.source) })
	return records
}

// add adds a row of a table of minutes, and the half hours that it makes.
func (a answer) add(series string, t *rollup.Table, row int, at0 rollup.Sample, families rollup.Families) {
	if at0.Present {
		a[series+" at 0"] = fmt.Sprint(at0.V)
	}
	for k := range t.Buckets {
		b := t.Get(row, k, int64(k+1)*60_000)
		if !b.Empty() {
			a[fmt.Sprint(series, " ", k)] = show(b, families)
		}
	}
}

func show(b rollup.Bucket, families rollup.Families) string {
	out := fmt.Sprint(b.N, b.Stale, b.LastT, b.Last)
	if families.Has(rollup.First) {
		out += fmt.Sprint(" ", b.FirstT, b.First, b.Resets)
	}
	return out + fmt.Sprint(" ", b.Min, b.Max, b.Hi, b.Lo)
}

// actor does something in steps: before each request it waits for its turn, and learns whether it dies then.
type actor struct {
	w       *world
	at      chan struct{}
	turn    chan verdict
	done    chan struct{}
	dead    bool
	running bool
	result  func()
}

type verdict int

const (
	goOn verdict = iota
	dieBefore
	dieAfter // the request is done, and nobody learns of it
)

var errDead = errors.New("the process has died")

// start begins something, up to its first request.
func (a *actor) start(run func(ctx context.Context) func()) {
	a.at, a.turn, a.done = make(chan struct{}), make(chan verdict), make(chan struct{})
	a.dead, a.running = false, true
	go func() {
		a.result = run(a.w.t.Context())
		close(a.done)
	}()
	a.wait()
}

// step lets it do its next request.
func (a *actor) step(v verdict) {
	a.turn <- v
	a.wait()
}

// wait waits for the next request, or the end.
func (a *actor) wait() {
	select {
	case <-a.at:
	case <-a.done:
		a.running = false
		if a.result != nil && !a.dead {
			a.result()
		}
	}
}

// gate is called before each request; after is called behind it.
func (a *actor) gate() (after func(error) error, err error) {
	if a.dead {
		return nil, errDead
	}
	a.at <- struct{}{}
	v := <-a.turn
	a.dead = v != goOn
	if v == dieBefore {
		return nil, errDead
	}
	return func(err error) error {
		if v == dieAfter {
			return errDead
		}
		return err
	}, nil
}

// Scan is store.Reader in turns.
func (a *actor) Scan(ctx context.Context, s store.Scan, yield func([]byte) error) (store.Usage, error) {
	after, err := a.gate()
	if err != nil {
		return store.Usage{}, err
	}
	u, err := a.w.chunks.Scan(ctx, s, yield)
	return u, after(err)
}

// ReadRollup is store.RollupReader in turns.
func (a *actor) ReadRollup(ctx context.Context, k store.RollupKey, id string) (store.Rollup, time.Time, store.Receipt,
	error) {
	after, err := a.gate()
	if err != nil {
		return store.Rollup{}, time.Time{}, store.Receipt{}, err
	}
	v, now, r, err := a.w.rollups.ReadRollup(ctx, k, id)
	return v, now, r, after(err)
}

// ScanRollups is store.RollupReader in turns.
func (a *actor) ScanRollups(ctx context.Context, s store.RollupScan, yield func([]byte) error) (store.Usage, error) {
	after, err := a.gate()
	if err != nil {
		return store.Usage{}, err
	}
	u, err := a.w.rollups.ScanRollups(ctx, s, yield)
	return u, after(err)
}

func (a *actor) write(do func() (store.Receipt, error)) (store.Receipt, error) {
	after, err := a.gate()
	if err != nil {
		return store.Receipt{}, err
	}
	r, err := do()
	return r, after(err)
}

// CreateRollup is store.RollupWriter in turns.
func (a *actor) CreateRollup(ctx context.Context, k store.RollupKey, id string, doc []byte) (store.Receipt, error) {
	return a.write(func() (store.Receipt, error) { return a.w.rollups.CreateRollup(ctx, k, id, doc) })
}

// ReplaceRollup is store.RollupWriter in turns.
func (a *actor) ReplaceRollup(ctx context.Context, k store.RollupKey, id, etag string, doc []byte) (store.Receipt,
	error) {
	return a.write(func() (store.Receipt, error) { return a.w.rollups.ReplaceRollup(ctx, k, id, etag, doc) })
}

// DeleteRollup is store.RollupWriter in turns.
func (a *actor) DeleteRollup(ctx context.Context, k store.RollupKey, id string) (store.Receipt, error) {
	return a.write(func() (store.Receipt, error) { return a.w.rollups.DeleteRollup(ctx, k, id) })
}

// writer is a rollups.Writer in turns.
func (a *actor) writer() *rollups.Writer {
	w, err := rollups.New(rollups.Config{
		Chunks: a, Rollups: a, Tenants: func() []tenant.Tenant { return []tenant.Tenant{a.w.tenant} },
		Now: func() time.Time { return a.w.now }, Margin: margin, Hold: time.Nanosecond, MaxMetrics: 2,
		First: []string{"velocity"}, RebuildDevices: []int{2, 2, 9}[a.w.rnd.IntN(3)],
		Name:  func() string { a.w.names++; return fmt.Sprintf("b%d", a.w.names) },
		Sleep: func(context.Context, time.Duration) error { return nil },
		Erasures: func(ctx context.Context, tenant string) (erasure.List, error) {
			v, err := control.NewDirectory(control.DirectoryConfig{Documents: a.w.docs}).Refresh(ctx)
			if err != nil {
				return nil, err
			}
			return v.Erasures(tenant), nil
		},
	})
	require.NoError(a.w.t, err)
	return w
}

// moments are those from one to another at which something may be different.
func (w *world) moments(from, to time.Time) (out []time.Time) {
	out = append(out, from, to)
	for _, r := range w.stored {
		for _, at := range []time.Time{r.at, time.Unix(r.expires, 0), r.gone} {
			if !at.Before(from) && !at.After(to) {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, func(a, b time.Time) int { return cmp.Compare(a.UnixNano(), b.UnixNano()) })
	return out
}
