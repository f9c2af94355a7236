package query

import (
	"context"

	"binnacle/query/merge"
)

// Change is a value that has come, or has changed, between two moments.
type Change = merge.Change

// Changes calls emit with each value of the range that was stored between two moments, ms since 1970 UTC, and is new or
// differs: in the order of device, labels, metric and time. The later moment is r.AsOf; 0 is the present, with heads.
// Errors are those of Readings.
func (q *Querier) Changes(ctx context.Context, r Request, since int64, emit func(Change) error) (Result, error) {
	r.since = since
	return collect(ctx, question{of: q, kind: "changes", Request: r}, func(cfg merge.Config) *merge.Changes {
		return merge.NewChanges(cfg, since, r.AsOf)
	}, emit)
}
