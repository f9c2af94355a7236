package read

import (
	"maps"
	"slices"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// estimateRollups estimates a query that rollups may answer. Manifests in the cache name the documents that it needs,
// and some of them may be in the cache too. A day without a known manifest counts with the price of asking for it.
func (q *Query) estimateRollups() (e Estimate) {
	for _, j := range q.newRollupJobs() {
		j.estimate(&e)
	}
	return e
}

// estimate adds what the job is expected to find and to cost. The job is of no use afterwards.
func (j *rollupJob) estimate(e *Estimate) {
	perDocument, ok := j.r.history.ofRollups(j.req.Tenant)
	asks := func(documents int) {
		e.Scans++
		e.RequestUnits += asking(rollupSeeks) + float64(documents)*perDocument
	}
	unknown := 0
	for _, d := range j.days {
		key := manifestKey{sharding.RollupsContainer(j.target.Container), j.target.TenantShard, d.day}
		v, known := j.r.cache.get(key, manifestsAge)
		if !known {
			unknown++
			continue
		}
		if l, _ := v.(*manifest); l != nil {
			d.cover(l, j.req.Rollups)
		}
	}
	if unknown > 0 {
		asks(unknown)
		e.Guessed = true
	}
	rollups, seen := make(map[string]int), make(map[string]bool)
	j.refs(func(_ *rollupDay, ref rollup.Ref, _ string) {
		if seen[ref.ID] {
			return
		}
		seen[ref.ID] = true
		if _, read := j.r.cache.get(j.keyOf(ref), time.Duration(1<<62)); !read {
			rollups[ref.Key]++
		}
	})
	for _, documents := range rollups {
		asks(documents)
		e.Guessed = e.Guessed || !ok
	}
	for r := range j.uncovered() {
		j.estimateChunks(e, j.target, r)
	}
	for windows := len(j.windowsSince()); windows > 0; windows -= store.MaxScanWindows { // for what was stored since
		e.Scans++
		e.RequestUnits += asking(1 + 3*min(windows, store.MaxScanWindows))
	}
	j.estimateRaw(e)
}

// estimateRaw adds the chunks of devices that are raw on covered days.
func (j *rollupJob) estimateRaw(e *Estimate) {
	named := make(map[string]bool)
	for _, d := range j.days {
		switch {
		case !d.hasRollups():
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
		if d.hasRollups() && len(d.raw) > 0 && len(d.raw) <= manyRaw {
			over += days(d.asked, j.r.cfg.Now().UnixMilli())
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(named)), store.MaxScanDevices) {
		j.estimateRange(e, target{j.target.Visit, some}, over)
	}
}

// estimateChunks adds what a range of a target's chunks is expected to cost.
func (q *Query) estimateChunks(e *Estimate, t target, r telemetry.Range) {
	now := q.r.cfg.Now()
	asked := []span{{Range: r}}
	if q.r.cache != nil && t.devices == nil {
		asked = q.r.cache.fetchesFor(cacheKey{t.Key, metricsKey(q.req.Metrics)}, r, now)
	}
	for _, s := range asked {
		if s.asOf > 0 {
			e.Scans++
			e.RequestUnits += asking(t.seeks() + 1)
			continue
		}
		q.estimateRange(e, t, days(s.Range, now.UnixMilli()))
	}
}

// estimateRange adds a scan of so many days of a target's chunks.
func (q *Query) estimateRange(e *Estimate, t target, over float64) {
	e.Scans++
	seen, ok := q.r.history.of(q.req.Tenant, t)
	e.Guessed = e.Guessed || !ok
	documents, rus := seen.over(over, t.seeks())
	e.Documents += documents
	e.RequestUnits += rus
}
