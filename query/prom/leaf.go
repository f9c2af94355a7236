package prom

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"
)

// leaf is a part of a query that is computed here and not by the engine: a selector, or a function of a range of one.
// In the tree the engine finds a selector in its place, which Select answers with a finished value for each step.
type leaf struct {
	function string // of functions; "" for the selector itself
	window   int64  // before an instant, what counts there: the range, or the lookback
	offset   int64
	steps    grid

	back    int64   // from a step to its window's begin, as rates take it: not always window and offset
	seconds float64 // of the range

	matchers []*labels.Matcher
	metric   string // "" if the matchers don't tell
	argument posrange.PositionRange
}

// grid is the instants of a query.
type grid struct {
	first, step int64
	n           int
}

func (g grid) at(k int) int64 { return g.first + int64(k)*g.step }

// errPlain says that the engine must evaluate all of a query itself.
var errPlain = errors.New("leaves can't be computed apart")

// leaves is those of a request, by the matcher that marks them.
type leaves map[*labels.Matcher]*leaf

// planted is a query that is evaluated with leaves. It is evaluated once.
type planted struct {
	promql.Query
	leaves leaves
	begin  func() (promql.Query, error) // the same once more
}

// Exec implements promql.Query.
func (p *planted) Exec(ctx context.Context) *promql.Result {
	p.leaves.plant(p.Statement())
	res := p.Query.Exec(ctx)
	if !errors.Is(res.Err, errPlain) {
		return res
	}
	again, err := p.begin()
	if err != nil {
		return &promql.Result{Err: err}
	}
	p.Close()
	p.Query = again
	return again.Exec(ctx)
}

// planter puts leaves into the tree of a query.
type planter struct {
	steps    grid
	lookback time.Duration
	leaves   leaves
}

// plant makes leaves of what it can in a query that the engine has made ready, and remembers them.
func (l leaves) plant(statement parser.Statement) {
	s, ok := statement.(*parser.EvalStmt)
	if !ok {
		return
	}
	steps := grid{millisOf(s.Start), 1, 1}
	if s.Interval != 0 {
		steps.step = s.Interval.Milliseconds()
		steps.n = int((millisOf(s.End)-steps.first)/steps.step) + 1
	}
	if steps.n < 1 || steps.n > maxPoints+1 {
		return
	}
	p := planter{steps, s.LookbackDelta, l}
	s.Expr = p.walk(s.Expr)
}

// millisOf is an instant as the engine counts it.
func millisOf(t time.Time) int64 { return t.UnixNano() / int64(time.Millisecond) }

// whole lists functions that look at the selector in their argument, beside its values.
var whole = map[string]bool{
	"timestamp": true, "start_timestamp": true, "absent": true, "info": true,
}

// walk is an expression with leaves in it. What has a grid of its own, or none, stays as it is: subqueries, and what
// does not depend on the step.
func (p *planter) walk(expr parser.Expr) parser.Expr {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		e.Expr = p.walk(e.Expr)
		if e.Param != nil {
			e.Param = p.walk(e.Param)
		}
	case *parser.ParenExpr:
		e.Expr = p.walk(e.Expr)
	case *parser.UnaryExpr:
		e.Expr = p.walk(e.Expr)
	case *parser.BinaryExpr:
		e.LHS, e.RHS = p.walk(e.LHS), p.walk(e.RHS)
	case *parser.VectorSelector:
		return p.selector(e)
	case *parser.Call:
		if functions[e.Func.Name] != nil {
			return p.call(e)
		}
		if whole[e.Func.Name] {
			return e
		}
		for i := range e.Args {
			e.Args[i] = p.walk(e.Args[i])
		}
	}
	return expr
}

func (p *planter) selector(s *parser.VectorSelector) parser.Expr {
	if special(s) {
		return s
	}
	l := leaf{window: p.lookback.Milliseconds()}
	if names := named(s.LabelMatchers, model.MetricNameLabel); len(names) == 1 {
		l.metric = names[0]
	}
	return p.put(s, s.PosRange, l)
}

// call is a function of a range. Without a metric's name two series may become one, which the engine must refuse.
func (p *planter) call(c *parser.Call) parser.Expr {
	m, ok := c.Args[0].(*parser.MatrixSelector)
	if !ok || m.RangeExpr != nil {
		return c
	}
	s := m.VectorSelector.(*parser.VectorSelector)
	names := named(s.LabelMatchers, model.MetricNameLabel)
	if special(s) || len(names) != 1 {
		return c
	}
	return p.put(s, c.PositionRange(), leaf{
		function: c.Func.Name, window: m.Range.Milliseconds(), back: (m.Range + s.OriginalOffset).Milliseconds(),
		seconds: m.Range.Seconds(), metric: names[0], argument: m.PositionRange(),
	})
}

// special reports whether a selector is more than matchers and an offset.
func special(s *parser.VectorSelector) bool {
	return s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 || s.Anchored || s.Smoothed
}

// put is what stands for a leaf in the tree: a selector that one more matcher, known by its address, marks.
func (p *planter) put(s *parser.VectorSelector, at posrange.PositionRange, l leaf) parser.Expr {
	l.steps, l.offset, l.matchers = p.steps, s.OriginalOffset.Milliseconds(), s.LabelMatchers
	mark := &labels.Matcher{Type: labels.MatchEqual}
	p.leaves[mark] = &l
	return &parser.VectorSelector{Name: s.Name, LabelMatchers: append(slices.Clone(s.LabelMatchers), mark), PosRange: at}
}

// marked is the leaf that matchers mark, nil for none.
func (l leaves) marked(matchers []*labels.Matcher) *leaf {
	if len(matchers) == 0 {
		return nil
	}
	return l[matchers[len(matchers)-1]]
}

// evaluate reads what a leaf needs and computes it.
func (s *selector) evaluate(ctx context.Context, l *leaf) (
	out []*series, warnings annotations.Annotations, err error) {
	r := s.request(l.matchers)
	r.Range = rangeOf(l.steps.first-l.offset-l.window+1, l.steps.at(l.steps.n-1)-l.offset)
	if err := s.memory.Take(8 * int64(l.steps.n)); err != nil {
		return nil, nil, err
	}
	e := &evaluation{selector: s, leaf: l, instants: l.instants()}
	if width, ok := s.onLanes(l, r); ok {
		err = e.fromLanes(ctx, r, width)
	} else {
		err = e.fromSamples(ctx, r, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	sorted(e.out)
	return e.out, e.warnings, l.name(e.out, &e.warnings)
}

// instants is those of the steps.
func (l *leaf) instants() []int64 {
	out := make([]int64, l.steps.n)
	for k := range out {
		out[k] = l.steps.at(k)
	}
	return out
}

// evaluation is a leaf on its way to its series.
type evaluation struct {
	*selector
	leaf     *leaf
	instants []int64
	out      []*series
	warnings annotations.Annotations
	free     []float64 // of one series, not used yet
}

// values is room for one series.
func (e *evaluation) values() ([]float64, error) {
	if e.free == nil {
		if err := e.memory.Take(8 * int64(len(e.instants))); err != nil {
			return nil, err
		}
		e.free = make([]float64, len(e.instants))
	}
	return e.free, nil
}

// keep takes a series with the values that there was room for.
func (e *evaluation) keep(l labels.Labels) {
	e.out = append(e.out, &series{l, e.instants, e.free})
	e.free = nil
}

// fromSamples computes the leaf from samples, of the devices in only, or of all that are asked for if that is nil.
func (e *evaluation) fromSamples(ctx context.Context, r query.Request, only map[string]bool) error {
	w := newWindows(e.leaf)
	if err := e.memory.Take(16 * int64(len(e.instants))); err != nil {
		return err
	}
	warnings, err := e.read(ctx, r, e.leaf.matchers, func(one *series) (kept bool, err error) {
		if only != nil && !only[one.labels.Get(deviceLabel)] {
			return false, nil
		}
		values, err := e.values()
		if err != nil {
			return false, err
		}
		if w.compute(one, values) {
			e.keep(one.labels)
		}
		return false, nil
	})
	e.warnings.Merge(warnings)
	return err
}

// name gives the results of a function the labels that the engine gives them, and says of counters what it says.
func (l *leaf) name(out []*series, said *annotations.Annotations) error {
	if l.function == "" || len(out) == 0 {
		return nil
	}
	if (l.function == "rate" || l.function == "increase") && !counts(l.metric) {
		said.Add(annotations.NewPossibleNonCounterInfo(l.metric, l.argument))
	}
	if l.function == "last_over_time" || l.function == "first_over_time" {
		return nil
	}
	for _, one := range out {
		if one.labels.Has(model.MetricTypeLabel) || one.labels.Has(model.MetricUnitLabel) {
			return errPlain // without it series may be one, which the engine must refuse
		}
		one.labels = one.labels.DropReserved(schema.IsMetadataLabel)
	}
	return nil
}

// counts reports whether a metric is called as counters are.
func counts(metric string) bool {
	for _, end := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(metric, end) {
			return true
		}
	}
	return false
}
