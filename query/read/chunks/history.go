package chunks

import (
	"math"
	"sync"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/sharding"
)

// finding returns the modelled cost of a scan that finds a number of small documents that lie apart, as chunks do. The
// cost of loading them comes on top, and is learnt.
func finding(seeks int, documents float64) float64 {
	return ru.Stepped.Query(ru.QueryWork{Seeks: seeks, Scattered: max(0, int(math.Round(documents))-seeks)})
}

// The seeks of scans: of a first-level key two ends of a range and the key, of a full key also the device and the key
// of the request.
const (
	prefixSeeks = 3
	keySeeks    = 5
)

// seeks returns how many seeks a scan of a target takes. A list of devices has one more value than devices.
func seeks(t plan.Target) int {
	switch {
	case t.Device != "":
		return keySeeks
	case t.Devices != nil:
		return prefixSeeks + 1 + len(t.Devices)
	}
	return prefixSeeks
}

// daysOf returns how many days of a range are not in the future.
func daysOf(r telemetry.Range, now int64) float64 {
	return float64(max(0, min(r.To, now)-r.From)) / telemetry.DayMillis
}

// scanHistory remembers what scans have found, for estimates. It is safe for any number of callers.
type scanHistory struct {
	mu   sync.Mutex // guards below
	seen map[historyKey]scanYield
}

// historyKey names scans that are alike: of a key, or with an empty Key of a tenant's keys of one kind.
type historyKey struct {
	tenant string
	sharding.Key
	device bool // full keys
	named  bool // the scan names devices
}

// scanYield is documents that begin in a day (of one device where devices are named), what loading one costs,
// and how many days it covers: a scan also finds documents that begin before its range.
type scanYield struct{ documents, rus, covers float64 }

// maxHistory bounds the memory that the history takes.
const maxHistory = 4096

func historyKeys(tenant string, t plan.Target) (own, alike historyKey) {
	alike = historyKey{tenant: tenant, device: t.Device != "", named: t.Devices != nil}
	own = alike
	own.Key = t.Key
	return own, alike
}

// of returns what scans of a target have found.
func (p *scanHistory) of(tenant string, t plan.Target) (scanYield, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, alike := historyKeys(tenant, t)
	f, ok := p.seen[own]
	if !ok {
		f, ok = p.seen[alike]
	}
	f.documents *= float64(max(len(t.Devices), 1))
	return f, ok
}

// yieldOf returns the yield of a scan over a number of days, with documents that together cover a number of days.
func yieldOf(t plan.Target, u store.Usage, over, covered float64) (f scanYield) {
	if u.Documents > 0 {
		f.rus = max(0, u.RUs-finding(seeks(t), float64(u.Documents))) / float64(u.Documents)
		f.covers = covered / float64(u.Documents)
	}
	f.documents = float64(u.Documents) / (over + f.covers) / float64(max(len(t.Devices), 1))
	return f
}

// over returns how many documents a scan over a number of days finds, and its cost.
func (y scanYield) over(days float64, seeks int) (documents, rus float64) {
	documents = y.documents * (days + y.covers)
	return documents, finding(seeks, documents) + documents*y.rus
}

// add takes what a scan of a whole range has found. The last scan counts as much as all before it.
func (p *scanHistory) add(tenant string, t plan.Target, f scanYield) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) > maxHistory {
		clear(p.seen)
	}
	own, alike := historyKeys(tenant, t)
	for _, k := range []historyKey{own, alike} {
		if old, ok := p.seen[k]; ok {
			f = scanYield{(old.documents + f.documents) / 2, (old.rus + f.rus) / 2, (old.covers + f.covers) / 2}
		}
		p.seen[k] = f
	}
}

// SeekCost returns the modelled cost of a scan that finds nothing.
func SeekCost(seeks int) float64 { return finding(seeks, 0) }

// Estimate estimates a read of all parts, without reading anything.
func (q *Query) Estimate() (e piece.Estimate) {
	for p := range q.View.Parts {
		for _, t := range p.Targets {
			if p.Ordered {
				q.EstimateScan(&e, t, q.DaysOf(t.Range))
			} else {
				q.EstimateRead(&e, t, t.Range)
			}
		}
	}
	return e
}

// EstimateSeeks adds a scan that is expected to find nothing.
func (q *Query) EstimateSeeks(e *piece.Estimate, seeks int) { e.Add(0, SeekCost(seeks), false) }

// EstimateRead adds the expected cost of a range of a target's chunks, parts of which may be known.
func (q *Query) EstimateRead(e *piece.Estimate, t plan.Target, r telemetry.Range) {
	windows := []store.Window{{Range: r}}
	if q.keeps(t) {
		if k := q.r.rangesOf(t, q.Request.Metrics).find(r); k.isKnown(q.r.cfg.Now(), q.r.cfg.RoomAge) {
			windows = k.windows(r, false)
		}
	}
	for _, w := range windows {
		if w.Since > 0 {
			q.EstimateSeeks(e, seeks(t)+1)
		} else {
			q.EstimateScan(e, t, q.DaysOf(w.Range))
		}
	}
}

// EstimateScan adds a scan over a number of days of a target's chunks.
func (q *Query) EstimateScan(e *piece.Estimate, t plan.Target, days float64) {
	yield, ok := q.r.history.of(q.Request.Tenant, t)
	documents, rus := yield.over(days, seeks(t))
	e.Add(documents, rus, !ok)
}

// DaysOf returns how many days of a range are not in the future.
func (q *Query) DaysOf(r telemetry.Range) float64 { return daysOf(r, q.r.cfg.Now().UnixMilli()) }
