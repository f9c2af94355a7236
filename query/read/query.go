package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/telemetry"
)

// Query is one request under way. It is owned by the goroutine that runs it, but for Memory.
type Query struct {
	Memory *Memory

	r     *Reader
	req   Request
	sink  Sink
	plan  plan
	tails tails
	tally tally

	missing []string // why the answer is not complete
	days    int      // of the next window
	tight   bool     // windows of more than a day have turned out too large
	soon    int64    // what expires before it may be gone
}

// Query begins a query, which must be closed.
func (r *Reader) Query(req Request) *Query {
	req.Range = telemetry.Range{From: max(req.Range.From, 0), To: min(req.Range.To, telemetry.MaxMillis)}
	q := &Query{Memory: r.Memory(r.cfg.Bytes), r: r, req: req, days: daysOfMonth}
	if req.Early {
		q.days = 1
	}
	return q
}

// Range is the request's range within the times that readings can have.
func (q *Query) Range() telemetry.Range { return q.req.Range }

// Close gives the memory of the query back. Nothing that was read may be used any more.
func (q *Query) Close() { q.Memory.Close() }

// Run reads and tells the sink: heads first, then the map, then the store (rule R1). An error of the sink ends it and
// is returned as it is, but for a *Stop. Errors of its own: a *LimitError, ErrUnavailable, ErrBusy, chunk.ErrCorrupt,
// the context's. Pieces may have been added before an error.
func (q *Query) Run(ctx context.Context, sink Sink) error {
	if q.req.Range.Empty() {
		return nil
	}
	q.sink = sink
	return q.Explain(q.run(ctx))
}

func (q *Query) run(ctx context.Context) error {
	s, err := q.heads(ctx)
	if err != nil {
		return fmt.Errorf("read heads: %w", err)
	}
	if q.plan, err = q.r.plan(ctx, q.req, s); err != nil {
		return err
	}
	q.soon = q.r.cfg.Now().Add(time.Minute).UnixMilli()
	if q.req.Order == Unordered {
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

// ended is the error of a read; that the sink has enough is none.
func ended(err error) error {
	var stop *Stop
	if errors.As(err, &stop) {
		return nil
	}
	return err
}

// Incomplete says why the answer is not complete (rules R3, R4), a sentence each; nil if it is.
func (q *Query) Incomplete() []string { return q.missing }

// Stats is right also after an error.
func (q *Query) Stats() Stats { return q.tally.stats() }

// expired reports whether chunks of a day may vanish one by one.
func (q *Query) expired(day telemetry.Day) bool { return q.plan.tenant.Expired(day, q.soon) }
