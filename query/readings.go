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
// Errors: a *LimitError when the answer can't be made within the query's limits; a *TimeoutError; ErrUnavailable when
// the store could not be read; ErrBusy; chunk.ErrCorrupt; the context's. Rows may have been emitted before an error.
// The Result's Stats are right also with an error.
func (q *Querier) Readings(ctx context.Context, r Request, emit func(Row) error) (Result, error) {
	order := read.Ascending
	if r.Descending {
		order = read.Descending
	}
	var rows *merge.Rows
	res, err := q.answer(ctx, question{kind: "readings", Request: r, order: order,
		open: func(ctx context.Context, cfg merge.Config) read.Sink {
			rows = merge.NewRows(merge.RowsConfig{Config: cfg, Order: order, Limit: r.Limit, After: r.After},
				streamed(ctx, emit))
			return rows
		}})
	if rows != nil {
		res.Truncated = rows.Truncated()
		q.metrics.rows.Add(float64(rows.Count()))
	}
	return res, err
}

// Series calls emit with each series that has values in the range, in the order of device, labels and metric. Errors
// are those of Readings.
func (q *Querier) Series(ctx context.Context, r Request, emit func(Curve) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "series", Request: r}, merge.NewSeries, emit)
}

// Statistics calls emit with the statistics of each series and kind of value, by buckets of a step from the range's
// start on, one bucket for the whole range if step is 0. Chunks are decoded only where they must be (rule R6). Errors
// are those of Readings.
func (q *Querier) Statistics(ctx context.Context, r Request, step time.Duration,
	emit func(Statistic) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "statistics", Request: r}, func(cfg merge.Config) *merge.Statistics {
		return merge.NewStatistics(cfg, step.Milliseconds())
	}, emit)
}

// collector is a sink that yields what it has made of pieces once it has all of them.
type collector[T any] interface {
	read.Sink
	Each(yield func(T) error) error
}

// collect answers a question with what a sink yields.
func collect[T any, S collector[T]](ctx context.Context, asked question, open func(merge.Config) S,
	emit func(T) error) (Result, error) {
	var sink S
	asked.open = func(_ context.Context, cfg merge.Config) read.Sink {
		sink = open(cfg)
		return sink
	}
	asked.finish = func(ctx context.Context) error { return sink.Each(streamed(ctx, emit)) }
	return asked.of.answer(ctx, asked)
}

// question is a request, the sink that reads it, and what makes the answer.
type question struct {
	of *Querier
	Request
	kind    string
	order   read.Order
	rollups *RollupsRequest // for a read.RollupSink; nil for none

	open   func(context.Context, merge.Config) read.Sink
	finish func(context.Context) error // nil for nothing
}

// answer reads what a question asks for into its sink, and finishes the answer. Both get the context of the query.
func (q *Querier) answer(ctx context.Context, asked question) (res Result, err error) {
	r := asked.Request
	err = q.admitAndObserve(ctx, asked.kind, r.Tenant, func(ctx context.Context, spent *store.Meter) error {
		reading := q.newQuery(read.Request{
			Tenant: r.Tenant, Devices: distinct(r.Devices), Metrics: distinct(r.Metrics), Range: r.Range,
			Order: asked.order, Early: r.Limit > 0, Strict: r.Strict, AsOf: r.AsOf, Since: r.since,
			Clips: asked.kind == "series", Rollups: asked.rollups, Narrow: r.From, Kept: r.Kept,
		})
		defer reading.Close()
		sink := asked.open(ctx, merge.Config{Range: reading.Range(), Metrics: distinct(r.Metrics), Memory: reading.Memory})
		err := reading.Run(ctx, sink)
		if s, ok := sink.(interface{ Begin(int64) }); ok && err == nil && r.From != nil {
			s.Begin(reading.Begin())
		}
		if err == nil && asked.finish != nil {
			err = reading.Explain(asked.finish(ctx))
		}
		if errors.Is(err, ErrEnough) {
			err = nil
		}
		res = resultOf(reading, spent, err)
		q.metrics.answered(res, reading.Memory.Peak())
		return err
	})
	return res, err
}
