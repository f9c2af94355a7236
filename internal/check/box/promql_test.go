package box_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/telemetry"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	samples "github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// promQL is what is asked of PromQL.
var promQL = []string{"a", `{device=~".+-0"}`, "sum by (device) (b)", "sum(a)", "rate(a[5m])", "avg_over_time(a[10m])",
	"sum_over_time(b[10m])", "max_over_time(a[10m])", `count_over_time({__name__=~"a|b"}[10m])`, "max(b) - min(a)",
	"increase(b[1h])", "avg by (device) (avg_over_time(b[1h]))"}

// longestWindow is what the longest of these questions reads before its begin.
const longestWindow = time.Hour

// askPromQL asks a question in PromQL, and compares the answer with that of Prometheus' engine over the oracle's map.
func (q *querier) askPromQL(ctx context.Context, tenant string) {
	text := oneOf(q.rnd, promQL...)
	step := oneOf(q.rnd, 15*time.Second, time.Minute, 10*time.Minute)
	end := time.UnixMilli(time.Now().Add(-pick(q.rnd, 0, 3*time.Hour)).UnixMilli())
	if q.rnd.IntN(2) == 0 { // as panels do
		end, step = time.Now().Truncate(time.Minute), time.Minute
	}
	start := end.Add(-step * time.Duration(q.rnd.IntN(60)))
	read := telemetry.Range{From: start.Add(-longestWindow).UnixMilli(), To: end.UnixMilli() + 1}
	x := q.exactly(ctx, tenant, read)
	got, ok := q.promQL(&x, url.Values{"query": {text}, "start": {seconds(start)}, "end": {seconds(end)},
		"step": {seconds(time.UnixMilli(step.Milliseconds()))}})
	if !ok {
		return
	}
	all, ok := q.b.oracle.values(x)
	if !ok {
		return
	}
	about := fmt.Sprintf("%s of %s from %d to %d, step %s", text, tenant, start.UnixMilli(), end.UnixMilli(), step)
	want, err := evaluate(all, text, start, end, step)
	if err != nil {
		q.b.fail("%s: Prometheus can't answer %s: %v", q.name, about, err)
		return
	}
	for name, points := range want {
		if !slices.EqualFunc(points, got[name], func(p, q at) bool { return p.time == q.time && isNear(p.value, q.value) }) {
			q.b.fail("%s: the answer to %s has %v for %s instead of %v", q.name, about, got[name], name, points)
			return
		}
	}
	if len(got) != len(want) {
		q.b.fail("%s: the answer to %s has %d series instead of %d", q.name, about, len(got), len(want))
	}
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// promQL sends a range query, and returns the answer if it is complete.
func (q *querier) promQL(x *exact, form url.Values) (map[string][]at, bool) {
	var answer struct {
		Warnings []string
		Data     struct {
			Result []struct {
				Metric map[string]string
				Values [][2]any
			}
		}
	}
	ok := q.get(x.after, x.tenant, "/prometheus/api/v1/query_range", form, x.ends, &answer)
	if !ok || len(answer.Warnings) > 0 {
		return nil, false
	}
	out := map[string][]at{}
	for _, s := range answer.Data.Result {
		delete(s.Metric, siteTag) // lists are compared with the tag
		name := labels.FromMap(s.Metric).String()
		for _, v := range s.Values {
			value, err := strconv.ParseFloat(v[1].(string), 64)
			if err != nil {
				q.b.fail("%s: the answer to %s has the value %v", q.name, form, v[1])
			}
			out[name] = append(out[name], at{int64(v[0].(float64)*1000 + 0.5), value})
		}
	}
	return out, true
}

// evaluate answers with Prometheus' engine.
func evaluate(all map[series][]at, text string, start, end time.Time, step time.Duration) (map[string][]at, error) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Hour, LookbackDelta: 5 * time.Minute})
	q, err := engine.NewRangeQuery(context.Background(), known(all), nil, text, start, end, step)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	res := q.Exec(context.Background())
	m, err := res.Matrix()
	out := map[string][]at{}
	for _, s := range m {
		for _, p := range s.Floats {
			out[s.Metric.String()] = append(out[s.Metric.String()], at{p.T, p.F})
		}
	}
	return out, err
}

// known is values as Prometheus reads them: storage.Queryable.
type known map[series][]at

// Querier implements storage.Queryable.
func (k known) Querier(_, _ int64) (storage.Querier, error) {
	return knownQuerier{storage.NoopQuerier(), k}, nil
}

// knownQuerier reads what is known: storage.Querier.
type knownQuerier struct {
	storage.Querier
	all known
}

// Select implements storage.Querier.
func (k knownQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	var out selection
	for s, points := range k.all {
		name := labels.FromStrings(model.MetricNameLabel, s.metric, "device", s.device)
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(name.Get(m.Name)) }) {
			continue
		}
		values := make([]samples.Sample, len(points))
		for i, p := range points {
			values[i] = sample(p)
		}
		out.all = append(out.all, storage.NewListSeries(name, values))
	}
	slices.SortFunc(out.all, func(x, y storage.Series) int { return labels.Compare(x.Labels(), y.Labels()) })
	return &out
}

// selection is series that were selected: storage.SeriesSet.
type selection struct {
	all []storage.Series
	at  int
}

// Next implements storage.SeriesSet.
func (f *selection) Next() bool { f.at++; return f.at <= len(f.all) }

// At implements storage.SeriesSet.
func (f *selection) At() storage.Series { return f.all[f.at-1] }

// Err implements storage.SeriesSet.
func (f *selection) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (f *selection) Warnings() annotations.Annotations { return nil }

// sample is a value as Prometheus reads it: chunks.Sample.
type sample at

// T implements chunks.Sample.
func (s sample) T() int64 { return s.time }

// ST implements chunks.Sample.
func (s sample) ST() int64 { return 0 }

// F implements chunks.Sample.
func (s sample) F() float64 { return s.value }

// H implements chunks.Sample.
func (s sample) H() *histogram.Histogram { return nil }

// FH implements chunks.Sample.
func (s sample) FH() *histogram.FloatHistogram { return nil }

// Type implements chunks.Sample.
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements chunks.Sample.
func (s sample) Copy() samples.Sample { return s }
