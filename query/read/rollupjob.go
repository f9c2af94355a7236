package read

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"golang.org/x/sync/errgroup"
)

// manyRaw is how many raw devices a scan names on a covered day. With more, all chunks of the day are read, which the
// next query finds in the cache.
const manyRaw = 64

// deviceDay is a device on a day.
type deviceDay struct {
	device string
	day    telemetry.Day
}

// rollupJob reads one first-level key in one container (rule V4). It is owned by one goroutine.
type rollupJob struct {
	*Query
	target  target
	days    []*rollupDay
	rollups []*Rollups
	pieces  []*Piece
	known   map[chunkRef]bool // pieces of covered days
	decoded int64             // bytes that rollups take
	date    int64             // s since 1970 UTC, by the service's clock: of the last scan of rollups; 0 is not known
}

// readRollups reads as gather does, but takes from rollups what they cover. The heads were read before; of each key the
// manifests come next, then the chunks that they do not know.
func (q *Query) readRollups(ctx context.Context, sink RollupSink) error {
	jobs := q.newRollupJobs()
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(q.r.cfg.Fanout)
	for _, j := range jobs {
		g.Go(func() error { return j.read(reading) })
	}
	err := g.Wait()
	if err == nil {
		err = q.checkRollups(ctx, jobs)
	}
	if err != nil {
		return err
	}
	q.noteDays(jobs)
	q.explainCovered(jobs)
	for _, j := range jobs {
		q.cost.add(Stats{RollupsSaved: j.saved()})
	}
	for _, j := range jobs {
		if err := j.deliver(sink); err != nil {
			return ended(err)
		}
	}
	return nil
}

// rollupsPay reports whether the request is answered from rollups as far as possible: there are some, and it asks for
// so many devices that their chunks would cost more.
func (q *Query) rollupsPay() bool {
	return q.req.Rollups != nil && q.r.cfg.Rollups != nil && q.req.AsOf == 0 &&
		(q.req.Devices == nil || len(q.req.Devices) > FewDevices)
}

// FewDevices is the most devices that are always read from their chunks: a day's rollups of one metric cost about as
// much as a day's chunks of so many devices.
const FewDevices = 16

// newRollupJobs returns the jobs of all keys. Devices with rows in heads are read raw.
func (q *Query) newRollupJobs() (jobs []*rollupJob) {
	for p := range q.plan.parts {
		for _, t := range firstLevel(p.targets) {
			jobs = append(jobs, q.newRollupJob(target{Visit: t.Visit}))
		}
	}
	for of := range q.inHeads {
		for _, key := range q.plan.tenant.Placement.Keys(of.device, of.day) {
			markRaw(jobs, key.TenantShard, of)
		}
	}
	return jobs
}

func (q *Query) newRollupJob(t target) *rollupJob {
	j := &rollupJob{Query: q, target: t, known: make(map[chunkRef]bool)}
	for day := telemetry.DayOf(t.Range.From); day.Start() < t.Range.To; day++ {
		if !q.plan.tenant.Placement.Uses(t.Key, day) {
			continue
		}
		d := &rollupDay{day: day, raw: make(map[string]bool)}
		d.asked = within(t.Range, telemetry.Range{From: day.Start(), To: day.End()})
		for _, device := range q.plan.tenant.Placement.Spread(day) {
			d.raw[device] = true
		}
		j.days = append(j.days, d)
	}
	return j
}

// markRaw marks a device as read raw on a day.
func markRaw(jobs []*rollupJob, shard string, of deviceDay) {
	for _, j := range jobs {
		if d := j.dayOf(of.day); d != nil && j.target.TenantShard == shard {
			d.raw[of.device] = true
		}
	}
}

// dayOf returns a day of the job, nil for another day.
func (j *rollupJob) dayOf(day telemetry.Day) *rollupDay {
	i, ok := slices.BinarySearchFunc(j.days, day, func(d *rollupDay, day telemetry.Day) int {
		return cmp.Compare(d.day, day)
	})
	if !ok {
		return nil
	}
	return j.days[i]
}

// read reads manifests, what they name, and chunks. What rollups do not cover is read before what was stored since: a
// read that sees a chunk there sees those before it in its chain as well.
func (j *rollupJob) read(ctx context.Context) error {
	if err := j.loadRollups(ctx); err != nil {
		return err
	}
	for r := range j.uncovered() {
		if err := j.readCached(ctx, j.target, r, j.take); err != nil {
			return err
		}
	}
	if err := j.readSince(ctx); err != nil {
		return err
	}
	return j.readRaw(ctx)
}

// uncovered returns the ranges that rollups do not cover, in the order of time.
func (j *rollupJob) uncovered() iter.Seq[telemetry.Range] {
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
func (j *rollupJob) take(p *Piece) error {
	d := j.dayOf(p.Chunk.Header.ID.Day)
	if d == nil || !j.asked(p.Device) {
		p.Release()
		return nil
	}
	if d.hasRollups() {
		id := chunkRef{p.Device, p.Chunk.Header.ID.String()}
		if j.known[id] {
			p.Release()
			return nil
		}
		j.known[id] = true
	}
	j.notes.noteExpiry(expiry(p))
	j.pieces = append(j.pieces, p)
	return nil
}

// readSince reads what was stored after the manifests, and marks its devices raw: one scan for many days.
func (j *rollupJob) readSince(ctx context.Context) error {
	for some := range slices.Chunk(j.windowsSince(), store.MaxScanWindows) {
		if j.foundNothingIn(some) {
			continue
		}
		found := 0
		if err := j.scanWindows(ctx, j.target, some, func(p *Piece) error {
			found++
			if d := j.dayOf(p.Chunk.Header.ID.Day); d != nil {
				d.raw[p.Device] = true
				d.since = append(d.since, fmt.Sprintf("%q %s %q", p.Device, p.Chunk.Header.ID, p.Chunk.ETag()))
			}
			return j.take(p)
		}); err != nil {
			return err
		}
		if found == 0 {
			j.noteNothingIn(some)
		}
	}
	return nil
}

// windowsSince returns what readSince asks for. Days that follow each other, with manifests of one moment, as after a
// rebuild, are one window: each window costs three conditions.
func (j *rollupJob) windowsSince() (out []store.Window) {
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
func (j *rollupJob) readRaw(ctx context.Context) error {
	var some []store.Window
	named := make(map[string]bool)
	for _, d := range j.days {
		maps.DeleteFunc(d.raw, func(device string, _ bool) bool { return !j.asked(device) })
		switch {
		case !d.hasRollups() || len(d.raw) == 0:
		case len(d.raw) > manyRaw:
			if err := j.readCached(ctx, j.target, d.asked, j.takeRaw); err != nil {
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
			t := target{j.target.Visit, devices}
			if err := j.scanWindows(ctx, t, windows, j.takeRaw); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeRaw keeps pieces of devices that are raw on their day.
func (j *rollupJob) takeRaw(p *Piece) error {
	if d := j.dayOf(p.Chunk.Header.ID.Day); d == nil || !d.raw[p.Device] {
		p.Release()
		return nil
	}
	return j.take(p)
}

// saved returns what the chunks of what rollups cover would have cost, by earlier reads.
func (j *rollupJob) saved() (rus float64) {
	found, ok := j.r.history.of(j.req.Tenant, j.target)
	covered := int64(0)
	for _, d := range j.days {
		covered += length(d.covered())
	}
	if !ok || covered == 0 {
		return 0
	}
	_, rus = found.over(float64(covered)/telemetry.DayMillis, j.target.seeks())
	return rus
}

// deliver hands everything on. The pieces of a device that is not raw leave out what rollups cover.
func (j *rollupJob) deliver(sink RollupSink) error {
	for _, p := range j.pieces {
		if d := j.dayOf(p.Chunk.Header.ID.Day); d.hasRollups() && !d.raw[p.Device] {
			p.Except = d.covered()
		}
		if err := j.Query.deliver(p); err != nil {
			return err
		}
	}
	for _, l := range j.rollups {
		j.hideRollups(l)
		if err := sink.AddRollups(l); err != nil {
			return err
		}
	}
	return nil
}

// checkRollups holds what was read of chunks against rule R4: all of the days of raw devices, and of others what
// rollups do not cover.
func (q *Query) checkRollups(ctx context.Context, jobs []*rollupJob) error {
	if q.plan.tenant.Placement == nil {
		return nil
	}
	on := func(device string, day telemetry.Day) (*rollupJob, *rollupDay) {
		shard := q.plan.tenant.Placement.Keys(device, day)[0].TenantShard
		for _, j := range jobs {
			if d := j.dayOf(day); d != nil && j.target.TenantShard == shard {
				return j, d
			}
		}
		return nil, nil
	}
	isRaw := func(d *rollupDay, device string) bool { return !d.hasRollups() || d.raw[device] }
	raw, rest := newChainCheck(make(tails)), make(map[*rollupDay]*chainCheck)
	watching := func(d *rollupDay, device string) *chainCheck {
		if isRaw(d, device) {
			return raw
		}
		if rest[d] == nil {
			rest[d] = newChainCheck(make(tails))
		}
		return rest[d]
	}
	for day, chains := range q.tails {
		for of, tail := range chains {
			if _, d := on(of.device, day); d != nil {
				watching(d, of.device).tails.add(of, day, tail)
			}
		}
	}
	for _, j := range jobs {
		for _, p := range j.pieces {
			id := p.Chunk.Header.ID
			watching(j.dayOf(id.Day), p.Device).add(p.Device, id)
		}
	}
	late := func(p *Piece) error {
		j, d := on(p.Device, p.Chunk.Header.ID.Day)
		if d == nil {
			p.Release()
			return nil
		}
		return j.take(p)
	}
	if err := q.checkChains(ctx, raw, q.req.Range, late); err != nil {
		return err
	}
	for _, d := range slices.SortedFunc(maps.Keys(rest), func(a, b *rollupDay) int { return cmp.Compare(a.day, b.day) }) {
		shown := d.covered()
		for _, r := range []telemetry.Range{{From: d.asked.From, To: shown.From}, {From: shown.To, To: d.asked.To}} {
			if r.Empty() {
				continue
			}
			if err := q.checkChains(ctx, rest[d], r, late); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadRollups decides what rollups cover and reads it. Where an old manifest names documents that are gone, manifests
// are read again; what is missing then is read from chunks.
func (j *rollupJob) loadRollups(ctx context.Context) error {
	for again := range 2 {
		manifests, err := j.manifests(ctx, again > 0)
		if err != nil {
			return err
		}
		for _, d := range j.days {
			d.from, d.to = 0, 0
			if l := manifests[d.day]; l != nil {
				d.cover(l, j.req.Rollups)
				j.erased.leaveOut(d)
			}
		}
		gone, err := j.documents(ctx)
		if err != nil || !gone {
			return err
		}
	}
	for _, d := range j.days {
		d.from, d.to = 0, 0
	}
	j.rollups = nil
	return nil
}
