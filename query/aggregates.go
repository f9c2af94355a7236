package query

import (
	"context"
	"errors"

	"binnacle/internal/telemetry"
	"binnacle/query/merge"
)

// What aggregates are made of.
type (
	Aggregation = merge.Aggregation
	Aggregate   = merge.Aggregate
	Aggregated  = merge.Aggregated
	By          = merge.By
	Buckets     = merge.Buckets
)

// Aggregates calls emit with the aggregates of each group of series, by buckets, in the order of device, labels, tags,
// metric and bucket. The request's range must lie in the buckets. Tags to group by come from the catalog. Errors are
// those of Readings.
func (q *Querier) Aggregates(ctx context.Context, r Request, ask Aggregation,
	emit func(Aggregated) error) (Result, error) {
	if ask.By != nil && len(ask.By.Tags) > 0 {
		by, tags := *ask.By, q.Tags(r.Tenant)
		by.TagsOf = func(device string) (telemetry.Labels, error) { return tags.Of(ctx, device) }
		ask.By = &by
	}
	res, err := collect(ctx, question{of: q, kind: "aggregates", Request: r}, func(cfg merge.Config) *merge.Grouped {
		return merge.NewGrouped(cfg, ask)
	}, emit)
	var limit *LimitError
	if errors.As(err, &limit) {
		limit.Narrow = append(limit.Narrow, "take a longer step, fewer groups (by), or no percentiles (aggregate)")
	}
	return res, err
}
