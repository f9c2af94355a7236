package piece

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Stats counts reads and their cost, as the API answers them.
type Stats struct {
	// RequestUnits were charged for scans, all attempts together.
	RequestUnits float64 `json:"request_units"`
	Documents    int     `json:"documents"`  // chunks read
	Keys         int     `json:"keys"`       // partition keys and prefixes of them that were scanned
	Containers   int     `json:"containers"` // the containers of these keys
	HeadRows     int     `json:"head_rows"`  // rows that came from memory, before merging
	// Cached counts chunks that were read before, or by another query at the same time.
	Cached        int `json:"cached,omitempty"`
	Rollups       int `json:"rollups,omitempty"`        // rollup documents and manifests read
	RollupsCached int `json:"rollups_cached,omitempty"` // rollup documents that were read before
	// Reread counts devices and days that were read again because chunks were missing (rule R4).
	Reread int `json:"-"`
}

// Plus returns what two reads have cost. Containers is the greater number: both may have asked the same ones.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		RequestUnits: s.RequestUnits + t.RequestUnits, Documents: s.Documents + t.Documents, Cached: s.Cached + t.Cached,
		Rollups: s.Rollups + t.Rollups, RollupsCached: s.RollupsCached + t.RollupsCached,
		Keys:       s.Keys + t.Keys,
		Containers: max(s.Containers, t.Containers), HeadRows: s.HeadRows + t.HeadRows, Reread: s.Reread + t.Reread,
	}
}

// Account counts what one query holds, reads and costs, and holds it to its limits. It is safe for any number of
// callers.
type Account struct {
	Memory     *Memory
	maxRUs     float64
	maxSamples int64 // values that may be decoded; 0: no bound
	mayGoOn    func() error

	samples     atomic.Int64
	explanation *Explanation // nil for none; set before the query reads
	explained   *Explained   // the query's read in the explanation

	mu         sync.Mutex // guards below
	spent      float64    // also by scans under way
	sum        Stats      // but for keys and containers
	keys       map[sharding.Key]bool
	containers map[string]bool
}

// NewAccount returns an account of a request, with a limit of request units.
func NewAccount(m *Memory, maxRUs float64, r *Request) *Account {
	return &Account{Memory: m, maxRUs: maxRUs, maxSamples: r.Samples, mayGoOn: r.Continue,
		keys: make(map[sharding.Key]bool), containers: make(map[string]bool)}
}

// Visit counts a key.
func (a *Account) Visit(key sharding.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys[key], a.containers[key.Container] = true, true
}

// Charge counts the charge of a request under way, and fails if the query may not go on.
func (a *Account) Charge(rus float64) error {
	a.mu.Lock()
	a.spent += rus
	tooMuch := a.spent > a.maxRUs
	a.mu.Unlock()
	switch {
	case tooMuch:
		return errRUs
	case a.mayGoOn != nil:
		return a.mayGoOn()
	}
	return nil
}

// Add adds what a read has found and cost.
func (a *Account) Add(s Stats) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sum = a.sum.Plus(s)
}

// Stats returns the counts so far.
func (a *Account) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.sum
	out.Keys, out.Containers = len(a.keys), len(a.containers)
	return out
}

// decoded counts values that were decoded, and fails if they are too many.
func (a *Account) decoded(values int) error {
	if a.maxSamples > 0 && a.samples.Add(int64(values)) > a.maxSamples {
		return errSamples
	}
	return nil
}

// Memory counts the bytes that one query holds, against its limit and that of all queries together: pieces, and
// decoded columns that are being merged. It is safe for any number of callers.
type Memory struct {
	limit int64
	all   *Memory // of all queries together; nil for this one

	mu   sync.Mutex // guards below
	used int64
	peak int64
}

// NewMemory returns a counter of what all queries of a process hold.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Memory returns a counter with a limit below that of all. It must be closed.
func (m *Memory) Memory(limit int64) *Memory { return &Memory{limit: limit, all: m} }

// Take adds n bytes, or returns an error and adds none. A sink passes that error on.
func (m *Memory) Take(n int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.limit {
		return ErrMemory
	}
	if m.all != nil && m.all.Take(n) != nil {
		return ErrBusy
	}
	m.used += n
	m.peak = max(m.peak, m.used)
	return nil
}

// Give takes n bytes back.
func (m *Memory) Give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.give(n)
}

// give does what Give says. The caller holds mu.
func (m *Memory) give(n int64) {
	if m.used -= n; m.all != nil {
		m.all.Give(n)
	}
}

// Peak returns the most bytes that were held.
func (m *Memory) Peak() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.peak
}

// Close gives back what is still held.
func (m *Memory) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.give(m.used)
}

// Overheads in bytes, rounded up: slices and strings.
const (
	overheadBytes = 256 // a piece, in the lists and heaps that it is in
	headerBytes   = 128 // a group or a decoded column
	columnBytes   = 256 // an undecoded column: its statistics
)

// GroupBytes returns about how much memory a decoded group takes.
func GroupBytes(g *chunk.Group) int64 {
	n := int64(headerBytes + 8*len(g.Times))
	for i := range g.Columns {
		col := &g.Columns[i]
		n += headerBytes + 8*int64(len(col.Present)+len(col.Bits)) + 16*int64(len(col.Texts))
		for _, s := range col.Texts {
			n += int64(len(s))
		}
	}
	return n
}

// FrameBytes returns about how much memory a frame takes as a piece.
func FrameBytes(f chunk.Frame) int64 {
	n := int64(overheadBytes)
	for i := range f.Groups {
		n += GroupBytes(&f.Groups[i])
	}
	return n
}

// ChunkBytes returns about how much memory an undecoded chunk takes.
func ChunkBytes(c *chunk.Chunk) int64 {
	return overheadBytes + int64(c.Bytes()) + columnBytes*int64(c.NumColumns())
}

// ErrUnavailable is wrapped by errors of reading the store or the snapshot of tenants; ErrBusy means that this process
// has too much to do. The same request may be sent again.
var (
	ErrUnavailable = errors.New("the store can't be read now")
	ErrBusy        = errors.New("too many queries at once")
)

// LimitError says that an answer can't be made within the limits of one query.
type LimitError struct {
	Limit  string   // the limit that the answer exceeds
	Narrow []string // advice to the caller
}

// Error returns the limit, and what to narrow.
func (e *LimitError) Error() string {
	return fmt.Sprintf("the answer needs more than %s: %s", e.Limit, strings.Join(e.Narrow, ", or "))
}

// Errors of limits, which sinks pass on. Callers of a query see a LimitError.
var (
	ErrMemory  = errors.New("the query's memory is used up")
	errRUs     = errors.New("the query's request units are used up")
	errSamples = errors.New("the query's values are used up")
)

// LimitError returns err, or the error that callers see if err is of a limit of the account.
func (a *Account) LimitError(err error, r *Request) error {
	switch {
	case errors.Is(err, ErrMemory):
		limit := fmt.Sprintf("the %d MiB of memory that a query may use (query-memory-mb)", a.Memory.limit>>20)
		return &LimitError{limit, r.narrow()}
	case errors.Is(err, errRUs):
		return &LimitError{fmt.Sprintf("the %.0f request units that a query may cost (query-max-rus)", a.maxRUs), r.narrow()}
	case errors.Is(err, errSamples):
		return &LimitError{fmt.Sprintf("the %d values that a query of this tenant may read", a.maxSamples), r.narrow()}
	}
	return err
}

// narrow returns what the request can still narrow.
func (r *Request) narrow() []string {
	out := []string{"ask for a shorter range (from, to)"}
	switch {
	case r.Devices == nil:
		out = append(out, "name the devices (device)")
	case len(r.Devices) > 1:
		out = append(out, "name fewer devices (device)")
	}
	if r.Metrics == nil {
		out = append(out, "name the metrics (metric)")
	}
	return out
}

// Unavailable returns the error of a failed read of the store: ErrUnavailable, unless the caller has gone or the query
// has taken too long.
func Unavailable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return endedWhile(ctx, what, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

// TimeoutError says that a query has exceeded its time. The same request may be sent again.
type TimeoutError struct {
	After time.Duration
	Read  string // the read of the store that was not answered; "" for none

	// Failing is how the store has failed; nil where it was silent.
	Failing *store.FailingError
}

// Error returns how long the query took, and for what.
func (e *TimeoutError) Error() string {
	if e.Read == "" {
		return fmt.Sprintf("the query takes longer than %s", e.After)
	}
	if e.Failing != nil {
		return fmt.Sprintf("the store fails for %s: %s: %v", e.After, e.Read, e.Failing)
	}
	return fmt.Sprintf("the store does not answer within %s: %s", e.After, e.Read)
}

// Is makes errors.Is(err, context.DeadlineExceeded) true.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// endedWhile returns why the context of a query has ended while a read of the store failed with err.
func endedWhile(ctx context.Context, reading string, err error) error {
	var timeout *TimeoutError
	if !errors.As(context.Cause(ctx), &timeout) {
		return ctx.Err()
	}
	out := &TimeoutError{After: timeout.After, Read: reading}
	errors.As(err, &out.Failing)
	return out
}

// Unwrap returns how the store has failed.
func (e *TimeoutError) Unwrap() error {
	if e.Failing == nil {
		return nil
	}
	return e.Failing
}

// FailureOf says for a client how the store has failed while a query read it, with a colon before; "" where it has not.
func FailureOf(err error) string {
	var failing *store.FailingError
	if !errors.As(err, &failing) {
		return ""
	}
	return ": " + failing.Answer()
}

type timeoutKey struct{}

// WithTimeout returns a context for queries that may take so long.
func WithTimeout(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, timeoutKey{}, d)
}

// TimeoutOf returns how long a query of the context may take, 0 if nothing is said.
func TimeoutOf(ctx context.Context) time.Duration {
	d, _ := ctx.Value(timeoutKey{}).(time.Duration)
	return d
}

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
	Scans       []ScanExplained // ordered by their end
	RollupScans []ScanExplained // the same
	Covered     []CoveredExplained
	Stats       Stats
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
	Scans        int     `json:"scans"`
	Documents    float64 `json:"documents"`
	RequestUnits float64 `json:"request_units"`
	Guessed      bool    `json:"guessed"`
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
	Rollup       string // names of the rollups that were requested; "" for chunks
	Named        int    // devices named under the first level; 0 for all there, or the key's own
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
