package prom

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"
)

// union is what list returns for any selector of a request, sorted; for all series without a selector.
type union[T any] struct {
	compare func(T, T) int
	list    func(*selector, []*labels.Matcher) ([]T, annotations.Annotations, error)
}

// answer returns as many elements as the request asks for.
func (u union[T]) answer(a *api, c *call) (answer, error) {
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
		these, said, err := u.list(from, set)
		if err != nil {
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
	list := func(s *selector, m []*labels.Matcher) ([]labels.Labels, annotations.Annotations, error) {
		return s.names(ctx, m)
	}
	return union[labels.Labels]{labels.Compare, list}.answer(a, c)
}

func (a *api) labels(ctx context.Context, c *call) (answer, error) {
	list := func(s *selector, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelNames(ctx, nil, m...)
	}
	return union[string]{strings.Compare, list}.answer(a, c)
}

func (a *api) labelValues(ctx context.Context, c *call) (answer, error) {
	name := c.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return answer{}, badRequest("invalid label name: %q", name)
	}
	list := func(s *selector, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return s.LabelValues(ctx, name, nil, m...)
	}
	return union[string]{strings.Compare, list}.answer(a, c)
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
	metrics, err := c.metrics(ctx)
	if err != nil {
		return answer{}, err
	}
	out := make(map[string][]metricMetadata)
	for _, m := range metrics {
		if only := c.Form.Get("metric"); len(out) < limit && (only == "" || only == m.Metric) {
			d := metricMetadata{Type: "unknown"}
			if len(m.Units) > 0 {
				d.Unit = m.Units[0]
			}
			out[m.Metric] = []metricMetadata{d}
		}
	}
	return answer{data: out}, nil
}
