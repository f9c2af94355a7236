package prom

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// matchedSeries returns the label sets that any selector of a request matches, sorted; all without a selector.
func (a *api) matchedSeries(ctx context.Context, c *call) (
	out []labels.Labels, warnings annotations.Annotations, err error) {
	sets, err := a.matchers(c)
	if err != nil {
		return nil, nil, err
	}
	from, err := c.span(a.cfg.Now())
	if err != nil {
		return nil, nil, err
	}
	if from.first, err = c.limit(); err != nil {
		return nil, nil, err
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	for _, set := range sets {
		these, said, err := from.names(ctx, set)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, these...)
		slices.SortFunc(out, labels.Compare)
		out = slices.CompactFunc(out, labels.Equal) // so that selectors of the same take no more than one
		warnings.Merge(said)
	}
	return out, warnings, nil
}

// first keeps as many of a list as the request asks for.
func first[T any](c *call, all []T, warnings annotations.Annotations) (answer, error) {
	limit, err := c.limit()
	if err != nil {
		return answer{}, err
	}
	if limit > 0 && len(all) > limit {
		all = all[:limit]
		warnings.Add(errTruncated)
	}
	return answer{data: append([]T{}, all...), warnings: warnings}, nil
}

func (a *api) series(ctx context.Context, c *call) (answer, error) {
	if len(c.Form["match[]"]) == 0 {
		return answer{}, badRequest("no match[] parameter provided")
	}
	found, warnings, err := a.matchedSeries(ctx, c)
	if err != nil {
		return answer{}, err
	}
	return first(c, found, warnings)
}

func (a *api) labels(ctx context.Context, c *call) (answer, error) {
	return a.listed(ctx, c, (*selector).LabelNames)
}

func (a *api) labelValues(ctx context.Context, c *call) (answer, error) {
	name := c.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return answer{}, badRequest("invalid label name: %q", name)
	}
	return a.listed(ctx, c, func(s *selector, ctx context.Context, h *storage.LabelHints, m ...*labels.Matcher) (
		[]string, annotations.Annotations, error) {
		return s.LabelValues(ctx, name, h, m...)
	})
}

// listed returns what list returns for any selector of a request, sorted; for all series without a selector.
func (a *api) listed(ctx context.Context, c *call, list func(*selector, context.Context, *storage.LabelHints,
	...*labels.Matcher) ([]string, annotations.Annotations, error)) (answer, error) {
	sets, err := a.matchers(c)
	if err != nil {
		return answer{}, err
	}
	from, err := c.span(a.cfg.Now())
	if err != nil {
		return answer{}, err
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	var out []string
	var warnings annotations.Annotations
	for _, set := range sets {
		these, said, err := list(from, ctx, nil, set...)
		if err != nil {
			return answer{}, err
		}
		out = append(out, these...)
		slices.Sort(out)
		out = slices.Compact(out)
		warnings.Merge(said)
	}
	return first(c, out, warnings)
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
