package read

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"golang.org/x/sync/errgroup"
)

// manyRaw is how many devices are asked for by name on a day that lanes show: with more all chunks of the day are read,
// which the next query finds known.
const manyRaw = 64

// deviceDay is a device on a day.
type deviceDay struct {
	device string
	day    telemetry.Day
}

// laneJob reads one first-level key in one container: rule V4. It is owned by one goroutine.
type laneJob struct {
	*Query
	target  target
	days    []*laneDay
	shown   []*Lanes
	pieces  []*Piece
	known   map[storedID]bool // pieces of days that lanes show
	decoded int64             // bytes that lanes take
}

// laned reads the way that gather does, but takes from lanes what they show. Heads were read before; of each key
// ledgers come next, and chunks that they do not know of after them.
func (q *Query) laned(ctx context.Context, sink LaneSink) error {
	jobs := q.laneJobs()
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(q.r.cfg.Fanout)
	for _, j := range jobs {
		g.Go(func() error { return j.read(reading) })
	}
	err := g.Wait()
	if err == nil {
		err = q.checkLaned(ctx, jobs)
	}
	if err != nil {
		return err
	}
	q.explainShown(jobs)
	for _, j := range jobs {
		q.tally.save(j.saved())
	}
	for _, j := range jobs {
		if err := j.deliver(sink); err != nil {
			return ended(err)
		}
	}
	return nil
}

// lanesPay reports whether a request is answered from lanes where they can: there are some, and its devices are not so
// few that their chunks cost less.
func (q *Query) lanesPay() bool {
	return q.req.Lanes != nil && q.r.cfg.Lanes != nil && q.req.AsOf == 0 &&
		(q.req.Devices == nil || len(q.req.Devices) > FewDevices)
}

// FewDevices is how many are read from their chunks in any case: a day's lanes of one metric cost about as much as a
// day's chunks of so many devices.
const FewDevices = 16

// keys is the parts of the plan by first-level keys, without those that none of the devices asked for is in.
func (q *Query) keys() iter.Seq[part] {
	of := q.req
	of.Devices = nil
	return func(yield func(part) bool) {
		for p := range q.r.parts(q.plan.view, q.plan.tenant, of) {
			p.targets = slices.DeleteFunc(p.targets, func(t target) bool {
				return q.req.Devices != nil && !slices.ContainsFunc(q.req.Devices, func(device string) bool {
					return slices.ContainsFunc(q.plan.tenant.Placement.Keys(device, telemetry.DayOf(p.From)),
						func(k sharding.Key) bool { return k.TenantShard == t.TenantShard })
				})
			})
			if !yield(p) {
				return
			}
		}
	}
}

// laneJobs is the jobs of all keys. Devices of which heads hold rows are read raw.
func (q *Query) laneJobs() (jobs []*laneJob) {
	for p := range q.keys() {
		for _, t := range p.targets {
			jobs = append(jobs, q.laneJob(t, p.Range))
		}
	}
	for of := range q.held {
		for _, key := range q.plan.tenant.Placement.Keys(of.device, of.day) {
			mark(jobs, key.TenantShard, of)
		}
	}
	return jobs
}

func (q *Query) laneJob(t target, r telemetry.Range) *laneJob {
	j := &laneJob{Query: q, target: t, known: make(map[storedID]bool)}
	for day := telemetry.DayOf(r.From); day.Start() < r.To; day++ {
		d := &laneDay{day: day, raw: make(map[string]bool)}
		d.asked = telemetry.Range{From: max(r.From, day.Start()), To: min(r.To, day.End())}
		for _, device := range q.plan.tenant.Placement.Spread(day) {
			d.raw[device] = true
		}
		j.days = append(j.days, d)
	}
	return j
}

// mark has a device read raw on a day.
func mark(jobs []*laneJob, shard string, of deviceDay) {
	for _, j := range jobs {
		if d := j.on(of.day); d != nil && j.target.TenantShard == shard {
			d.raw[of.device] = true
		}
	}
}

// on is a day of the job, nil for one that it has not.
func (j *laneJob) on(day telemetry.Day) *laneDay {
	if i := int(day - j.days[0].day); i >= 0 && i < len(j.days) {
		return j.days[i]
	}
	return nil
}

// read reads ledgers, what they name, and chunks. What lanes do not show is read before what was stored since: who sees
// a chunk there sees those before it in its chain as well.
func (j *laneJob) read(ctx context.Context) error {
	if err := j.loadLanes(ctx); err != nil {
		return err
	}
	for r := range j.unshown() {
		if err := j.cached(ctx, j.target, r, j.take); err != nil {
			return err
		}
	}
	if err := j.since(ctx); err != nil {
		return err
	}
	return j.readRaw(ctx)
}

// unshown is the ranges that lanes do not show, in the order of time.
func (j *laneJob) unshown() iter.Seq[telemetry.Range] {
	return func(yield func(telemetry.Range) bool) {
		var open telemetry.Range
		for _, d := range j.days {
			shown := d.shown()
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
func (j *laneJob) take(p *Piece) error {
	d := j.on(p.Chunk.Header.ID.Day)
	if d == nil || !j.asked(p.Device) {
		p.Release()
		return nil
	}
	if d.laned() {
		id := storedID{p.Device, p.Chunk.Header.ID.String()}
		if j.known[id] {
			p.Release()
			return nil
		}
		j.known[id] = true
	}
	j.pieces = append(j.pieces, p)
	return nil
}

// since reads what was stored after what lanes show, and marks its devices: one scan for many days.
func (j *laneJob) since(ctx context.Context) error {
	var windows []store.Window
	for _, d := range j.days {
		if d.laned() {
			windows = append(windows, store.Window{Range: d.asked, Since: d.ledger.AsOf})
		}
	}
	for some := range slices.Chunk(windows, store.MaxScanWindows) {
		if err := j.scanWindows(ctx, j.target, some, func(p *Piece) error {
			if d := j.on(p.Chunk.Header.ID.Day); d != nil {
				d.raw[p.Device] = true
			}
			return j.take(p)
		}); err != nil {
			return err
		}
	}
	return nil
}

// readRaw reads all of the days of devices that are read raw on days that lanes show.
func (j *laneJob) readRaw(ctx context.Context) error {
	var some []store.Window
	named := make(map[string]bool)
	for _, d := range j.days {
		maps.DeleteFunc(d.raw, func(device string, _ bool) bool { return !j.asked(device) })
		switch {
		case !d.laned() || len(d.raw) == 0:
		case len(d.raw) > manyRaw:
			if err := j.cached(ctx, j.target, d.asked, j.takeRaw); err != nil {
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
			t := target{j.target.Key, devices}
			if err := j.scanWindows(ctx, t, windows, j.takeRaw); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeRaw keeps pieces of devices that are read raw on their day.
func (j *laneJob) takeRaw(p *Piece) error {
	if d := j.on(p.Chunk.Header.ID.Day); d == nil || !d.raw[p.Device] {
		p.Release()
		return nil
	}
	return j.take(p)
}

// saved is what the chunks of what lanes show would have cost, as far as earlier reads tell.
func (j *laneJob) saved() (rus float64) {
	found, _ := j.r.pace.of(j.req.Tenant, j.target)
	for _, d := range j.days {
		rus += found.documents * found.rus * float64(length(d.shown())) / telemetry.DayMillis
	}
	return rus
}

// deliver hands all on. Of a device that lanes show a piece has what they don't.
func (j *laneJob) deliver(sink LaneSink) error {
	for _, p := range j.pieces {
		if d := j.on(p.Chunk.Header.ID.Day); d.laned() && !d.raw[p.Device] {
			p.Except = d.shown()
		}
		if err := sink.Add(p); err != nil {
			return err
		}
	}
	for _, l := range j.shown {
		if err := sink.Show(l); err != nil {
			return err
		}
	}
	return nil
}

// checkLaned holds what was read of chunks against rule R4: days of devices that were read from them, and of the others
// what lanes did not show.
func (q *Query) checkLaned(ctx context.Context, jobs []*laneJob) error {
	if q.plan.tenant.Placement == nil {
		return nil
	}
	on := func(device string, day telemetry.Day) (*laneJob, *laneDay) {
		shard := q.plan.tenant.Placement.Keys(device, day)[0].TenantShard
		for _, j := range jobs {
			if d := j.on(day); d != nil && j.target.TenantShard == shard {
				return j, d
			}
		}
		return nil, nil
	}
	isRaw := func(d *laneDay, device string) bool { return !d.laned() || d.raw[device] }
	raw, rest := newWatch(make(tails)), make(map[*laneDay]*watch)
	watching := func(d *laneDay, device string) *watch {
		if isRaw(d, device) {
			return raw
		}
		if rest[d] == nil {
			rest[d] = newWatch(make(tails))
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
			watching(j.on(id.Day), p.Device).add(p.Device, id)
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
	if err := q.check(ctx, raw, q.req.Range, late); err != nil {
		return err
	}
	for _, d := range slices.SortedFunc(maps.Keys(rest), func(a, b *laneDay) int { return cmp.Compare(a.day, b.day) }) {
		shown := d.shown()
		for _, r := range []telemetry.Range{{From: d.asked.From, To: shown.From}, {From: shown.To, To: d.asked.To}} {
			if r.Empty() {
				continue
			}
			if err := q.check(ctx, rest[d], r, late); err != nil {
				return err
			}
		}
	}
	return nil
}

// loadLanes finds out what lanes show, and reads it. Where an old ledger names lanes that are gone, ledgers are read
// again; what can't be had then is read from chunks.
func (j *laneJob) loadLanes(ctx context.Context) error {
	for again := range 2 {
		ledgers, err := j.ledgers(ctx, again > 0)
		if err != nil {
			return err
		}
		now := j.r.cfg.Now().Unix()
		for _, d := range j.days {
			d.from, d.to = 0, 0
			if l := ledgers[d.day]; l != nil {
				d.show(l, j.req.Lanes, now)
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
	j.shown = nil
	return nil
}
