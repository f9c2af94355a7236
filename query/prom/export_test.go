package prom

import (
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Readings is the readings of a tenant as an engine sees them, each time as they are then.
type Readings struct {
	querier   *query.Querier
	tenant    string
	pushdowns pushdowns
	cost      query.Stats // of the last selector that was closed
	check     func(*pushdown)
}

// Sums is what pushdowns of sums and averages over time have found, by what is computed.
type Sums map[string][]*series

// Record returns what the sums and averages of queries will have found from now on.
func (r *Readings) Record() Sums {
	all := make(Sums)
	r.check = func(l *pushdown) {
		if l.inner == nil && isSum(l.function) && l.found.err == nil {
			all[l.key()] = cloned(l.found.series)
		}
	}
	return all
}

// Take makes those of queries be those of others from now on, after it has called differ with each value that is not
// the same in all bits.
func (r *Readings) Take(others Sums, differ func(function string, own, other float64)) {
	r.check = func(l *pushdown) {
		given, ok := others[l.key()]
		if !ok || l.inner != nil || l.found.err != nil {
			return
		}
		same := len(given) == len(l.found.series)
		for i := 0; same && i < len(given); i++ {
			same = labels.Equal(given[i].labels, l.found.series[i].labels)
			for k, v := range l.found.series[i].values {
				if other := given[i].values[k]; math.Float64bits(v) != math.Float64bits(other) {
					differ(l.function, v, other)
				}
			}
		}
		if same { // else the answers differ, as they should
			l.found.series = cloned(given)
		}
	}
}

func isSum(function string) bool { return function == "sum_over_time" || function == "avg_over_time" }

func cloned(all []*series) (out []*series) {
	for _, s := range all {
		of := *s
		of.values = slices.Clone(s.values)
		out = append(out, &of)
	}
	return out
}

// Cost is what the last selector has cost.
func (r *Readings) Cost() query.Stats { return r.cost }

// Over makes Readings.
func Over(q *query.Querier, tenant string) *Readings {
	return &Readings{querier: q, tenant: tenant, pushdowns: make(pushdowns)}
}

// Querier implements storage.Queryable.
func (r *Readings) Querier(mint, maxt int64) (storage.Querier, error) {
	t := &tenantStorage{
		querier: r.querier, tenant: r.tenant, memory: r.querier.Memory(1 << 30),
		tags: r.querier.Tags(r.tenant), pushdowns: r.pushdowns, check: r.check, foldAt: 300,
	}
	return &ownSelector{selector{tenantStorage: t, mint: mint, maxt: maxt}, r}, nil
}

// ownSelector is a selector that ends with what it has read.
type ownSelector struct {
	selector
	of *Readings
}

func (s *ownSelector) Close() error {
	s.of.cost = s.cost
	s.memory.Close()
	return nil
}

// Pushdowns is an engine that evaluates queries with pushdowns. The storage that it is asked over must pass its
// selectors to those of Over, with their matchers as they are.
type Pushdowns struct {
	promql.QueryEngine
	Over *Readings
}

// NewInstantQuery implements promql.QueryEngine.
func (l Pushdowns) NewInstantQuery(ctx context.Context, s storage.Queryable, opts promql.QueryOpts, text string,
	at time.Time) (promql.Query, error) {
	return l.rewritten(func() (promql.Query, error) { return l.QueryEngine.NewInstantQuery(ctx, s, opts, text, at) })
}

// NewRangeQuery implements promql.QueryEngine.
func (l Pushdowns) NewRangeQuery(ctx context.Context, s storage.Queryable, opts promql.QueryOpts, text string, start,
	end time.Time, step time.Duration) (promql.Query, error) {
	return l.rewritten(func() (promql.Query, error) {
		return l.QueryEngine.NewRangeQuery(ctx, s, opts, text, start, end, step)
	})
}

func (l Pushdowns) rewritten(begin func() (promql.Query, error)) (promql.Query, error) {
	q, err := begin()
	if err != nil {
		return nil, err
	}
	clear(l.Over.pushdowns)
	run := func(ctx context.Context, q promql.Query) *promql.Result { return q.Exec(ctx) }
	return &rewrittenQuery{q, l.Over.pushdowns, begin, run}, nil
}

// Count is how many pushdowns the last query had.
func (l Pushdowns) Count() int { return len(l.Over.pushdowns) }

// Window is a leaf by itself: a function of a range, or with "" a selector with its lookback, at n instants.
type Window struct {
	Function            string
	First, Step         int64
	N                   int
	Range, Offset, Grid int64
}

func (w Window) pushdown() *pushdown {
	return &pushdown{function: w.Function, window: w.Range, offset: w.Offset, steps: stepGrid{w.First, w.Step, w.N},
		back: w.Range + w.Offset, seconds: (time.Duration(w.Range) * time.Millisecond).Seconds()}
}

// FromBuckets is the functions that can be computed from buckets.
func FromBuckets() []string { return slices.Sorted(maps.Keys(fromBuckets)) }

// Fits reports whether the windows are buckets of a grid.
func (w Window) Fits() bool { return w.pushdown().fitsGrid(w.Grid) }

// FromSamples is the value at each instant, from samples.
func (w Window) FromSamples(times []int64, values []float64) []float64 {
	out := make([]float64, w.N)
	newWindows(w.pushdown()).compute(&series{times: slices.Clone(times), values: slices.Clone(values)}, out)
	return out
}

// FromBuckets is the same from buckets of the samples, unless they can't tell.
func (w Window) FromBuckets(times []int64, values []float64) (out []float64, certain bool) {
	b := newBuckets(w.pushdown(), w.Grid)
	b.reset()
	for i, t := range times {
		b.add(t, values[i])
	}
	return w.computed(b)
}

// FromRollups is the same from rollups of a day, the only one that the samples are of.
func (w Window) FromRollups(day telemetry.Day, times []int64, values []float64) (out []float64, certain bool) {
	b := newBuckets(w.pushdown(), w.Grid)
	b.reset()
	table := rollup.NewTable(1, rollup.Minute.PerDay(), b.needs.Families())
	s := rollup.Samples{Times: times, Values: values}
	s.Fill(table, 0, day, 0, rollup.HoursOfDay)
	if w.Grid == int64(rollup.HalfHour) {
		table = rollup.HalfHours(table, b.needs.Families())
	}
	b.copy(rowPart{table, 0, day.Start(), 0, table.Buckets})
	return w.computed(b)
}

func (w Window) computed(b *buckets) (out []float64, certain bool) {
	out = make([]float64, w.N)
	_, certain = b.compute(w.pushdown(), out)
	return out, certain
}

// Known is a list of the tenant's names (""), values of a label, or series ("series"), each as it is spelt: as the
// catalog has it, if it can, and as readings do.
func (r *Readings) Known(ctx context.Context, what string, matchers []*labels.Matcher) (known, read []string, ok bool,
	err error) {
	q, err := r.Querier(0, telemetry.MaxMillis-1)
	if err != nil {
		return nil, nil, false, err
	}
	defer func() { _ = q.Close() }()
	s := &q.(*ownSelector).selector
	var series []labels.Labels
	_, ok, err = s.fromCatalog(ctx, matchers, func(l *catalogLists) (ok bool) {
		switch what {
		case "":
			known, ok = l.names()
		case "series":
			series, ok, _ = l.series(s.memory, s.first)
		default:
			known, ok = l.values(what)
		}
		return ok
	})
	if err != nil {
		return nil, nil, false, err
	}
	found, _, err := s.namesRead(ctx, matchers)
	switch what {
	case "":
		read = namesOf(found)
	case "series":
		known, read = spelt(series), spelt(found)
	default:
		read = valuesOf(found, what)
	}
	return known, read, ok, err
}

func spelt(sets []labels.Labels) (out []string) {
	for _, l := range sets {
		out = append(out, l.String())
	}
	return out
}

// ListsUntil calls list with one selector of a request after the other, as lists do.
func ListsUntil(ctx context.Context, selectors []string, list func()) error {
	each := func(*selector, context.Context, []*labels.Matcher) ([]string, annotations.Annotations, error) {
		list()
		return nil, nil, nil
	}
	u := union[string]{strings.Compare, each}
	a := &api{parser: parser.NewParser(parser.Options{}), cfg: Config{Now: time.Now}}
	_, err := u.answer(ctx, a, &call{Request: &http.Request{Form: url.Values{"match[]": selectors}},
		tenantStorage: &tenantStorage{}})
	return err
}
