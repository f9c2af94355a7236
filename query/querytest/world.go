// Package querytest builds, for tests of package query and of packages above it, a store with chunks, heads with open
// bins, a log and a catalog, all in memory and from readings with positions. It runs nothing.
package querytest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// Topic is the topic of all readings in a World.
const Topic = "telemetry"

// World is everything that a query reads from. Now may be set between calls.
type World struct {
	Now       time.Time
	Documents *storetest.Documents
	Directory *control.Directory
	Store     *storetest.Memory
	Rollups   *storetest.Rollups
	Catalog   *storetest.Catalog
	Heads     *Heads
	Log       *Log

	t      testing.TB
	chains map[chainOf]chunk.Header // each chain's last chunk
}

type chainOf struct {
	tenant, device string
	chain          store.Chain
}

// Record is a reading and the record that it came in.
type Record struct {
	Position telemetry.Position
	telemetry.Reading
}

// New makes an empty world.
func New(t testing.TB, now time.Time) *World {
	w := &World{
		Now: now, Documents: storetest.NewDocuments(t), Store: storetest.NewMemory(t), Rollups: storetest.NewRollups(t),
		Catalog: storetest.NewCatalog(t), Log: &Log{}, t: t, chains: make(map[chainOf]chunk.Header),
	}
	_, err := stream.NewStreams(w.Documents).Find(context.Background(), "c", Topic, 1)
	require.NoError(t, err)
	w.Store.Now = func() time.Time { return w.Now }
	w.Rollups.Now = w.Store.Now
	w.Directory = control.NewDirectory(control.DirectoryConfig{Documents: w.Documents,
		Now: func() time.Time { return w.Now }})
	w.Heads = &Heads{directory: w.Directory, tails: make(map[chainOf]store.Tail),
		stored:   store.HeadStored{Count: 1, Exact: 1},
		storedAt: make(map[chainOf]uint64), unknown: make(map[chainOf]store.Tail)}
	return w
}

// Tenant registers a tenant and returns it, with a placement as of now.
func (w *World) Tenant(name string) tenant.Tenant {
	w.t.Helper()
	v, err := w.Directory.Register(context.Background(), name)
	require.NoError(w.t, err)
	if !v.CanPlace(w.Now.UnixMilli()) {
		v, err = w.Directory.Refresh(context.Background())
		require.NoError(w.t, err)
	}
	tenant, ok := v.Tenant(name)
	require.True(w.t, ok)
	return tenant
}

// Chunk stores records as the next chunk of their chain and returns its id. They must be of one tenant, device, day,
// stream and partition, in the order of their offsets, and above the offsets of the chunk before.
func (w *World) Chunk(records ...Record) chunk.ID {
	w.t.Helper()
	first := records[0]
	day := telemetry.DayOf(first.Time)
	of := chainOf{first.Tenant, first.Device, store.Chain{Day: day, Stream: first.Position.Stream,
		Partition: first.Position.Partition}}
	h := chunk.Header{
		ID: chunk.ID{Day: day, Stream: of.chain.Stream, Partition: of.chain.Partition}, Device: first.Device,
		Cut: w.Now.UnixMilli(), Readings: len(records),
		First: first.Position.Offset, Through: records[len(records)-1].Position.Offset, After: -1,
	}
	if before, ok := w.chains[of]; ok {
		h.ID.Number, h.After = before.ID.Number+1, before.Through
	}
	tenant := w.Tenant(first.Tenant)
	h.TTL = tenant.TTLOf(h.Device, day, h.Cut)
	key := tenant.Placement.Key(first.Device, day, h.ID.Number)
	h.TenantShard = key.TenantShard
	require.NoError(w.t, w.Directory.AskMonth(context.Background(), key.Container, ""))
	w.Store.CreateContainer(key.Container)
	doc, err := chunk.Encode(h, FrameOf(records))
	require.NoError(w.t, err)
	_, err = w.Store.Create(context.Background(), key, h.ID.String(), doc)
	require.NoError(w.t, err)
	w.chains[of] = h
	// No chunk is stored of what the catalog does not say before long.
	w.Catalog.AddPage(first.Tenant, newBin(slices.Clone(records)).entry)
	parsed, err := chunk.Parse(doc)
	require.NoError(w.t, err)
	w.Heads.remember(of, store.Tail{Number: h.ID.Number, Through: h.Through, From: parsed.Header.From,
		To: parsed.Header.To})
	return h.ID
}

// FrameOf returns the records of one device as columns; of the values of one instant the last counts.
func FrameOf(records []Record) chunk.Frame {
	rows := rowsOf(records)
	return rows.Frame(telemetry.Range{To: telemetry.MaxMillis}, nil)
}

func rowsOf(records []Record) binning.Rows {
	var rows binning.Rows
	for _, r := range records {
		rows.Append(r.Position.Offset, r.Reading)
	}
	return rows
}

// Heads answers what the test has put into it, to each tenant its own, and the tails of chains.
type Heads struct {
	directory *control.Directory

	mu       sync.Mutex // guards below
	tails    map[chainOf]store.Tail
	heads    []*head
	err      error
	requests []store.HeadRequest
	hook     func()

	updates map[string][]catalog.Entry
	version uint64

	stored  store.HeadStored // Count and Exact
	forgets bool             // during the next answer
	// storedAt is, for each chain, the Count when its tail came.
	storedAt map[chainOf]uint64
	// unknown is, for each chain, the tail of chunks that heads do not know of.
	unknown map[chainOf]store.Tail
	unaware bool
}

type head struct {
	store.PartitionHead
	bins []bin
}

type bin struct {
	tenant, device string
	source         store.Source
	erased         int64 // through which nothing is answered; set by each answer
	rows           binning.Rows
	records        []Record
	entry          catalog.Entry // the catalog entry it gives its device
}

// Set adds a head for a partition of Topic, with one bin per tenant, device and day of the records.
func (h *Heads) Set(p store.PartitionHead, records ...Record) {
	added := newHead(p, records)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads = append(h.heads, added)
	h.version++
}

// SetOnly sets one head in place of all others.
func (h *Heads) SetOnly(p store.PartitionHead, records ...Record) {
	only := newHead(p, records)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads = []*head{only}
	h.version++
}

func newHead(p store.PartitionHead, records []Record) *head {
	p.Topic = Topic
	type of struct {
		tenant, device string
		day            telemetry.Day
	}
	var order []of
	bins := make(map[of][]Record)
	for _, r := range records {
		k := of{r.Tenant, r.Device, telemetry.DayOf(r.Time)}
		if bins[k] == nil {
			order = append(order, k)
		}
		bins[k] = append(bins[k], r)
	}
	made := &head{PartitionHead: p}
	for _, k := range order {
		made.bins = append(made.bins, newBin(bins[k]))
	}
	return made
}

func newBin(records []Record) bin {
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Position.Offset, b.Position.Offset) })
	last := records[len(records)-1]
	source := store.Source{Stream: last.Position.Stream, Partition: last.Position.Partition, Through: last.Position.Offset}
	b := bin{tenant: last.Tenant, device: last.Device, source: source, rows: rowsOf(records), records: records}
	b.entry = entryOf(b)
	return b
}

// AddBin adds one more bin of these records to the head set last: it overlaps others, as a new chunk does.
func (h *Heads) AddBin(records ...Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.heads[len(h.heads)-1]
	last.bins = append(last.bins, newBin(records))
	h.version++
}

func (h *Heads) remember(of chainOf, tail store.Tail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unaware {
		h.unknown[of] = tail
		return
	}
	h.tails[of] = tail
	h.stored.Count++
	h.storedAt[of] = h.stored.Count
}

// Unaware makes heads ignore the chunks that store stores, as if another process had stored them.
func (h *Heads) Unaware(store func()) {
	set := func(unaware bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unaware = unaware
	}
	set(true)
	defer set(false)
	store()
}

// IsUnaware reports whether heads do not know of the chunks that are stored now.
func (h *Heads) IsUnaware() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unaware
}

// Learn has heads know all that is stored.
func (h *Heads) Learn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for of, tail := range h.unknown {
		h.stored.Count++
		h.stored.Exact = h.stored.Count
		h.tails[of], h.storedAt[of] = tail, h.stored.Count
	}
	clear(h.unknown)
}

// Forget drops the tails of chains.
func (h *Heads) Forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget()
}

// ForgetDuringAnswer drops the tails of chains while the next answer is made, between its count and its tails.
func (h *Heads) ForgetDuringAnswer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgets = true
}

func (h *Heads) forget() {
	for of := range h.tails {
		h.stored.Exact = max(h.stored.Exact, h.storedAt[of])
	}
	clear(h.tails)
}

// Reset drops all heads.
func (h *Heads) Reset() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heads = nil
	h.version++
}

// Fail makes calls answer err in addition to the heads; nil ends it.
func (h *Heads) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// OnCall sets the function that runs at the beginning of each call, without a lock.
func (h *Heads) OnCall(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hook = f
}

// Requests returns the requests so far.
func (h *Heads) Requests() []store.HeadRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.requests)
}

// Heads implements store.Heads.
func (h *Heads) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	h.mu.Lock()
	hook := h.hook
	h.mu.Unlock()
	if hook != nil {
		hook()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests = append(h.requests, r)
	var out []store.PartitionHead
	for _, x := range h.heads {
		out = append(out, h.answer(x, r))
	}
	return out, h.err
}

// answer returns a head's answer; the caller holds mu.
func (h *Heads) answer(x *head, r store.HeadRequest) store.PartitionHead {
	p, bins := x.PartitionHead, slices.Clone(x.bins)
	p.Containers = h.directory.Snapshot().ContainersOf(r.Tenant, r.Range)
	asked := func(tenant, device string) bool {
		return tenant == r.Tenant && (r.Devices == nil || slices.Contains(r.Devices, device))
	}
	if !r.Bins {
		p.Owner = 0
	}
	if r.Stored && p.Owner != 0 {
		counts := h.stored
		if known := r.KnownStored(p.Owner); known >= counts.Exact {
			counts.Above = known
		}
		if h.forgets {
			h.forget()
			h.forgets, counts.Exact = false, h.stored.Exact
		}
		p.Stored = &counts
	}
	for of, tail := range h.tails {
		if of.chain.Stream == p.Stream && of.chain.Partition == p.Partition { // a head has read what it knows to be stored
			p.Position = max(p.Position, tail.Through+1)
		}
		if p.Stored != nil && h.storedAt[of] <= p.Stored.Above {
			continue
		}
		day := telemetry.Range{From: of.chain.Day.Start(), To: of.chain.Day.End()}
		ours := of.chain.Stream == p.Stream && of.chain.Partition == p.Partition && asked(of.tenant, of.device)
		if ours && day.From < r.Range.To && day.To > r.Range.From {
			p.Chains = append(p.Chains, store.HeadChain{Device: of.device, Day: of.chain.Day, Tail: tail})
		}
	}
	known := r.KnownBins(p.Owner)
	p.Rows = func(yield func(store.HeadRows, error) bool) {
		for _, b := range bins {
			if !asked(b.tenant, b.device) {
				continue
			}
			out := store.HeadRows{Device: b.device, Source: b.source, Above: -1}
			b.erased = r.ErasedThrough(b.device, telemetry.DayOf(b.records[0].Time), &p)
			if b.source.Through <= b.erased {
				continue
			}
			if p.Owner == 0 {
				rows := rowsOf(b.behind(b.erased))
				out.Frame = rows.Frame(r.Range, r.Metrics)
			} else if out = b.above(known, r, out); out.Day.Start() >= r.Range.To || out.Day.End() <= r.Range.From {
				continue
			}
			if (len(out.Frame.Groups) > 0 || p.Owner != 0) && !yield(out, nil) {
				return
			}
		}
	}
	return p
}

// above fills in what is not known of a bin.
func (b *bin) above(known map[store.HeadBin]int64, r store.HeadRequest, out store.HeadRows) store.HeadRows {
	out.Day, out.First = telemetry.DayOf(b.records[0].Time), b.records[0].Position.Offset
	if upto, ok := known[store.HeadBin{Device: b.device, Day: out.Day, First: out.First}]; ok && upto <= b.source.Through {
		out.Above = upto
	}
	rows := rowsOf(b.behind(max(out.Above, b.erased)))
	out.Frame = rows.Frame(r.Range, r.Metrics)
	return out
}

// behind returns the records with a higher offset.
func (b *bin) behind(offset int64) []Record {
	return slices.DeleteFunc(slices.Clone(b.records), func(x Record) bool { return x.Position.Offset <= offset })
}

// Devices implements store.Heads.
func (h *Heads) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []store.HeadDevice
	for _, x := range h.heads {
		for _, b := range x.bins {
			if b.tenant != r.Tenant || r.Devices != nil && !slices.Contains(r.Devices, b.device) {
				continue
			}
			d := store.HeadDevice{Device: b.device}
			d.First, d.Last = b.rows.Span()
			out = append(out, d)
		}
	}
	return out, h.err
}

// SetUpdates sets the catalog updates that heads have; none ends it.
func (h *Heads) SetUpdates(tenant string, entries ...catalog.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.updates == nil {
		h.updates = make(map[string][]catalog.Entry)
	}
	h.updates[tenant] = entries
	h.version++
}

// CatalogUpdates implements store.Heads: the devices that have bins, and the updates of the test.
func (h *Heads) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	if err := ctx.Err(); err != nil {
		return store.HeadUpdates{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	updates := store.HeadUpdates{Devices: slices.Clone(h.updates[tenant]), Version: h.version}
	for _, x := range h.heads {
		for _, b := range x.bins {
			if b.tenant == tenant {
				updates.Devices = append(updates.Devices, b.entry)
			}
		}
	}
	return updates, h.err
}

func entryOf(b bin) catalog.Entry {
	e := catalog.Entry{Device: b.device}
	e.First, e.Last = b.rows.Span()
	for _, g := range b.rows.Frame(telemetry.Range{To: telemetry.MaxMillis}, nil).Groups {
		e.Labels = append(e.Labels, g.Labels...)
		for i := range g.Columns {
			e.Metrics = append(e.Metrics, catalog.Metric{Name: g.Columns[i].Metric, Kind: g.Columns[i].Kind})
		}
	}
	e.Normalize()
	return e
}

// Log answers the ends that the test has set.
type Log struct {
	mu    sync.Mutex // guards below
	ends  []store.LogEnd
	err   error
	calls int
}

// Set gives the log partitions 0, 1, … of Topic, with these ends.
func (l *Log) Set(ends ...int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = nil
	for i, end := range ends {
		l.ends = append(l.ends, store.LogEnd{Topic: Topic, Partition: int32(i), End: end})
	}
}

// Fail makes calls fail with err; nil ends it.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// Calls returns how often the log was asked.
func (l *Log) Calls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// LogEnds implements store.Log.
func (l *Log) LogEnds(ctx context.Context) ([]store.LogEnd, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.err != nil {
		return nil, l.err
	}
	return slices.Clone(l.ends), ctx.Err()
}
