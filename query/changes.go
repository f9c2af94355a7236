package query

import (
	"context"

	"binnacle/query/merge"
	"binnacle/query/read"
)

// Change is a value that has come, or has changed, between two moments.
type Change = merge.Change

// Changes calls emit with each value of the range that was stored between two moments, ms since 1970 UTC, and is new or
// differs: in the order of device, labels, metric and time. The later moment is r.AsOf; 0 is the present, with heads.
// Errors are those of Readings.
func (q *Querier) Changes(ctx context.Context, r Request, since int64, emit func(Change) error) (Result, error) {
	var changes *merge.Changes
	r.since = since
	return q.answer(ctx, question{kind: "changes", Request: r,
		open: func(_ context.Context, cfg merge.Config) read.Sink {
			changes = merge.NewChanges(cfg, since, r.AsOf)
			return changes
		},
		finish: func(ctx context.Context) error { return changes.Each(streamed(ctx, emit)) }})
}
