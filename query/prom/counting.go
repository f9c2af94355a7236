package prom

import (
	"maps"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
)

// counts is how many series of each group have a value at each step. It answers a count of all series of a tenant, of
// which there may be a million, without holding them.
type counts struct {
	by     []string // labels of groups, sorted
	groups map[string]*counted
	key    []byte // scratch
}

// counted is a group.
type counted struct {
	labels labels.Labels
	first  labels.Labels // of its series: groups come in the order of these, as from the engine
	values []float64
}

// count returns a count of a selector as a sum of counts that the selector makes; nil if it stays as it is. A selector
// that names its metrics stays: it may be read from rollups, and its answers are kept.
func (p *rewriter) count(e *parser.AggregateExpr) parser.Expr {
	inner := e.Expr
	for paren, ok := inner.(*parser.ParenExpr); ok; paren, ok = inner.(*parser.ParenExpr) {
		inner = paren.Expr
	}
	s, ok := inner.(*parser.VectorSelector)
	if !ok || e.Op != parser.COUNT || e.Without || hasModifiers(s) ||
		len(equalTo(s.LabelMatchers, model.MetricNameLabel)) > 0 {
		return nil
	}
	by := slices.Clone(e.Grouping)
	slices.Sort(by)
	l := p.add(pushdown{window: p.lookback.Milliseconds(), offset: s.OriginalOffset.Milliseconds(),
		matchers: s.LabelMatchers, counts: &counts{by: by, groups: map[string]*counted{}}})
	e.Op, e.Expr = parser.SUM, p.mark(l, &parser.VectorSelector{Name: s.Name, PosRange: s.PosRange})
	return e
}

// count adds the values of a series to its group.
func (e *evaluation) count(one labels.Labels, values []float64) error {
	c := e.pushdown.counts
	c.key = one.BytesWithLabels(c.key[:0], c.by...)
	g := c.groups[string(c.key)]
	if g == nil {
		of := labels.NewBuilder(one).Keep(c.by...).Labels()
		if err := e.memory.Take(retainedBytes + int64(2*of.ByteSize()) + 8*int64(len(values))); err != nil {
			return err
		}
		g = &counted{labels: of, first: one, values: slices.Repeat([]float64{stale}, len(values))}
		c.groups[string(c.key)] = g
	}
	if labels.Compare(one, g.first) < 0 {
		g.first = one
	}
	for k, v := range values {
		switch {
		case value.IsStaleNaN(v):
		case value.IsStaleNaN(g.values[k]):
			g.values[k] = 1
		default:
			g.values[k]++
		}
	}
	return nil
}

// series returns the groups.
func (c *counts) series(instants []int64) (out []*series) {
	byFirst := func(a, b *counted) int { return labels.Compare(a.first, b.first) }
	for _, g := range slices.SortedFunc(maps.Values(c.groups), byFirst) {
		out = append(out, &series{labels: g.labels, times: instants, values: g.values})
	}
	return out
}
