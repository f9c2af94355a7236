package query

import (
	"context"

	"binnacle/query/merge"
	"binnacle/query/read"
)

// Strips calls emit with each series of the one metric of a request that has values in the range, of what lanes show as
// buckets, in the order of device and labels. A strip is valid until emit returns. Errors are those of Readings.
func (q *Querier) Strips(ctx context.Context, r Request, lanes Lanes, emit func(*Strip) error) (Result, error) {
	lanes.Metric = r.Metrics[0]
	var strips *merge.Strips
	some := false
	res, err := q.answer(ctx, question{kind: "series", Request: r, lanes: &lanes,
		open: func(_ context.Context, cfg merge.Config) read.Sink {
			strips = merge.NewStrips(cfg, distinct(r.Devices))
			return strips
		},
		finish: func(ctx context.Context) error {
			return strips.Each(streamed(ctx, func(s *Strip) error {
				some = true
				return emit(s)
			}))
		}})
	if err == nil && some {
		q.uses.note(r.Tenant, lanes.Metric, res.Stats.LanesSaved)
	}
	return res, err
}

// FewDevices is of how many devices chunks are read, whatever lanes show, where a request names them.
const FewDevices = read.FewDevices

// HasLanes reports whether there are lanes to read.
func (q *Querier) HasLanes() bool { return q.cfg.Lanes != nil }
