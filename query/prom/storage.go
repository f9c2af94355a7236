package prom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// Warnings of answers.
var (
	errRounded    = errors.New("integers beyond 2^53 are rounded to the nearest float")
	errIncomplete = errors.New("the answer is incomplete")
)

// tenantStorage is the readings of one tenant as PromQL sees them. It belongs to one request, whose samples its memory
// counts, and must be asked by one goroutine at a time.
type tenantStorage struct {
	querier *query.Querier
	tenant  string
	memory  *query.Memory

	tags map[string]telemetry.Labels // of devices that were asked for
	all  bool                        // of all devices
}

// Querier implements storage.Queryable. Both times are inclusive.
func (t *tenantStorage) Querier(mint, maxt int64) (storage.Querier, error) {
	return &selector{t, mint, maxt}, nil
}

// selector answers from a range of time.
type selector struct {
	*tenantStorage
	mint, maxt int64
}

// Close implements storage.Querier. What was read lives as long as the request.
func (*selector) Close() error { return nil }

// Select implements storage.Querier. The series are always sorted.
func (s *selector) Select(ctx context.Context, _ bool, hints *storage.SelectHints,
	matchers ...*labels.Matcher) storage.SeriesSet {
	r := s.request(matchers)
	if hints != nil {
		r.Range = rangeOf(max(s.mint, hints.Start), min(s.maxt, hints.End))
	}
	return &set{find: func() ([]*series, annotations.Annotations, error) { return s.read(ctx, r, matchers) }}
}

// request asks for what the matchers may match.
func (s *selector) request(matchers []*labels.Matcher) query.Request {
	return query.Request{
		Tenant: s.tenant, Range: rangeOf(s.mint, s.maxt),
		Devices: named(matchers, deviceLabel), Metrics: named(matchers, model.MetricNameLabel),
	}
}

// rangeOf is the range of both times inclusive.
func rangeOf(mint, maxt int64) telemetry.Range {
	return telemetry.Range{From: max(mint, 0), To: min(maxt, telemetry.MaxMillis-1) + 1}
}

func (s *selector) read(ctx context.Context, r query.Request, matchers []*labels.Matcher) (
	out []*series, warnings annotations.Annotations, err error) {
	if err := s.know(ctx, r.Devices); err != nil {
		return nil, nil, err
	}
	var b labels.ScratchBuilder
	rounded := false
	res, err := s.querier.Series(ctx, r, func(c query.Curve) error {
		named := labelsOf(&b, c.Metric, c.Device, c.Labels, s.tags[c.Device])
		if !matches(matchers, named) {
			return nil
		}
		made, inexact, err := s.samples(c)
		if err != nil || len(made.times) == 0 {
			return err
		}
		rounded = rounded || inexact
		made.labels = named
		out = append(out, made)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, why := range res.Incomplete {
		warnings.Add(fmt.Errorf("%w: %s", errIncomplete, why))
	}
	if rounded {
		warnings.Add(errRounded)
	}
	return united(out), warnings, nil
}

// maxAsked is up to how many devices are looked up one by one.
const maxAsked = 32

// know learns the tags of devices, nil for all.
func (s *selector) know(ctx context.Context, devices []string) error {
	if s.all {
		return nil
	}
	if devices == nil || len(devices) > maxAsked {
		s.all = true
		return s.learn(ctx, "", math.MaxInt-1)
	}
	for _, d := range devices {
		if _, known := s.tags[d]; known {
			continue
		}
		s.tags[d] = nil
		// The first device whose id begins with this one's is the one itself, if it is there.
		if err := s.learn(ctx, d, 1); err != nil {
			return err
		}
	}
	return nil
}

func (s *selector) learn(ctx context.Context, prefix string, limit int) error {
	found, _, err := s.querier.Devices(ctx, s.tenant, prefix, limit)
	for _, d := range found {
		s.tags[d.Device] = d.Tags
	}
	return err
}

// samples is the numbers of a curve, and whether any of them is rounded. Text is left out.
func (s *selector) samples(c query.Curve) (out *series, rounded bool, err error) {
	n := 0
	for i := range c.Stretches {
		if c.Stretches[i].Kind != telemetry.Text {
			n += len(c.Stretches[i].Times)
		}
	}
	if err := s.memory.Take(16 * int64(n)); err != nil {
		return nil, false, err
	}
	out = &series{times: make([]int64, 0, n), values: make([]float64, 0, n)}
	for i := range c.Stretches {
		st := &c.Stretches[i]
		if st.Kind == telemetry.Text {
			continue
		}
		out.times = append(out.times, st.Times...)
		for _, bits := range st.Bits {
			v, exact := number(st.Kind, bits)
			out.values = append(out.values, v)
			rounded = rounded || !exact
		}
	}
	return out, rounded, nil
}

// number is a value as PromQL sees it, and whether it is that very number. Bits of floats are kept: they tell stale
// markers from other NaN.
func number(kind telemetry.Kind, bits uint64) (value float64, exact bool) {
	if kind == telemetry.Float {
		return math.Float64frombits(bits), true
	}
	const most = 1 << 53
	n := int64(bits)
	f := float64(n)
	return f, n >= -most && n <= most || f < math.MaxInt64 && int64(f) == n
}

// united sorts series and makes one of those that have the same labels, which differ only in what PromQL does not see.
func united(all []*series) []*series {
	slices.SortStableFunc(all, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	var out []*series
	for _, s := range all {
		if n := len(out); n > 0 && labels.Equal(out[n-1].labels, s.labels) {
			out[n-1] = out[n-1].with(s)
			continue
		}
		out = append(out, s)
	}
	return out
}

// with is the samples of both, of an instant in both that of s.
func (s *series) with(other *series) *series {
	out := &series{labels: s.labels}
	for i, j := 0, 0; i < len(s.times) || j < len(other.times); {
		if j == len(other.times) || i < len(s.times) && s.times[i] <= other.times[j] {
			if j < len(other.times) && s.times[i] == other.times[j] {
				j++
			}
			out.times, out.values = append(out.times, s.times[i]), append(out.values, s.values[i])
			i++
			continue
		}
		out.times, out.values = append(out.times, other.times[j]), append(out.values, other.values[j])
		j++
	}
	return out
}

// names is the label sets of all series in the range that have numbers and match, without reading more of them than
// that needs.
func (s *selector) names(ctx context.Context, matchers []*labels.Matcher) (
	out []labels.Labels, warnings annotations.Annotations, err error) {
	r := s.request(matchers)
	if err := s.know(ctx, r.Devices); err != nil {
		return nil, nil, err
	}
	var b labels.ScratchBuilder
	res, err := s.querier.Statistics(ctx, r, 0, func(st query.Statistic) error {
		if st.Kind == telemetry.Text {
			return nil
		}
		if l := labelsOf(&b, st.Metric, st.Device, st.Labels, s.tags[st.Device]); matches(matchers, l) {
			out = append(out, l)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, why := range res.Incomplete {
		warnings.Add(fmt.Errorf("%w: %s", errIncomplete, why))
	}
	slices.SortFunc(out, labels.Compare)
	return slices.CompactFunc(out, labels.Equal), warnings, nil
}

// LabelValues implements storage.Querier.
func (s *selector) LabelValues(ctx context.Context, name string, _ *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	found, warnings, err := s.names(ctx, matchers)
	return valuesOf(found, name), warnings, err
}

// LabelNames implements storage.Querier.
func (s *selector) LabelNames(ctx context.Context, _ *storage.LabelHints, matchers ...*labels.Matcher) (
	[]string, annotations.Annotations, error) {
	found, warnings, err := s.names(ctx, matchers)
	return namesOf(found), warnings, err
}

// valuesOf is what a label has, in order, each once.
func valuesOf(sets []labels.Labels, name string) []string {
	values := make(map[string]bool)
	for _, l := range sets {
		if v := l.Get(name); v != "" {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values))
}

// namesOf is the names of labels, in order, each once.
func namesOf(sets []labels.Labels) []string {
	names := make(map[string]bool)
	for _, l := range sets {
		l.Range(func(l labels.Label) { names[l.Name] = true })
	}
	return slices.Sorted(maps.Keys(names))
}

// metrics is the names of all metrics that have numbers.
func (t *tenantStorage) metrics(ctx context.Context) (names []string, err error) {
	found, _, err := t.querier.Metrics(ctx, t.tenant, "", math.MaxInt-1)
	for _, m := range found {
		if len(m.Types) != 1 || m.Types[0] != telemetry.Text.String() {
			names = append(names, m.Metric)
		}
	}
	return names, err
}
