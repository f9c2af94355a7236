package piece

import (
	"context"
	"sync"

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
	Scans       []ScanExplained       // ordered by their end
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

// Add adds a scan with the documents that it is expected to find. Guessed says that no earlier one was alike.
func (e *Estimate) Add(documents, rus float64, guessed bool) {
	e.Scans++
	e.Documents += documents
	e.RequestUnits += rus
	e.Guessed = e.Guessed || guessed
}

// ScanExplained is one scan: its question, its documents and its cost.
type ScanExplained struct {
	sharding.Key
	Named        int // devices named under the first level; 0 for all there, or the key's own
	Range        telemetry.Range
	Since        int64 // s since 1970 UTC: earlier chunks are known; 0: all were requested
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
// heads, but no document: their answers are empty, and must not be kept.
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

// BeginExplanation takes the explanation of a context, if it has one. It is called before the query reads.
func (a *Account) BeginExplanation(ctx context.Context) {
	a.explanation, _ = ctx.Value(explanationKey{}).(*Explanation)
}

// IsExplained reports whether the query explains what it reads.
func (a *Account) IsExplained() bool { return a.explanation != nil }

// OnlyPlans reports whether the query reads no document.
func (a *Account) OnlyPlans() bool { return a.explanation != nil && a.explanation.planned }

// ExplainRead adds the read of the query to the explanation.
func (a *Account) ExplainRead(read *Explained) {
	a.explanation.mu.Lock()
	defer a.explanation.mu.Unlock()
	a.explained = read
	a.explanation.reads = append(a.explanation.reads, read)
}

// Explain adds something to the explained read, if there is one.
func (a *Account) Explain(add func(*Explained)) {
	if a.explanation == nil {
		return
	}
	a.explanation.mu.Lock()
	defer a.explanation.mu.Unlock()
	if a.explained != nil {
		add(a.explained)
	}
}
