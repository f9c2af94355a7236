package read

import (
	"context"
	"math"
	"sync"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Explanation is what the queries of a context did: which keys they asked, for what, the expected cost, and the real
// one. It is safe for any number of callers.
type Explanation struct {
	planned bool // queries read no document, and their answers are empty

	mu    sync.Mutex // guards below
	reads []*Explained
}

// Explained is one read.
type Explained struct {
	Tenant      string
	Devices     []string // nil: all
	Metrics     []string // nil: all
	Range       telemetry.Range
	Ordered     bool // rows in the order of time; else series or statistics
	Estimate    Estimate
	Scans       []ScanExplained       // in the order in which they ended
	RollupScans []RollupScanExplained // the same
	Covered     []CoveredExplained
	Stats       Stats
}

// RollupScanExplained is one scan of rollup documents.
type RollupScanExplained struct {
	store.RollupKey
	Range        telemetry.Range
	Documents    int
	RequestUnits float64
}

// CoveredExplained is what rollups covered of a first-level key on a day.
type CoveredExplained struct {
	TenantShard string
	Day         telemetry.Day
	AsOf        int64 // s since 1970 UTC: chunks that were stored since were read
	Range       telemetry.Range
	Raw         int // devices that were read from their chunks all the same
}

// Estimate is what a read was expected to find and to cost, by what earlier reads of the same keys have found a day, or
// else reads of the same tenant. Guessed says that there were none: then only the price of asking is known.
type Estimate struct {
	Scans        int
	Documents    float64
	RequestUnits float64
	Guessed      bool
}

// ScanExplained is one scan: its question, what it has found, and what it has cost.
type ScanExplained struct {
	sharding.Key
	Named        int // devices named under the first level; 0 for all there, or the key's own
	Range        telemetry.Range
	Since        int64 // s since 1970 UTC: what was stored before is known; 0: all was asked for
	Documents    int
	RequestUnits float64
}

type explanationKey struct{}

// WithExplanation returns a context that collects explanations of its queries.
func WithExplanation(ctx context.Context) (context.Context, *Explanation) {
	e := &Explanation{}
	return context.WithValue(ctx, explanationKey{}, e), e
}

// WithPlan returns a context that collects what its queries would ask, and what that is expected to cost. They read
// heads, but no document: their answers are empty, and nobody may keep them.
func WithPlan(ctx context.Context) (context.Context, *Explanation) {
	e := &Explanation{planned: true}
	return context.WithValue(ctx, explanationKey{}, e), e
}

// Reads returns the reads that have begun.
func (e *Explanation) Reads() []Explained {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Explained, len(e.reads))
	for i, r := range e.reads {
		out[i] = *r
	}
	return out
}

// beginExplanation adds a read to the explanation of its context, if it has one.
func (q *Query) beginExplanation(ctx context.Context) {
	e, ok := ctx.Value(explanationKey{}).(*Explanation)
	if !ok {
		return
	}
	q.explanation, q.explained = e, &Explained{Tenant: q.req.Tenant, Devices: q.req.Devices, Metrics: q.req.Metrics,
		Range: q.req.Range, Ordered: q.req.Order != Unordered, Estimate: q.estimate()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reads = append(e.reads, q.explained)
}

// explainedScan describes a scan. Several windows count as the range that they lie in.
func explainedScan(s store.Scan, u store.Usage) ScanExplained {
	out := ScanExplained{Key: s.Key, Named: len(s.Devices), Documents: u.Documents, RequestUnits: u.RUs}
	for i, w := range s.AllWindows() {
		if i == 0 {
			out.Range, out.Since = w.Range, w.Since
		}
		out.Range.From, out.Range.To = min(out.Range.From, w.From), max(out.Range.To, w.To)
		out.Since = min(out.Since, w.Since)
	}
	return out
}

// explain adds something to the explanation, if there is one.
func (q *Query) explain(add func(*Explained)) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	add(q.explained)
}

// explainCovered adds what rollups covered.
func (q *Query) explainCovered(jobs []*rollupJob) {
	q.explain(func(e *Explained) {
		for _, j := range jobs {
			for _, d := range j.days {
				if d.hasRollups() {
					s := CoveredExplained{j.target.TenantShard, d.day, d.manifest.AsOf, d.covered(), len(d.raw)}
					e.Covered = append(e.Covered, s)
				}
			}
		}
	})
}

// asking returns what a scan is modelled to cost that finds nothing: each value or range of its conditions is a seek.
func asking(seeks int) float64 { return finding(seeks, 0) }

// finding returns what a scan is modelled to cost for so many small documents that lie apart, as chunks of a device do
// and of several devices that report at the same time. What loading them costs beside that is learnt.
func finding(seeks int, documents float64) float64 {
	return ru.Stepped.Query(ru.QueryWork{Seeks: seeks, Scattered: max(0, int(math.Round(documents))-seeks)})
}

// The seeks of scans: of a first-level key two ends of a range and the key, of a full key the device and the key of the
// request beside it.
const (
	prefixSeeks = 3
	keySeeks    = 5
	rollupSeeks = keySeeks
)

// seeks returns those of a scan of the target. A list of devices has one more value than devices.
func (t target) seeks() int {
	switch {
	case t.Device != "":
		return keySeeks
	case t.devices != nil:
		return prefixSeeks + 1 + len(t.devices)
	}
	return prefixSeeks
}

// estimate goes through the plan without reading anything.
func (q *Query) estimate() (e Estimate) {
	if _, ok := q.sink.(RollupSink); ok && q.rollupsPay() {
		return q.estimateRollups()
	}
	now := q.r.cfg.Now().UnixMilli()
	for p := range q.plan.parts {
		for _, t := range p.targets {
			if p.ordered {
				q.estimateRange(&e, t, days(t.Range, now))
			} else {
				q.estimateChunks(&e, t, t.Range)
			}
		}
	}
	return e
}

// days returns how many days of a range are not in the future.
func days(r telemetry.Range, now int64) float64 {
	return float64(max(0, min(r.To, now)-r.From)) / telemetry.DayMillis
}

// scanHistory remembers what scans have found, for estimates. It is safe for any number of callers.
type scanHistory struct {
	mu   sync.Mutex // guards below
	seen map[historyKey]scanYield

	rollupRUs map[string]float64 // what a rollup document costs beside the asking, by tenant
}

// historyKey names scans that are alike: of a key, or with an empty Key of a tenant's keys of one kind.
type historyKey struct {
	tenant string
	sharding.Key
	device bool // full keys
	named  bool // of devices that are named
}

// scanYield is documents that begin in a day (of one device where devices are named), what loading one costs,
// and how many days it covers: a scan also finds those that begin before its range.
type scanYield struct{ documents, rus, covers float64 }

// maxHistory bounds the memory that the history takes.
const maxHistory = 4096

func newScanHistory() *scanHistory {
	return &scanHistory{seen: make(map[historyKey]scanYield), rollupRUs: make(map[string]float64)}
}

func historyKeys(tenant string, t target) (own, alike historyKey) {
	alike = historyKey{tenant: tenant, device: t.Device != "", named: t.devices != nil}
	own = alike
	own.Key = t.Key
	return own, alike
}

// of returns what scans of a target have found.
func (p *scanHistory) of(tenant string, t target) (scanYield, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, alike := historyKeys(tenant, t)
	f, ok := p.seen[own]
	if !ok {
		f, ok = p.seen[alike]
	}
	f.documents *= float64(max(len(t.devices), 1))
	return f, ok
}

// yieldOf returns what a scan of a target has found over so many days, in documents that cover so many together.
func yieldOf(t target, u store.Usage, over, covered float64) (f scanYield) {
	if u.Documents > 0 {
		f.rus = max(0, u.RUs-finding(t.seeks(), float64(u.Documents))) / float64(u.Documents)
		f.covers = covered / float64(u.Documents)
	}
	f.documents = float64(u.Documents) / (over + f.covers) / float64(max(len(t.devices), 1))
	return f
}

// over returns how many documents a scan of so many days finds, and what it costs.
func (y scanYield) over(days float64, seeks int) (documents, rus float64) {
	documents = y.documents * (days + y.covers)
	return documents, finding(seeks, documents) + documents*y.rus
}

// add takes what a scan of a whole range has found. The last scan counts as much as all before it.
func (p *scanHistory) add(tenant string, t target, f scanYield) {
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

// ofRollups returns what a rollup document of a tenant costs beside the asking.
func (p *scanHistory) ofRollups(tenant string) (rus float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rus, ok = p.rollupRUs[tenant]
	return rus, ok
}

// addRollups takes what a scan of rollup documents has found.
func (p *scanHistory) addRollups(tenant string, u store.Usage) {
	if u.Documents == 0 {
		return
	}
	rus := max(0, u.RUs-asking(rollupSeeks)) / float64(u.Documents)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.rollupRUs) > maxHistory {
		clear(p.rollupRUs)
	}
	if old, ok := p.rollupRUs[tenant]; ok {
		rus = (old + rus) / 2
	}
	p.rollupRUs[tenant] = rus
}
