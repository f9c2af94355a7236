package read

import (
	"context"
	"sync"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Explanation is what the queries of a context did: which keys they asked, for what, and what that was expected to cost
// and has cost. It is safe for any number of callers.
type Explanation struct {
	mu    sync.Mutex // guards below
	reads []*Explained
}

// Explained is one read.
type Explained struct {
	Tenant   string
	Devices  []string // nil: all
	Metrics  []string // nil: all
	Range    telemetry.Range
	Ordered  bool // rows in the order of time; else series or statistics
	Estimate Estimate
	Scans    []ScanExplained // in the order in which they ended
	Lanes    []LaneExplained // of lanes, the same
	Shown    []ShownExplained
	Stats    Stats
}

// LaneExplained is one scan of documents of lanes.
type LaneExplained struct {
	store.ViewKey
	Range        telemetry.Range
	Documents    int
	RequestUnits float64
}

// ShownExplained is what lanes showed of a first-level key on a day.
type ShownExplained struct {
	TenantShard string
	Day         telemetry.Day
	AsOf        int64 // s since 1970 UTC: chunks that were stored since were read
	Range       telemetry.Range
	Raw         int // devices that were read from their chunks all the same
}

// Estimate is what a read was expected to find and to cost, by what earlier reads of the same keys, or else of the same
// tenant, have found a day. Guessed says that there were none: what asking costs is all that is known then.
type Estimate struct {
	Scans        int
	Documents    float64
	RequestUnits float64
	Guessed      bool
}

// ScanExplained is one scan: what it asked for, how, and what it has found and cost.
type ScanExplained struct {
	sharding.Key
	Named        int // devices named under the first level; 0 for all there, or the key's own
	Range        telemetry.Range
	Since        int64 // s since 1970 UTC: what was stored before is known; 0: all was asked for
	Documents    int
	RequestUnits float64
}

type explanationKey struct{}

// WithExplanation makes a context whose queries are explained.
func WithExplanation(ctx context.Context) (context.Context, *Explanation) {
	e := &Explanation{}
	return context.WithValue(ctx, explanationKey{}, e), e
}

// Reads is the reads that have ended, or were begun.
func (e *Explanation) Reads() []Explained {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Explained, len(e.reads))
	for i, r := range e.reads {
		out[i] = *r
	}
	return out
}

// explaining notes a read in the explanation of its context, if it has one.
func (q *Query) explaining(ctx context.Context) {
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

// explainedScan is a scan that has cost so much. Of several windows it tells the range that they lie in.
func explainedScan(s store.Scan, u store.Usage) ScanExplained {
	out := ScanExplained{Key: s.Key, Named: len(s.Devices), Documents: u.Documents, RequestUnits: u.RUs}
	for i, w := range s.Asks() {
		if i == 0 {
			out.Range, out.Since = w.Range, w.Since
		}
		out.Range.From, out.Range.To = min(out.Range.From, w.From), max(out.Range.To, w.To)
		out.Since = min(out.Since, w.Since)
	}
	return out
}

// explain notes what a scan did, unless nobody wants to know.
func (q *Query) explain(s ScanExplained) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.Scans = append(q.explained.Scans, s)
}

// explainLanes notes what a scan of lanes did.
func (q *Query) explainLanes(s store.LaneScan, u store.Usage) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.Lanes = append(q.explained.Lanes, LaneExplained{s.Key, s.Range, u.Documents, u.RUs})
}

// explainShown notes what lanes showed.
func (q *Query) explainShown(jobs []*laneJob) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	for _, j := range jobs {
		for _, d := range j.days {
			if d.laned() {
				s := ShownExplained{j.target.TenantShard, d.day, d.ledger.AsOf, d.shown(), len(d.raw)}
				q.explained.Shown = append(q.explained.Shown, s)
			}
		}
	}
}

// explainEnd notes what the whole read has cost.
func (q *Query) explainEnd() {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.Stats = q.tally.stats()
}

// askingRUs is what a scan costs that finds nothing, as modelled from published charges.
const askingRUs = 2.5

// estimate goes through the plan without reading anything.
func (q *Query) estimate() (e Estimate) {
	if _, ok := q.sink.(LaneSink); ok && q.lanesPay() {
		return q.estimateLaned()
	}
	now := q.r.cfg.Now().UnixMilli()
	for p := range q.plan.parts {
		for _, t := range p.targets {
			if p.ordered {
				q.estimateRange(&e, t, days(p.Range, now))
			} else {
				q.estimateChunks(&e, t, p.Range)
			}
		}
	}
	return e
}

// days is how many days of a range are not in the future.
func days(r telemetry.Range, now int64) float64 {
	return float64(max(0, min(r.To, now)-r.From)) / telemetry.DayMillis
}

// pace remembers what scans have found, for estimates. It is safe for any number of callers.
type pace struct {
	mu   sync.Mutex // guards below
	seen map[paceKey]found

	lanes map[string]float64 // what a document of lanes costs beside the asking, by tenant
}

// paceKey names what is alike: a key, or with an empty Key the keys of a tenant of one kind.
type paceKey struct {
	tenant string
	sharding.Key
	device bool // full keys
	named  bool // of devices that are named
}

// found is documents a day, of a named device where devices are named, and what one costs beside the asking.
type found struct{ documents, rus float64 }

// maxPaces bounds the memory of what is remembered.
const maxPaces = 4096

func newPace() *pace {
	return &pace{seen: make(map[paceKey]found), lanes: make(map[string]float64)}
}

func paceKeys(tenant string, t target) (own, alike paceKey) {
	alike = paceKey{tenant: tenant, device: t.Device != "", named: t.devices != nil}
	own = alike
	own.Key = t.Key
	return own, alike
}

// of is what is known of a target.
func (p *pace) of(tenant string, t target) (found, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, alike := paceKeys(tenant, t)
	f, ok := p.seen[own]
	if !ok {
		f, ok = p.seen[alike]
	}
	f.documents *= float64(max(len(t.devices), 1))
	return f, ok
}

// learn takes what a scan of a whole range has found. Later scans count as much as all before them.
func (p *pace) learn(tenant string, t target, over float64, documents int, rus float64) {
	if over <= 0 {
		return
	}
	f := found{documents: float64(documents) / over / float64(max(len(t.devices), 1))}
	if documents > 0 {
		f.rus = max(0, rus-askingRUs) / float64(documents)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) > maxPaces {
		clear(p.seen)
	}
	own, alike := paceKeys(tenant, t)
	for _, k := range []paceKey{own, alike} {
		if old, ok := p.seen[k]; ok {
			f = found{(old.documents + f.documents) / 2, (old.rus + f.rus) / 2}
		}
		p.seen[k] = f
	}
}

// ofLanes is what a document of a tenant's lanes costs beside the asking.
func (p *pace) ofLanes(tenant string) (rus float64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rus, ok = p.lanes[tenant]
	return rus, ok
}

// learnLanes takes what a scan of lanes has found.
func (p *pace) learnLanes(tenant string, u store.Usage) {
	if u.Documents == 0 {
		return
	}
	rus := max(0, u.RUs-askingRUs) / float64(u.Documents)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lanes) > maxPaces {
		clear(p.lanes)
	}
	if old, ok := p.lanes[tenant]; ok {
		rus = (old + rus) / 2
	}
	p.lanes[tenant] = rus
}
