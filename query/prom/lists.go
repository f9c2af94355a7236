package prom

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

// union is what list returns for any selector of a request, sorted; for all series without a selector.
type union[T any] struct {
	compare func(T, T) int
	list    func(*selector, context.Context, []*labels.Matcher) ([]T, annotations.Annotations, error)
}

// answer returns as many elements as the request asks for.
func (u union[T]) answer(ctx context.Context, a *api, c *call) (answer, error) {
	sets, err := a.matchers(c)
	if err != nil {
		return answer{}, err
	}
	from, err := c.span(a.cfg.Now())
	if err != nil {
		return answer{}, err
	}
	if from.first, err = c.limit(); err != nil {
		return answer{}, err
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	all := []T{}
	var warnings annotations.Annotations
	for _, set := range sets {
		these, said, err := u.list(from, ctx, set)
		if err = cmp.Or(err, ctx.Err()); err != nil { // the catalog is looked through without a look at the time
			return answer{}, err
		}
		all = append(all, these...)
		slices.SortFunc(all, u.compare) // so that selectors of the same take no more than one
		all = slices.CompactFunc(all, func(a, b T) bool { return u.compare(a, b) == 0 })
		warnings.Merge(said)
	}
	if from.first > 0 && len(all) > from.first {
		all = all[:from.first]
		warnings.Add(errTruncated)
	}
	return answer{data: all, warnings: warnings}, nil
}

func (a *api) series(ctx context.Context, c *call) (answer, error) {
	if len(c.Form["match[]"]) == 0 {
		return answer{}, badRequest("no match[] parameter provided")
	}
	return union[labels.Labels]{labels.Compare, (*selector).names}.answer(ctx, a, c)
}

func (a *api) labels(ctx context.Context, c *call) (answer, error) {
	list := func(s *selector, ctx context.Context, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelNames(ctx, nil, m...)
	}
	return union[string]{strings.Compare, list}.answer(ctx, a, c)
}

func (a *api) labelValues(ctx context.Context, c *call) (answer, error) {
	name := c.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return answer{}, badRequest("invalid label name: %q", name)
	}
	list := func(s *selector, ctx context.Context, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelValues(ctx, name, nil, m...)
	}
	return union[string]{strings.Compare, list}.answer(ctx, a, c)
}

// metricMetadata describes a metric.
type metricMetadata struct {
	Type string `json:"type"`
	Help string `json:"help"`
	Unit string `json:"unit"`
}

func (a *api) metadata(ctx context.Context, c *call) (answer, error) {
	limit := math.MaxInt
	if s := c.Form.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			return answer{}, badRequest("invalid parameter \"limit\": it must be a number")
		}
		if n >= 0 {
			limit = n
		}
	}
	metrics, _, err := c.querier.Metrics(ctx, c.tenant, "", math.MaxInt-1)
	if err != nil {
		return answer{}, err
	}
	out, only := make(map[string][]metricMetadata), c.Form.Get("metric")
	for _, m := range metrics {
		hasNumbers := len(m.Types) != 1 || m.Types[0] != telemetry.Text.String()
		if hasNumbers && len(out) < limit && (only == "" || only == m.Metric) {
			d := metricMetadata{Type: "unknown"}
			if len(m.Units) > 0 {
				d.Unit = m.Units[0]
			}
			out[m.Metric] = []metricMetadata{d}
		}
	}
	return answer{data: out}, nil
}

// catalogLists lists series, names and values from the catalog alone, without reading chunks.
//
// The catalog has first and last times of a device, not of its metrics and labels, so what a device that may have
// reported in the range has ever had counts. It does not have which labels came with which metric either: where that
// matters ok is false.
type catalogLists struct {
	ended    func() error // why the request has ended; nil while it has not
	matchers []*labels.Matcher
	found    query.Found // devices that have a metric that counts
	shapes   []catalog.Shape
}

// fromCatalog calls of with the devices that may match and may have reported in the range. ok is false when only
// readings can answer.
func (s *selector) fromCatalog(ctx context.Context, matchers []*labels.Matcher, of func(*catalogLists) (ok bool)) (
	warnings annotations.Annotations, ok bool, err error) {
	if err := s.querier.Await(ctx, s.tenant); err != nil {
		return nil, false, err
	}
	known, err := s.tags.Known(ctx)
	if err != nil {
		return nil, false, err
	}
	l := &catalogLists{ended: ctx.Err, matchers: matchers}
	some := func(set []catalog.Metric) bool { return slices.ContainsFunc(set, l.counts) }
	conditions, within := conditionsOf(ctx, matchers), rangeOf(s.mint, s.maxt)
	devices := 0
	known.Find(query.Reporting{Matchers: conditions, Metrics: some, Range: within}, func(f query.Found) {
		l.found, l.shapes, devices = f, f.Shapes(), f.Len()
		ok = !slices.ContainsFunc(l.shapes, func(s catalog.Shape) bool { return s.Partial }) && of(l)
	})
	warnings = catalogGap(known)
	if s.noStart {
		within.From = 0
		known.Find(query.Reporting{Matchers: conditions, Metrics: some, Range: within}, func(f query.Found) {
			if !ok || f.Len() > devices { // readings show what devices had in the range, of all that they ever had
				warnings.Add(errNoStart)
			}
		})
	}
	return warnings, ok, nil
}

// counts reports whether a metric has numbers, and matches.
func (l *catalogLists) counts(m catalog.Metric) bool {
	return m.Kind != telemetry.Text && l.ended() == nil && !slices.ContainsFunc(l.matchers, func(x *labels.Matcher) bool {
		return x.Name == model.MetricNameLabel && !x.Matches(m.Name)
	})
}

// plain reports whether each name of a matcher, and of a tag, means one thing, and no matcher but that on but is on a
// label of readings: the catalog does not have which labels came together.
func (l *catalogLists) plain(but string) bool {
	taken := func(name string) bool {
		return name == deviceLabel || name == model.MetricNameLabel || strings.HasPrefix(name, exported)
	}
	tags := l.found.TagNames()
	for _, shape := range l.shapes {
		for _, label := range shape.Labels {
			if taken(label.Name) || slices.Contains(tags, label.Name) {
				return false
			}
		}
	}
	for _, m := range l.matchers {
		if strings.HasPrefix(m.Name, exported) || m.Name != but && l.label(m.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(tags, taken)
}

// label reports whether readings may have a label of this name.
func (l *catalogLists) label(name string) bool {
	return slices.ContainsFunc(l.shapes, func(s catalog.Shape) bool {
		return !s.Exact || slices.ContainsFunc(s.Labels, func(o telemetry.Label) bool { return o.Name == name })
	})
}

// labels returns the labels of readings. ok reports whether it is certain which of them came with metrics that count:
// all, or none.
func (l *catalogLists) labels() (all []telemetry.Label, ok bool) {
	not := func(m catalog.Metric) bool { return !l.counts(m) }
	for _, s := range l.shapes {
		if !s.Exact || len(s.Labels) > 0 && slices.ContainsFunc(s.Metrics, not) {
			return nil, false
		}
		all = append(all, s.Labels...)
	}
	return all, true
}

func (l *catalogLists) names() (list []string, ok bool) {
	all, ok := l.labels()
	if !ok || !l.plain("") {
		return nil, false
	}
	if len(l.shapes) == 0 {
		return nil, true
	}
	for _, label := range all {
		if label.Value != "" {
			list = append(list, label.Name)
		}
	}
	list = append(append(list, l.found.TagNames()...), deviceLabel, model.MetricNameLabel)
	slices.Sort(list)
	return slices.Compact(list), true
}

func (l *catalogLists) values(name string) (list []string, ok bool) {
	if !l.plain(name) || strings.HasPrefix(name, exported) {
		return nil, false
	}
	switch {
	case name == model.MetricNameLabel:
		return l.metrics(), true
	case name == deviceLabel:
		return l.found.Devices(), true
	case !l.label(name):
		return l.found.TagValues(name), true
	}
	all, ok := l.labels()
	for _, label := range all {
		if label.Name == name && label.Value != "" && !slices.ContainsFunc(l.matchers, func(m *labels.Matcher) bool {
			return m.Name == name && !m.Matches(label.Value)
		}) {
			list = append(list, label.Value)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), ok
}

func (l *catalogLists) metrics() (list []string) {
	for _, s := range l.shapes {
		for _, m := range s.Metrics {
			if l.counts(m) {
				list = append(list, m.Name)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// seriesBytes estimates the memory of a series in a list without the text of its labels.
const seriesBytes = 64

// series returns the labels of all series, sorted, if no readings have labels; of more than first of them, unless that
// is 0, those that come first and one. They count as memory.
func (l *catalogLists) series(memory *query.Memory, first int) (list []labels.Labels, ok bool, err error) {
	labelled := func(s catalog.Shape) bool { return len(s.Labels) > 0 || !s.Exact }
	if !l.plain("") || slices.ContainsFunc(l.shapes, labelled) {
		return nil, false, nil
	}
	var b labels.ScratchBuilder
	bytes := func(one labels.Labels) int64 { return int64(seriesBytes + one.ByteSize()) }
	cut := func() {
		slices.SortFunc(list, labels.Compare)
		for first > 0 && len(list)-1 > first {
			memory.Give(bytes(list[len(list)-1]))
			list = list[:len(list)-1]
		}
	}
	l.found.All(func(e catalog.Entry) bool {
		last := ""
		for _, m := range e.Metrics { // sorted by name; a metric of several kinds occurs several times
			if m.Name == last || !l.counts(m) {
				continue
			}
			last = m.Name
			one := labelsOf(&b, curveName{m.Name, e.Device}, e.TagLabels())
			if err = memory.Take(bytes(one)); err != nil {
				return false
			}
			list = append(list, one)
			if first > 0 && (len(list)-sortedAtOnce)/2 > first {
				cut()
			}
		}
		return true
	})
	cut()
	return list, err == nil, err
}

// sortedAtOnce is how many series beyond a limit are collected before they are sorted.
const sortedAtOnce = 1 << 12
