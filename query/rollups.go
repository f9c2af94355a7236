package query

import (
	"context"

	"binnacle/query/merge"
	"binnacle/query/read"
)

// RollupSeries calls emit with each series of the metrics of a request, which names some, that has values in the range,
// where rollups cover it as buckets, in the order of device, labels and metric. A curve is valid until emit returns.
// Errors are those of Readings.
func (q *Querier) RollupSeries(ctx context.Context, r Request, rollupsRequest RollupsRequest,
	emit func(*RollupCurve) error) (Result, error) {
	rollupsRequest.Metrics = distinct(r.Metrics)
	var rollups *merge.RollupSeries
	return q.answer(ctx, question{kind: "series", Request: r, rollups: &rollupsRequest,
		open: func(_ context.Context, cfg merge.Config) read.Sink {
			rollups = merge.NewRollupSeries(cfg, distinct(r.Devices))
			return rollups
		},
		finish: func(ctx context.Context) error { return rollups.Each(streamed(ctx, emit)) }})
}

// FewDevices is the most named devices that are always read from their chunks.
const FewDevices = read.FewDevices

// HasRollups reports whether there are rollups to read.
func (q *Querier) HasRollups() bool { return q.cfg.Rollups != nil }
