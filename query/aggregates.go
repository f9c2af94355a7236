package query

import (
	"context"
	"errors"

	"binnacle/internal/telemetry"
	"binnacle/query/merge"
	"binnacle/query/read"
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
	var grouped *merge.Grouped
	res, err := q.answer(ctx, question{kind: "aggregates", Request: r,
		open: func(_ context.Context, cfg merge.Config) read.Sink {
			grouped = merge.NewGrouped(cfg, ask)
			return grouped
		},
		finish: func(ctx context.Context) error { return grouped.Each(streamed(ctx, emit)) }})
	var limit *LimitError
	if errors.As(err, &limit) {
		limit.Narrow = append(limit.Narrow, "take a longer step, fewer groups (by), or no percentiles (aggregate)")
	}
	return res, err
}
