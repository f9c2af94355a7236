package read

import (
	"fmt"
	"sort"
	"time"

	"binnacle/internal/telemetry"
)

// cutBySink hands on only chunks that were cut by a moment.
type cutBySink struct {
	Sink
	asOf int64
}

// Add implements Sink.
func (k cutBySink) Add(p *Piece) error {
	if !p.CutBy(k.asOf) {
		p.Release()
		return nil
	}
	return k.Sink.Add(p)
}

// CutBy reports whether a piece is a chunk that was cut by a moment, in ms since 1970 UTC.
func (p *Piece) CutBy(at int64) bool { return p.Chunk != nil && p.Chunk.Header.Cut <= at }

// asOfRead returns the head read of a query about an earlier moment, which asks no heads.
func (q *Query) asOfRead() headRead {
	q.sink = cutBySink{q.sink, q.req.AsOf}
	q.tails = make(tails)
	return headRead{began: q.r.cfg.Now()}
}

// noteExpired notes that what was known at a moment may have expired since.
func (q *Query) noteExpired(asOf int64) {
	tenant, r := q.plan.tenant, q.req.Range
	now := q.r.cfg.Now().UnixMilli()
	first, behind := telemetry.DayOf(r.From), telemetry.DayOf(r.To-1)+1
	kept := first + telemetry.Day(sort.Search(int(behind-first), func(i int) bool {
		return !tenant.Expired(first+telemetry.Day(i), now)
	}))
	if q.hidesIn(q.req.Range) || kept > first && !tenant.Expired(kept-1, asOf) {
		kept = max(kept, first+1)
		q.missing = append(q.missing, fmt.Sprintf("readings of days up to %s that were known at %s may have expired since",
			kept-1, time.UnixMilli(asOf).UTC().Format(time.RFC3339)))
	}
}
