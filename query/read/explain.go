package read

import (
	"context"
	"sync"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Explanation is what the queries of a context did: which keys they asked, for what, and the cost. It is safe for any number of callers.
type Explanation struct {
	mu    sync.Mutex // guards below
	reads []*Explained
}

// Explained is one read.
type Explained struct {
	Tenant      string
	Devices     []string // nil: all
	Metrics     []string // nil: all
	Range       telemetry.Range
	Ordered     bool                  // rows in the order of time; else series or statistics
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
		Range: q.req.Range, Ordered: q.req.Order != Unordered}
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

// explainScan adds a scan to the explanation, if there is one.
func (q *Query) explainScan(s ScanExplained) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.Scans = append(q.explained.Scans, s)
}

// explainRollups adds a scan of rollup documents.
func (q *Query) explainRollups(s store.RollupScan, u store.Usage) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.RollupScans = append(q.explained.RollupScans, RollupScanExplained{s.Key, s.Range, u.Documents, u.RUs})
}

// explainCovered adds what rollups covered.
func (q *Query) explainCovered(jobs []*rollupJob) {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	for _, j := range jobs {
		for _, d := range j.days {
			if d.hasRollups() {
				s := CoveredExplained{j.target.TenantShard, d.day, d.manifest.AsOf, d.covered(), len(d.raw)}
				q.explained.Covered = append(q.explained.Covered, s)
			}
		}
	}
}

// endExplanation adds what the read has cost.
func (q *Query) endExplanation() {
	if q.explained == nil {
		return
	}
	q.explanation.mu.Lock()
	defer q.explanation.mu.Unlock()
	q.explained.Stats = q.cost.stats()
}
