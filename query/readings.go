package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/merge"
	"binnacle/query/read"
	"binnacle/query/read/piece"
)

// Readings calls emit with each row of the answer, in order. An error of emit ends the query and is returned as it is.
// Errors: a *LimitError when the answer can't be made within the query's limits; a *TimeoutError; ErrUnavailable when
// the store could not be read; ErrBusy; chunk.ErrCorrupt; the context's. Rows may have been emitted before an error.
// The Result's Stats are right also with an error.
func (q *Querier) Readings(ctx context.Context, r Request, emit func(Row) error) (Result, error) {
	order := piece.Ascending
	if r.Descending {
		order = piece.Descending
	}
	var rows *merge.Rows
	res, err := q.answer(ctx, question{kind: "readings", Request: r, order: order,
		open: func(ctx context.Context, cfg merge.Config) piece.Sink {
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

// Series calls emit with each series that has values in the range, in the order of device, labels and metric: where
// r.Rollups says so, and rollups cover it, as buckets. A curve is valid until emit returns. It fails as Readings
// does.
func (q *Querier) Series(ctx context.Context, r Request, emit func(Curve) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "series", Request: r}, func(cfg merge.Config) *merge.Series {
		return merge.NewSeries(cfg, distinct(r.Devices))
	}, emit)
}

// Statistics calls emit with the statistics for each series and kind of value, by buckets of a step from the range's
// start on, one bucket for the whole range if step is 0. Chunks are decoded only where they must be (rule R6). It
// fails as Readings does.
func (q *Querier) Statistics(ctx context.Context, r Request, step time.Duration,
	emit func(Statistic) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "statistics", Request: r}, func(cfg merge.Config) *merge.Statistics {
		return merge.NewStatistics(cfg, step.Milliseconds())
	}, emit)
}

// collector is a sink that yields its results once it has all pieces.
type collector[T any] interface {
	piece.Sink
	Each(yield func(T) error) error
}

// collect answers a question with what a sink yields.
func collect[T any, S collector[T]](ctx context.Context, asked question, open func(merge.Config) S,
	emit func(T) error) (Result, error) {
	var sink S
	asked.open = func(_ context.Context, cfg merge.Config) piece.Sink {
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
	kind  string
	order piece.Order

	open   func(context.Context, merge.Config) piece.Sink
	finish func(context.Context) error // nil for nothing
}

// answer reads what a question asks for into its sink, and finishes the answer. Both get the context of the query.
func (q *Querier) answer(ctx context.Context, asked question) (res Result, err error) {
	r := asked.Request
	err = q.admitAndObserve(ctx, asked.kind, r.Tenant, func(ctx context.Context, spent *store.Meter) error {
		if r.Rollups != nil {
			rollups := *r.Rollups
			rollups.Metrics = distinct(r.Metrics)
			r.Rollups = &rollups
		}
		reading := q.newQuery(read.Request{Narrow: r.From, Kept: r.Kept, Request: piece.Request{
			Tenant: r.Tenant, Devices: distinct(r.Devices), Metrics: distinct(r.Metrics), Range: r.Range,
			Order: asked.order, Early: r.Limit > 0, Strict: r.Strict, AsOf: r.AsOf, Since: r.since,
			Clips: asked.kind == "series", Rollups: r.Rollups,
		}})
		defer reading.Close()
		sink := asked.open(ctx, merge.Config{Range: reading.Range(), Metrics: distinct(r.Metrics),
			Memory: reading.Memory(), Newest: r.Newest})
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
		q.metrics.answered(res, reading.Memory().Peak())
		return err
	})
	return res, err
}

// Change is a value that has come, or has changed, between two moments.
type Change = merge.Change

// Changes calls emit with each value of the range that was stored between two moments, ms since 1970 UTC, and is new or
// differs: in the order of device, labels, metric and time. The later moment is r.AsOf; 0 is the present, with heads.
// It fails as Readings does.
func (q *Querier) Changes(ctx context.Context, r Request, since int64, emit func(Change) error) (Result, error) {
	r.since = since
	return collect(ctx, question{of: q, kind: "changes", Request: r}, func(cfg merge.Config) *merge.Changes {
		return merge.NewChanges(cfg, since)
	}, emit)
}

// FewDevices is the most named devices that are always read from their chunks.
const FewDevices = piece.FewDevices

// HasRollups reports whether there are rollups to read.
func (q *Querier) HasRollups() bool { return q.cfg.Rollups != nil }

// What aggregates are made of.
type (
	Aggregation = merge.Aggregation
	Aggregate   = merge.Aggregate
	Aggregated  = merge.Aggregated
	By          = merge.By
	Buckets     = merge.Buckets
)

// Aggregates calls emit with the aggregates for each group of series, by buckets, in the order of device, labels,
// tags, metric and bucket. The request's range must lie in the buckets. Tags to group by come from the catalog. It
// fails as Readings does.
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
	if limit, ok := errors.AsType[*LimitError](err); ok {
		limit.Narrow = append(limit.Narrow, "take a longer step, fewer groups (by), or no percentiles (aggregate)")
	}
	return res, err
}

// Latest calls emit with the newest value for each series in the range, in the order of device, labels and metric. It
// fails as Readings does.
func (q *Querier) Latest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	return collect(ctx, question{of: q, kind: "latest", Request: r}, merge.NewLatest, emit)
}

// latestLookBacks is how far Nearest looks back, step by step.
var latestLookBacks = []time.Duration{time.Hour, 24 * time.Hour, 31 * 24 * time.Hour}

// Nearest emits as Latest does, for a request that has only the end of a range and names its devices. It looks back an
// hour, and further only for metrics of devices that it has not found: those named, or any. Once a metric of a device
// is found, series of it with other labels are not looked for further back.
func (q *Querier) Nearest(ctx context.Context, r Request, emit func(Last) error) (Result, error) {
	type wanted struct{ device, metric string }
	var (
		all   []Last
		sum   Result
		found = make(map[wanted]bool)
		named = distinct(r.Metrics)
	)
	if named == nil {
		named = []string{""} // matches any metric
	}
	lacks := func(device, metric string) bool { return !found[wanted{device, metric}] }
	err := q.Admit(ctx, r.Tenant, func(ctx context.Context) error {
		to := r.Range.To
		for _, look := range latestLookBacks {
			asked := r
			asked.Range.From, asked.Range.To = max(0, r.Range.To-look.Milliseconds()), to
			asked.Devices = slices.DeleteFunc(distinct(r.Devices), func(device string) bool {
				return !slices.ContainsFunc(named, func(metric string) bool { return lacks(device, metric) })
			})
			asked.Metrics = slices.DeleteFunc(distinct(r.Metrics), func(metric string) bool {
				return !slices.ContainsFunc(asked.Devices, func(device string) bool { return lacks(device, metric) })
			})
			if len(asked.Devices) == 0 || asked.Range.Empty() {
				break
			}
			var now []wanted
			res, err := q.Latest(ctx, asked, func(l Last) error {
				is := wanted{l.Device, l.Metric}
				if r.Metrics == nil {
					is.metric = ""
				}
				if !found[is] {
					all, now = append(all, l), append(now, is)
				}
				return nil
			})
			sum.add(res)
			if err != nil {
				return err
			}
			for _, is := range now {
				found[is] = true
			}
			to = asked.Range.From
		}
		return nil
	})
	sum.Complete = err == nil && sum.Incomplete == nil
	if err != nil {
		return sum, err
	}
	slices.SortFunc(all, func(a, b Last) int {
		return cmp.Or(strings.Compare(a.Device, b.Device), a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric))
	})
	for _, l := range all {
		if err := emit(l); errors.Is(err, ErrEnough) {
			break
		} else if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// add adds another read of the same answer. Keys that both have asked count twice.
func (r *Result) add(x Result) {
	for _, why := range x.Incomplete {
		if !slices.Contains(r.Incomplete, why) {
			r.Incomplete = append(r.Incomplete, why)
		}
	}
	r.Stats = r.Stats.Plus(x.Stats)
}
