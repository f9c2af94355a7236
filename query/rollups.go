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
	asked := question{of: q, kind: "series", Request: r, rollups: &rollupsRequest}
	return collect(ctx, asked, func(cfg merge.Config) *merge.RollupSeries {
		return merge.NewRollupSeries(cfg, distinct(r.Devices))
	}, emit)
}

// FewDevices is the most named devices that are always read from their chunks.
const FewDevices = read.FewDevices

// HasRollups reports whether there are rollups to read.
func (q *Querier) HasRollups() bool { return q.cfg.Rollups != nil }
