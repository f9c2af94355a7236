package prom

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/kahansum"
)

// fold aggregates the series of a pushdown, its source: one after the other, so that not all of them must be held.
type fold struct {
	op       parser.ItemType
	grouping []string // sorted
	without  bool
	source   *pushdown
	groups   *groups // nil before the source was evaluated
}

// foldable lists the aggregations that need of a group no more than two numbers at each step.
var foldable = map[parser.ItemType]bool{
	parser.SUM: true, parser.AVG: true, parser.MIN: true, parser.MAX: true, parser.COUNT: true, parser.GROUP: true,
}

// foldAt is how many series are held before they are folded.
const foldAt = 4096

// errUnordered says that a series comes after others were folded that the engine adds later.
var errUnordered = errors.New("series come in another order than that of their labels")

// fold returns the pushdown of an aggregation of another pushdown, nil for none.
func (p *rewriter) fold(e *parser.AggregateExpr) *pushdown {
	expr := e.Expr
	for {
		inner, ok := expr.(*parser.ParenExpr)
		if !ok {
			break
		}
		expr = inner.Expr
	}
	s, ok := expr.(*parser.VectorSelector)
	if !ok || !foldable[e.Op] {
		return nil
	}
	source := p.pushdowns.of(s.LabelMatchers)
	if source == nil || source.fold != nil {
		return nil
	}
	delete(p.pushdowns, s.LabelMatchers[len(s.LabelMatchers)-1])
	f := &fold{op: e.Op, grouping: slices.Sorted(slices.Values(e.Grouping)), without: e.Without, source: source}
	l := &pushdown{steps: source.steps, matchers: source.matchers, metric: source.metric, fold: f}
	if key := l.key(); p.known[key] == nil {
		p.known[key] = l
		source.folds = append(source.folds, f)
	} else {
		source.uses--
		l = p.known[key]
	}
	return l
}

// folded returns the groups of a fold. The source is evaluated for all folds of it, and held where it has other uses.
func (s *selector) folded(ctx context.Context, f *fold) ([]*series, annotations.Annotations, error) {
	if from := f.source; from.found == nil && from.onlyFolds() && s.check == nil {
		from.found = &outcome{}
		_, from.found.warnings, from.found.err = s.evaluate(ctx, from)
	}
	found := s.outcome(ctx, f.source)
	if f.groups == nil && found.err == nil {
		found.err = f.add(s.memory, found.series)
	}
	if found.err != nil {
		return nil, nil, found.err
	}
	return f.groups.series(), found.warnings, nil
}

// onlyFolds reports whether nothing but folds uses the values of a pushdown that reads.
func (l *pushdown) onlyFolds() bool {
	return l.inner == nil && len(l.folds) > 0 && l.uses == len(l.folds)
}

// flush folds the series so far, and drops them, if they are many. It is called between two devices. Where the first
// ones are not in the order of their labels it holds all.
func (e *evaluation) flush() error {
	l := e.pushdown
	if len(e.out) < cmp.Or(e.foldAt, foldAt) || l.whole || !l.onlyFolds() || e.check != nil {
		return nil
	}
	if e.folded.IsEmpty() && !slices.IsSortedFunc(e.out, compareSeries) {
		l.whole = true
		return nil
	}
	return e.foldAll()
}

// leaf returns the pushdown that reads: of a fold its source.
func (l *pushdown) leaf() *pushdown {
	if l.fold != nil {
		return l.fold.source
	}
	return l
}

// foldAll folds the series so far in the order of their labels, and drops them.
func (e *evaluation) foldAll() error {
	sortSeries(e.out)
	if len(e.out) > 0 {
		if labels.Compare(e.out[0].labels, e.folded) < 0 {
			return errUnordered
		}
		e.folded = e.out[len(e.out)-1].labels
	}
	bytes := int64(0)
	for _, one := range e.out {
		bytes += retainedBytes + int64(one.labels.ByteSize())
	}
	if err := e.pushdown.finishLabels(e.out, &e.warnings); err != nil {
		return err
	}
	for _, f := range e.pushdown.folds {
		if err := f.add(e.memory, e.out); err != nil {
			return err
		}
	}
	for _, one := range e.out {
		e.spares = append(e.spares, one.values)
	}
	e.memory.Give(bytes)
	e.out = e.out[:0]
	return nil
}

// groups is what was folded so far, by group, the one with the first series in front.
type groups struct {
	of       *fold
	instants []int64
	all      []*group
	numbers  map[uint64]int
	hashed   []byte
	labels   *labels.Builder
}

// group is the state of an aggregation at each step, as the engine has it.
type group struct {
	labels      labels.Labels
	n           []uint32 // how many series have a value
	value, lost []float64
	isMean      []bool // where a sum would overflow, value is the mean so far; nil for nowhere
}

// add adds series, in the engine's order.
func (f *fold) add(memory *query.Memory, all []*series) error {
	if f.groups == nil {
		f.groups = &groups{of: f, numbers: make(map[uint64]int), labels: labels.NewBuilder(labels.EmptyLabels())}
	}
	for _, one := range all {
		if hasMetadata(one) {
			return errEngineOnly
		}
		g, err := f.groups.group(memory, one)
		if err != nil {
			return err
		}
		g.add(f.op, one.values)
	}
	return nil
}

// group returns the group of a series.
func (s *groups) group(memory *query.Memory, one *series) (*group, error) {
	var key uint64
	switch {
	case s.of.without:
		key, s.hashed = one.labels.HashWithoutLabels(s.hashed, s.of.grouping...)
	case len(s.of.grouping) > 0:
		key, s.hashed = one.labels.HashForLabels(s.hashed, s.of.grouping...)
	}
	if at, ok := s.numbers[key]; ok {
		return s.all[at], nil
	}
	s.instants = one.times
	s.labels.Reset(one.labels)
	if s.of.without {
		s.labels.Del(append(s.of.grouping, labels.MetricName)...)
	} else {
		s.labels.Keep(s.of.grouping...)
	}
	n := len(one.times)
	g := &group{labels: s.labels.Labels()}
	if err := memory.Take(retainedBytes + int64(g.labels.ByteSize()) + int64(n)*(4+8+8)); err != nil {
		return nil, err
	}
	g.n, g.value, g.lost = make([]uint32, n), make([]float64, n), make([]float64, n)
	s.numbers[key] = len(s.all)
	s.all = append(s.all, g)
	return g, nil
}

// add adds the values of a series by the operations of the engine.
func (g *group) add(op parser.ItemType, values []float64) {
	for k, v := range values {
		if math.IsNaN(v) && value.IsStaleNaN(v) {
			continue
		}
		switch before := g.n[k]; {
		case before == 0:
			g.value[k] = v
		case op == parser.SUM, op == parser.AVG && g.isMean == nil:
			sum, lost := kahansum.Inc(v, g.value[k], g.lost[k])
			if op == parser.AVG && math.IsInf(sum, 0) {
				g.isMean = make([]bool, len(g.n))
				g.addToMean(k, v)
				break
			}
			g.value[k], g.lost[k] = sum, lost
		case op == parser.AVG:
			g.addToMean(k, v)
		case op == parser.MAX && (g.value[k] < v || math.IsNaN(g.value[k])),
			op == parser.MIN && (g.value[k] > v || math.IsNaN(g.value[k])):
			g.value[k] = v
		}
		g.n[k]++
	}
}

// addToMean adds a value to an average, a step of which has overflowed.
func (g *group) addToMean(k int, v float64) {
	before := float64(g.n[k])
	if !g.isMean[k] {
		sum, lost := kahansum.Inc(v, g.value[k], g.lost[k])
		if !math.IsInf(sum, 0) {
			g.value[k], g.lost[k] = sum, lost
			return
		}
		g.isMean[k] = true
		g.value[k] /= before
		g.lost[k] /= before
	}
	n := before + 1
	q := before / n
	g.value[k], g.lost[k] = kahansum.Inc(v/n, q*g.value[k], q*g.lost[k])
}

// series returns the aggregates.
func (s *groups) series() (out []*series) {
	for _, g := range s.all {
		for k, n := range g.n {
			switch of := float64(n); {
			case n == 0:
				g.value[k] = stale
			case s.of.op == parser.COUNT:
				g.value[k] = of
			case s.of.op == parser.GROUP:
				g.value[k] = 1
			case s.of.op == parser.AVG && (g.isMean == nil || !g.isMean[k]):
				g.value[k] = g.value[k]/of + g.lost[k]/of
			case s.of.op == parser.AVG, s.of.op == parser.SUM:
				g.value[k] += g.lost[k]
			}
		}
		out = append(out, &series{labels: g.labels, times: s.instants, values: g.value})
	}
	return out
}
