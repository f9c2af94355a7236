package query

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/store"
	"binnacle/query/merge"
	"binnacle/query/read"
)

// Readings calls emit with each row of the answer, in order. An error of emit ends the query and is returned as it is.
// Errors: a *LimitError when the answer can't be made within the query's limits; ErrUnavailable when the store could
// not be read; ErrBusy; chunk.ErrCorrupt; the context's. Rows may have been emitted before an error. The Result's Stats
// are right also with an error.
func (q *Querier) Readings(ctx context.Context, r Request, emit func(Row) error) (Result, error) {
	order := read.Ascending
	if r.Descending {
		order = read.Descending
	}
	var rows *merge.Rows
	res, err := q.answer(ctx, "readings", r, order, func(cfg merge.Config) read.Sink {
		rows = merge.NewRows(cfg, order, r.Limit, emit)
		rows.After(r.After)
		return rows
	}, func() error { return nil })
	if rows != nil {
		res.Truncated = rows.Truncated()
		q.metrics.rows.Add(float64(rows.Count()))
	}
	return res, err
}

// Series calls emit with each series that has values in the range, in the order of device, labels and metric. Errors
// are those of Readings.
func (q *Querier) Series(ctx context.Context, r Request, emit func(Curve) error) (Result, error) {
	var series *merge.Series
	return q.answer(ctx, "series", r, read.Unordered, func(cfg merge.Config) read.Sink {
		series = merge.NewSeries(cfg)
		return series
	}, func() error { return series.Each(emit) })
}

// Statistics calls emit with the statistics of each series and kind of value, by buckets of a step from the range's
// start on, one bucket for the whole range if step is 0. Chunks are decoded only where they must be (rule R6). Errors
// are those of Readings.
func (q *Querier) Statistics(ctx context.Context, r Request, step time.Duration,
	emit func(Statistic) error) (Result, error) {
	var statistics *merge.Statistics
	return q.answer(ctx, "statistics", r, read.Unordered, func(cfg merge.Config) read.Sink {
		statistics = merge.NewStatistics(cfg, step.Milliseconds())
		return statistics
	}, func() error { return statistics.Each(emit) })
}

// answer reads what a request asks for into a sink, and then calls finish.
func (q *Querier) answer(
	ctx context.Context, kind string, r Request, order read.Order, open func(merge.Config) read.Sink, finish func() error,
) (res Result, err error) {
	return q.answerWith(ctx, kind, r, order, nil, open, finish)
}

// answerWith is answer for a sink that takes lanes too.
func (q *Querier) answerWith(ctx context.Context, kind string, r Request, order read.Order, lanes *Lanes,
	open func(merge.Config) read.Sink, finish func() error) (res Result, err error) {
	err = q.observed(ctx, kind, r.Tenant, func(ctx context.Context, spent *store.Meter) error {
		under := q.underway(read.Request{
			Tenant: r.Tenant, Devices: distinct(r.Devices), Metrics: distinct(r.Metrics), Range: r.Range,
			Order: order, Early: r.Limit > 0, Strict: r.Strict, Timeout: r.Timeout,
			AsOf: r.AsOf, Since: r.since, Clips: kind == "series",
			Lanes: lanes,
		})
		defer under.Close()
		err := under.Run(ctx, open(merge.Config{Range: under.Range(), Metrics: distinct(r.Metrics), Memory: under.Memory}))
		if err == nil {
			err = under.Explain(finish())
		}
		if errors.Is(err, ErrEnough) {
			err = nil
		}
		res = Result{Complete: err == nil && under.Incomplete() == nil, Incomplete: under.Incomplete(), Stats: under.Stats()}
		res.Stats.RequestUnits = spent.Read().RUs
		q.metrics.answered(res, under.Memory.Peak())
		return err
	})
	return res, err
}
