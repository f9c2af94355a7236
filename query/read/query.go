package read

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"binnacle/internal/telemetry"
)

// Query is one request under way. The goroutine that runs it owns it, but for Memory.
type Query struct {
	Memory *Memory

	r       *Reader
	req     Request
	sink    Sink
	plan    plan
	visible visibility
	erased  erased
	tails   tails
	inHeads map[deviceDay]bool // with rows in heads
	bins    *cachedBins        // known when the heads were asked; nil for none
	cost    cost

	missing       []string        // why the answer is not complete
	unread        []string        // of those, what ingesters have not read yet, or do not answer
	deferrals     []Deferral      // which make it incomplete too
	known         int             // how many of missing were known before the store was read
	missingChunks []MissingChunks // of missing, what the store lacks
	days          int             // of the next window
	oneDay        bool            // windows of more than a day have turned out too large
	samples       atomic.Int64    // values that were decoded
	notes         basisNotes
	basisDays     map[basisDay][sha256.Size]byte // that rollups cover
	binChanges    changes                        // of the bins of heads; nil if these leave no note
	newRows       int64                          // the first instant of a row of a bin that was not known
	rowsUnnoted   bool                           // heads answered rows that are in no bin
	fromHeads     []*Piece                       // rows of heads, until it is known which are needed
	narrowed      *int64                         // the first instant that is needed, once that is known
	began         time.Time                      // before the heads were asked
	countsStored  bool                           // all heads count what is stored
	counts        map[uint64]*storedCounts       // what they have counted, by owner
	loaded        loaded
	soon          int64 // chunks that expire before may vanish while they are read

	explanation *Explanation // nil for none
	explained   *Explained   // in it
}

// Query begins a query, which must be closed.
func (r *Reader) Query(req Request) *Query {
	req.Range = telemetry.Range{From: max(req.Range.From, 0), To: min(req.Range.To, telemetry.MaxMillis)}
	q := &Query{Memory: r.Memory(r.cfg.Bytes), r: r, req: req, days: daysOfMonth}
	q.notes.expires, q.newRows = math.MaxInt64, math.MaxInt64
	if req.Early {
		q.days = 1
	}
	return q
}

// Range returns the request's range within the times that readings can have.
func (q *Query) Range() telemetry.Range { return q.req.Range }

// Close gives back the memory of the query. Its pieces must not be used any more.
func (q *Query) Close() { q.Memory.Close() }

// Run reads into the sink: heads first, then the snapshot of tenants, then the store (rule R1). An error of the sink
// ends it and is returned as it is, but for a *Stop. Errors of its own: a *LimitError, a *NotYetError, a *TimeoutError,
// ErrUnavailable, ErrBusy, chunk.ErrCorrupt, the context's. Pieces may have been added before an error.
func (q *Query) Run(ctx context.Context, sink Sink) error {
	if q.req.Range.Empty() {
		return nil
	}
	q.sink = sink
	err := q.run(ctx)
	if err == nil && len(afterOf(ctx)) > 0 && len(q.missing) > q.known {
		err = &NotYetError{q.missing[q.known:]} // which may be the record that must be in the answer
	}
	q.explain(func(e *Explained) { e.Stats = q.cost.stats() })
	return q.Explain(err)
}

func (q *Query) run(ctx context.Context) error {
	var s headRead
	var err error
	q.visible.begin(q.r, q.req.Tenant)
	if err := q.beginErased(ctx); err != nil {
		return err
	}
	if q.req.AsOf > 0 {
		s = q.asOfRead()
	} else if s, err = q.readHeads(ctx); err != nil {
		return fmt.Errorf("read heads: %w", err)
	}
	if q.plan, err = q.r.plan(ctx, q.req, s); err != nil {
		return err
	}
	if err := q.followErased(ctx); err != nil {
		return err
	}
	q.useKept()
	if err := q.remember(s); err != nil {
		return err
	}
	q.visible.follow(q.plan.tenant, q.tails)
	for _, p := range q.fromHeads {
		if err := q.deliverRows(p); err != nil {
			return err
		}
	}
	if since := cmp.Or(q.req.Since, q.req.AsOf); since > 0 {
		q.noteExpired(since)
	}
	q.beginExplanation(ctx)
	if q.explained != nil && q.explanation.planned {
		return nil
	}
	q.soon = q.r.cfg.Now().Add(time.Minute).UnixMilli()
	if q.req.Order == Unordered {
		defer q.confirm()
		if sink, ok := q.sink.(RollupSink); ok && q.rollupsPay() && !q.tailStands() {
			return q.readRollups(ctx, sink)
		}
		return q.gather(ctx)
	}
	for p := range q.plan.parts {
		if err := q.sink.Passed(q.req.Order.begin(p.Range)); err != nil {
			return ended(err)
		}
		read := q.windows
		if p.ordered {
			read = q.stream
		}
		if err := read(ctx, p); err != nil {
			return ended(err)
		}
	}
	return ended(q.sink.Passed(EndPosition))
}

// ended returns the error of a read, nil for a *Stop.
func ended(err error) error {
	var stop *Stop
	if errors.As(err, &stop) {
		return nil
	}
	return err
}

// Incomplete returns why the answer is not complete (rules R3, R4), a sentence each; nil if it is.
func (q *Query) Incomplete() []string { return q.missing }

// Unread returns the part of Incomplete that is in the log and no head has read yet, or answers (rule R3).
func (q *Query) Unread() []string { return q.unread }

// Deferrals returns the readings that make the answer incomplete because they wait for a limit.
func (q *Query) Deferrals() []Deferral { return q.deferrals }

// MissingChunks returns the chunks that make the answer incomplete because the store lacks them (rule R4).
func (q *Query) MissingChunks() []MissingChunks { return q.missingChunks }

// MissingChunks is a device and day with chunks that are stored and were not answered.
type MissingChunks struct {
	Device string
	Day    telemetry.Day
	Detail string
}

// Stats returns what the query has read, also after an error.
func (q *Query) Stats() Stats { return q.cost.stats() }

// expired reports whether chunks of a device and day may vanish one by one.
func (q *Query) expired(device string, day telemetry.Day) bool {
	return q.plan.tenant.ExpiredOf(device, day, q.soon)
}
