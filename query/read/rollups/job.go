package rollups

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/sharding"

	"golang.org/x/sync/errgroup"
)

// manyRaw is how many raw devices a scan names on a covered day. With more, all chunks of the day are read, which the
// next query finds in the cache.
const manyRaw = 64

// chunkRef names a chunk.
type chunkRef struct {
	device string
	id     chunk.ID
}

// job reads one first-level key in one container (rule V4). It is owned by one goroutine.
type job struct {
	*Query
	target  plan.Target
	days    []*dayRead
	rollups []*Rollups
	kept    map[string]any // documents by id, as the room has them
	pieces  []*piece.Piece
	known   map[chunkRef]bool // pieces of covered days
	held    int64             // bytes that rollups take
	date    int64             // s since 1970 UTC, by the service's clock: of the last scan of rollups; 0 is not known
}

// Read reads as chunks.Query.Gather does, but takes from rollups what they cover. The heads were read before; for
// each key the manifests come next, then the chunks that they do not know.
func (q *Query) Read(ctx context.Context) error {
	jobs := q.jobs()
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(q.r.cfg.Fanout)
	for _, j := range jobs {
		g.Go(func() error { return j.read(reading) })
	}
	err := g.Wait()
	if err == nil {
		err = q.check(ctx, jobs)
	}
	if err != nil {
		return err
	}
	q.noteDays(jobs)
	for _, j := range jobs {
		if err := j.deliver(); err != nil {
			return piece.Ended(err)
		}
	}
	return nil
}

// jobs returns the jobs of all keys. Devices with rows in heads are read raw.
func (q *Query) jobs() (jobs []*job) {
	for p := range q.View.Parts {
		for _, t := range plan.FirstLevel(p.Targets) {
			jobs = append(jobs, q.newJob(plan.Target{Visit: t.Visit}))
		}
	}
	for of := range q.inHeads() {
		for _, key := range q.View.Tenant.Placement.Keys(of.device, of.day) {
			for _, j := range jobs {
				if d := j.dayOf(of.day); d != nil && j.target.TenantShard == key.TenantShard {
					d.raw[of.device] = true
				}
			}
		}
	}
	return jobs
}

// inHeads returns the devices and days with rows of heads in the range.
func (q *Query) inHeads() map[deviceDay]bool {
	out := make(map[deviceDay]bool)
	for _, p := range q.Heads.Pieces {
		if p.From < q.Request.Range.To && p.To >= q.Request.Range.From {
			for day := telemetry.DayOf(p.From); day <= telemetry.DayOf(p.To); day++ {
				out[deviceDay{p.Device, day}] = true
			}
		}
	}
	return out
}

func (q *Query) newJob(t plan.Target) *job {
	j := &job{Query: q, target: t, kept: make(map[string]any), known: make(map[chunkRef]bool)}
	for day := telemetry.DayOf(t.Range.From); day.Start() < t.Range.To; day++ {
		if !q.View.Tenant.Placement.Uses(t.Key, day) {
			continue
		}
		d := &dayRead{day: day, raw: make(map[string]bool)}
		d.asked = piece.Within(t.Range, telemetry.Range{From: day.Start(), To: day.End()})
		for _, device := range q.View.Tenant.Placement.Spread(day) {
			d.raw[device] = true
		}
		j.days = append(j.days, d)
	}
	return j
}

// dayOf returns a day of the job, nil for another day.
func (j *job) dayOf(day telemetry.Day) *dayRead {
	i, ok := slices.BinarySearchFunc(j.days, day, func(d *dayRead, day telemetry.Day) int {
		return cmp.Compare(d.day, day)
	})
	if !ok {
		return nil
	}
	return j.days[i]
}

// read reads manifests, their documents, and chunks. It reads uncovered ranges before newer chunks of covered ones: a
// read that sees a chunk there sees those before it in its chain as well.
func (j *job) read(ctx context.Context) error {
	if err := j.load(ctx); err != nil {
		return err
	}
	for r := range j.uncovered() {
		if err := j.Query.Query.Read(ctx, j.target, r, j.take); err != nil {
			return err
		}
	}
	if err := j.readSince(ctx); err != nil {
		return err
	}
	return j.readRaw(ctx)
}

// uncovered returns the ranges that rollups do not cover, in the order of time.
func (j *job) uncovered() iter.Seq[telemetry.Range] {
	return func(yield func(telemetry.Range) bool) {
		var open telemetry.Range
		for i, d := range j.days {
			if i > 0 && !open.Empty() && open.To == j.days[i-1].asked.To {
				open.To = d.asked.From // over days on which the key is not in use
			}
			shown := d.covered()
			for _, r := range []telemetry.Range{{From: d.asked.From, To: shown.From}, {From: shown.To, To: d.asked.To}} {
				switch {
				case r.Empty():
				case open.To == r.From:
					open.To = r.To
				case !open.Empty() && !yield(open):
					return
				default:
					open = r
				}
			}
		}
		if !open.Empty() {
			yield(open)
		}
	}
}

// take keeps a piece of a device that is asked for, once.
func (j *job) take(p *piece.Piece) error {
	d := j.dayOf(p.Chunk.Header.ID.Day)
	if d == nil || !j.Request.Asks(p.Device) {
		p.Release()
		return nil
	}
	if d.hasRollups() {
		id := chunkRef{p.Device, p.Chunk.Header.ID}
		if j.known[id] {
			p.Release()
			return nil
		}
		j.known[id] = true
	}
	j.Expire(chunks.Expiry(p.Chunk))
	j.pieces = append(j.pieces, p)
	return nil
}

// readSince reads the chunks stored after the manifests, and marks its devices raw: one scan for many days.
func (j *job) readSince(ctx context.Context) error {
	for some := range slices.Chunk(j.windowsSince(), store.MaxScanWindows) {
		if err := j.ScanNew(ctx, j.target, some, func(p *piece.Piece) error {
			if d := j.dayOf(p.Chunk.Header.ID.Day); d != nil {
				d.raw[p.Device] = true
				d.since = append(d.since, fmt.Sprintf("%q %s %q", p.Device, p.Chunk.Header.ID, p.Chunk.ETag()))
			}
			return j.take(p)
		}); err != nil {
			return err
		}
	}
	return nil
}

// windowsSince returns what readSince asks for. Days that follow each other, with manifests of one moment, as after a
// rebuild, are one window: each window costs three conditions.
func (j *job) windowsSince() (out []store.Window) {
	for _, d := range j.days {
		if !d.hasRollups() {
			continue
		}
		w := store.Window{Range: d.asked, Since: d.manifest.AsOf}
		if last := len(out) - 1; last >= 0 && out[last].Since == w.Since && out[last].To == w.From {
			out[last].To = w.To
			continue
		}
		out = append(out, w)
	}
	return out
}

// readRaw reads the covered days of devices that are raw there.
func (j *job) readRaw(ctx context.Context) error {
	var some []store.Window
	named := make(map[string]bool)
	for _, d := range j.days {
		maps.DeleteFunc(d.raw, func(device string, _ bool) bool { return !j.Request.Asks(device) })
		switch {
		case !d.hasRollups() || len(d.raw) == 0:
		case len(d.raw) > manyRaw:
			if err := j.Query.Query.Read(ctx, j.target, d.asked, j.takeRaw); err != nil {
				return err
			}
		default:
			some = append(some, store.Window{Range: d.asked})
			maps.Copy(named, d.raw)
		}
	}
	if len(some) == 0 {
		return nil
	}
	for devices := range slices.Chunk(slices.Sorted(maps.Keys(named)), store.MaxScanDevices) {
		for windows := range slices.Chunk(some, store.MaxScanWindows) {
			t := plan.Target{Visit: j.target.Visit, Devices: devices}
			if err := j.ScanNew(ctx, t, windows, j.takeRaw); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeRaw keeps pieces of devices that are raw on their day.
func (j *job) takeRaw(p *piece.Piece) error {
	if d := j.dayOf(p.Chunk.Header.ID.Day); d == nil || !d.raw[p.Device] {
		p.Release()
		return nil
	}
	return j.take(p)
}

// deliver hands everything on. The pieces of a device that is not raw leave out what rollups cover.
func (j *job) deliver() error {
	for _, p := range j.pieces {
		if d := j.dayOf(p.Chunk.Header.ID.Day); d.hasRollups() && !d.raw[p.Device] {
			p.Except = d.covered()
		}
		if err := j.Deliver(p); err != nil {
			return err
		}
	}
	for _, l := range j.rollups {
		j.hide(l)
		if err := j.Sink.(Sink).AddRollups(l); err != nil {
			return err
		}
	}
	return nil
}

// check holds the chunks against rule R4: all chunks on days of raw devices, and otherwise the chunks of uncovered
// ranges.
func (q *Query) check(ctx context.Context, jobs []*job) error {
	if q.View.Tenant.Placement == nil {
		return nil
	}
	on := func(device string, day telemetry.Day) (*job, *dayRead) {
		shard := q.View.Tenant.Placement.Keys(device, day)[0].TenantShard
		for _, j := range jobs {
			if d := j.dayOf(day); d != nil && j.target.TenantShard == shard {
				return j, d
			}
		}
		return nil, nil
	}
	isRaw := func(d *dayRead, device string) bool { return !d.hasRollups() || d.raw[device] }
	raw, rest := chunks.NewChainCheck(make(heads.Tails)), make(map[*dayRead]*chunks.ChainCheck)
	watching := func(d *dayRead, device string) *chunks.ChainCheck {
		if isRaw(d, device) {
			return raw
		}
		if rest[d] == nil {
			rest[d] = chunks.NewChainCheck(make(heads.Tails))
		}
		return rest[d]
	}
	for day, chains := range q.Tails() {
		for of, tail := range chains {
			if _, d := on(of.Device, day); d != nil {
				watching(d, of.Device).ExpectTail(of, day, tail)
			}
		}
	}
	for _, j := range jobs {
		for _, p := range j.pieces {
			id := p.Chunk.Header.ID
			watching(j.dayOf(id.Day), p.Device).Add(p.Device, id)
		}
	}
	late := func(p *piece.Piece) error {
		j, d := on(p.Device, p.Chunk.Header.ID.Day)
		if d == nil {
			p.Release()
			return nil
		}
		return j.take(p)
	}
	if err := q.Check(ctx, raw, q.Request.Range, late); err != nil {
		return err
	}
	for _, d := range slices.SortedFunc(maps.Keys(rest), func(a, b *dayRead) int { return cmp.Compare(a.day, b.day) }) {
		shown := d.covered()
		for _, r := range []telemetry.Range{{From: d.asked.From, To: shown.From}, {From: shown.To, To: d.asked.To}} {
			if r.Empty() {
				continue
			}
			if err := q.Check(ctx, rest[d], r, late); err != nil {
				return err
			}
		}
	}
	return nil
}

// Estimate estimates a read. Known manifests name the documents that it needs, and some of these may be known too. A
// day without a known manifest counts with the price of asking for it.
func (q *Query) Estimate() (e piece.Estimate) {
	for _, j := range q.jobs() {
		j.estimateDocuments(&e)
		for r := range j.uncovered() {
			j.EstimateRead(&e, j.target, r)
		}
		for windows := len(j.windowsSince()); windows > 0; windows -= store.MaxScanWindows { // for newer chunks
			j.EstimateSeeks(&e, 1+3*min(windows, store.MaxScanWindows))
		}
		j.estimateRaw(&e)
	}
	return e
}

// estimateDocuments adds manifests and rollup documents, and covers the days of known manifests.
func (j *job) estimateDocuments(e *piece.Estimate) {
	unknown, lacking, seen := 0, 0, make(map[string]bool)
	for _, d := range j.days {
		key := manifestKey{sharding.RollupsContainer(j.target.Container), j.target.TenantShard, d.day}
		v, known := j.r.cfg.Room.Get(key, manifestsAge)
		if l, _ := v.(*manifest); l != nil {
			d.cover(l, j.Request.Rollups)
		} else if !known {
			unknown++
		}
	}
	j.refs(func(_ *dayRead, ref rollup.Ref, _ string) {
		if _, known := j.r.cfg.Room.Get(j.keyOf(ref), forever); !known && !seen[ref.ID] {
			lacking++
		}
		seen[ref.ID] = true
	})
	each, ok := j.r.costs(j.Request.Tenant)
	if n := unknown + lacking; n > 0 {
		j.EstimateSeeks(e, rollupSeeks)
		e.RequestUnits, e.Guessed = e.RequestUnits+float64(n)*each, e.Guessed || unknown > 0 || !ok
	}
}

// estimateRaw adds the chunks of devices that are raw on covered days.
func (j *job) estimateRaw(e *piece.Estimate) {
	named, days := make(map[string]bool), 0.0
	for _, d := range j.days {
		switch {
		case !d.hasRollups() || len(d.raw) == 0:
		case len(d.raw) > manyRaw:
			j.EstimateRead(e, j.target, d.asked)
		default:
			days += j.DaysOf(d.asked)
			for device := range d.raw {
				if j.Request.Asks(device) {
					named[device] = true
				}
			}
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(named)), store.MaxScanDevices) {
		j.EstimateScan(e, plan.Target{Visit: j.target.Visit, Devices: some}, days)
	}
}
