package read

import (
	"maps"
	"slices"
	"time"

	"binnacle/binning/lane"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// estimateLaned goes through what lanes may answer without reading anything: ledgers that are known say which documents
// of lanes are needed, of which some may be known too. Where one isn't, nothing is known of its day but the asking.
func (q *Query) estimateLaned() (e Estimate) {
	for _, j := range q.laneJobs() {
		j.estimate(&e)
	}
	return e
}

// estimate adds what the job is expected to find and to cost. The job is of no use afterwards.
func (j *laneJob) estimate(e *Estimate) {
	now := j.r.cfg.Now()
	perDocument, ok := j.r.pace.ofLanes(j.req.Tenant)
	asks := func(documents int) {
		e.Scans++
		e.RequestUnits += askingRUs + float64(documents)*perDocument
	}
	unknown, sealed := 0, 0
	for _, d := range j.days {
		key := ledgerKey{sharding.ViewsContainer(j.target.Container), j.target.TenantShard, d.day}
		v, known := j.r.cache.thing(key, now, ledgersAge)
		if !known {
			unknown++
			continue
		}
		if l, _ := v.(*ledger); l != nil {
			d.show(l, j.req.Lanes, now.Unix())
		}
		if d.laned() {
			sealed++
		}
	}
	if unknown > 0 {
		asks(unknown)
		e.Guessed = true
	}
	lanes, seen := make(map[string]int), make(map[string]bool)
	j.refs(func(_ *laneDay, ref lane.Ref, _ string) {
		if seen[ref.ID] {
			return
		}
		seen[ref.ID] = true
		if _, read := j.r.cache.thing(j.keyOf(ref), now, time.Duration(1<<62)); !read {
			lanes[ref.Key]++
		}
	})
	for _, documents := range lanes {
		asks(documents)
		e.Guessed = e.Guessed || !ok
	}
	for r := range j.unshown() {
		j.estimateChunks(e, j.target, r)
	}
	for range (sealed + store.MaxScanWindows - 1) / store.MaxScanWindows {
		asks(0) // for what was stored since
	}
	j.estimateRaw(e)
}

// estimateRaw adds the chunks of devices that are read raw on days that lanes show.
func (j *laneJob) estimateRaw(e *Estimate) {
	named := make(map[string]bool)
	for _, d := range j.days {
		switch {
		case !d.laned():
		case len(d.raw) > manyRaw:
			j.estimateChunks(e, j.target, d.asked)
		default:
			for device := range d.raw {
				if j.asked(device) {
					named[device] = true
				}
			}
		}
	}
	over := 0.0
	for _, d := range j.days {
		if d.laned() && len(d.raw) > 0 && len(d.raw) <= manyRaw {
			over += days(d.asked, j.r.cfg.Now().UnixMilli())
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(named)), store.MaxScanDevices) {
		j.estimateRange(e, target{j.target.Key, some}, over)
	}
}

// estimateChunks adds what a range of a target's chunks is expected to cost.
func (q *Query) estimateChunks(e *Estimate, t target, r telemetry.Range) {
	now := q.r.cfg.Now()
	asked := []span{{Range: r}}
	if q.r.cache != nil && t.devices == nil {
		asked = q.r.cache.asked(lotKey{t.Key, nameOf(q.req.Metrics)}, r, now)
	}
	for _, s := range asked {
		if s.asOf > 0 {
			e.Scans++
			e.RequestUnits += askingRUs
			continue
		}
		q.estimateRange(e, t, days(s.Range, now.UnixMilli()))
	}
}

// estimateRange adds a scan of so many days of a target's chunks.
func (q *Query) estimateRange(e *Estimate, t target, over float64) {
	e.Scans++
	e.RequestUnits += askingRUs
	seen, ok := q.r.pace.of(q.req.Tenant, t)
	if !ok {
		e.Guessed = true
		return
	}
	documents := seen.documents * over
	e.Documents += documents
	e.RequestUnits += documents * seen.rus
}
