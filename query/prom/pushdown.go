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

// pushdown is a part of a query that is computed here and not by the engine: a selector, or a function of a range of
// one. The engine finds a selector in its place, which Select answers with a finished value for each step.
type pushdown struct {
	function string // of functions; "" for the selector itself
	window   int64  // before an instant, what counts there: the range, or the lookback
	offset   int64
	steps    stepGrid

	back    int64   // from a step to its window's begin, as rates take it: not always window and offset
	seconds float64 // of the range

	matchers []*labels.Matcher
	metric   string // "" if the matchers name none or several
	argument posrange.PositionRange

	// narrow is called when all has been read, may change steps, and returns the first instant that is needed; nil for all
	// steps.
	narrow func(*query.Basis) int64
	again  bool     // something was read once more, which narrow has not seen
	ready  *outcome // nil until it is computed
}

// outcome is what a selector found.
type outcome struct {
	series   []*series
	warnings annotations.Annotations
	err      error
}

func (o *outcome) get() ([]*series, annotations.Annotations, error) {
	return o.series, o.warnings, o.err
}

// stepGrid are the instants of a query's steps.
type stepGrid struct {
	first, step int64
	n           int
}

func (g stepGrid) at(k int) int64 { return g.first + int64(k)*g.step }

// errEngineOnly says that the engine must evaluate all of a query itself.
var errEngineOnly = errors.New("the engine must evaluate the whole query")

// pushdowns are those of a request, by the matcher that marks them.
type pushdowns map[*labels.Matcher]*pushdown

// rewrittenQuery is a query with pushdowns. It is evaluated once.
type rewrittenQuery struct {
	promql.Query
	pushdowns pushdowns
	restart   func() (promql.Query, error) // the same once more
	answers   *answers                     // that are kept; nil for none
}

// Exec implements promql.Query.
func (p *rewrittenQuery) Exec(ctx context.Context) *promql.Result {
	p.pushdowns.rewrite(p.Statement())
	res := p.answers.exec(ctx, p.Query, p.pushdowns)
	if !errors.Is(res.Err, errEngineOnly) {
		return res
	}
	again, err := p.restart()
	if err != nil {
		return &promql.Result{Err: err}
	}
	p.Close()
	p.Query = again
	return again.Exec(ctx)
}

// rewriter replaces parts of a query by pushdowns.
type rewriter struct {
	steps     stepGrid
	lookback  time.Duration
	pushdowns pushdowns
}

// rewrite replaces what it can in a query that the engine has prepared.
func (l pushdowns) rewrite(statement parser.Statement) {
	s, ok := statement.(*parser.EvalStmt)
	if !ok {
		return
	}
	steps := stepGrid{millisOf(s.Start), 1, 1}
	if s.Interval != 0 {
		steps.step = s.Interval.Milliseconds()
		steps.n = int((millisOf(s.End)-steps.first)/steps.step) + 1
	}
	if steps.n < 1 || steps.n > maxPoints+1 {
		return
	}
	p := rewriter{steps, s.LookbackDelta, l}
	s.Expr = p.rewrite(s.Expr)
}

// millisOf returns an instant as the engine counts it.
func millisOf(t time.Time) int64 { return t.UnixNano() / int64(time.Millisecond) }

// usesSelector lists functions that use the selector in their argument, beside its values.
var usesSelector = map[string]bool{
	"timestamp": true, "start_timestamp": true, "absent": true, "info": true,
}

// rewrite returns an expression with pushdowns. It leaves subqueries, which have steps of their own, and what does not
// depend on the step.
func (p *rewriter) rewrite(expr parser.Expr) parser.Expr {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		e.Expr = p.rewrite(e.Expr)
		if e.Param != nil {
			e.Param = p.rewrite(e.Param)
		}
	case *parser.ParenExpr:
		e.Expr = p.rewrite(e.Expr)
	case *parser.UnaryExpr:
		e.Expr = p.rewrite(e.Expr)
	case *parser.BinaryExpr:
		e.LHS, e.RHS = p.rewrite(e.LHS), p.rewrite(e.RHS)
	case *parser.VectorSelector:
		return p.selector(e)
	case *parser.Call:
		if functions[e.Func.Name] != nil {
			return p.call(e)
		}
		if usesSelector[e.Func.Name] {
			return e
		}
		for i := range e.Args {
			e.Args[i] = p.rewrite(e.Args[i])
		}
	}
	return expr
}

func (p *rewriter) selector(s *parser.VectorSelector) parser.Expr {
	if hasModifiers(s) {
		return s
	}
	l := pushdown{window: p.lookback.Milliseconds()}
	if names := equalTo(s.LabelMatchers, model.MetricNameLabel); len(names) == 1 {
		l.metric = names[0]
	}
	return p.replace(s, s.PosRange, l)
}

// call returns the pushdown of a function of a range. Without a metric's name two series may become one, which the
// engine must refuse.
func (p *rewriter) call(c *parser.Call) parser.Expr {
	m, ok := c.Args[0].(*parser.MatrixSelector)
	if !ok || m.RangeExpr != nil {
		return c
	}
	s := m.VectorSelector.(*parser.VectorSelector)
	names := equalTo(s.LabelMatchers, model.MetricNameLabel)
	if hasModifiers(s) || len(names) != 1 {
		return c
	}
	return p.replace(s, c.PositionRange(), pushdown{
		function: c.Func.Name, window: m.Range.Milliseconds(), back: (m.Range + s.OriginalOffset).Milliseconds(),
		seconds: m.Range.Seconds(), metric: names[0], argument: m.PositionRange(),
	})
}

// hasModifiers reports whether a selector is more than matchers and an offset.
func hasModifiers(s *parser.VectorSelector) bool {
	return s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 || s.Anchored || s.Smoothed
}

// replace returns the selector that takes the place of a pushdown. One more matcher, known by its address, marks it.
func (p *rewriter) replace(s *parser.VectorSelector, at posrange.PositionRange, l pushdown) parser.Expr {
	l.steps, l.offset, l.matchers = p.steps, s.OriginalOffset.Milliseconds(), s.LabelMatchers
	mark := &labels.Matcher{Type: labels.MatchEqual}
	p.pushdowns[mark] = &l
	return &parser.VectorSelector{Name: s.Name, LabelMatchers: append(slices.Clone(s.LabelMatchers), mark), PosRange: at}
}

// of returns the pushdown that matchers mark, nil for none.
func (l pushdowns) of(matchers []*labels.Matcher) *pushdown {
	if len(matchers) == 0 {
		return nil
	}
	return l[matchers[len(matchers)-1]]
}

// evaluate reads the series of a pushdown and computes it.
func (s *selector) evaluate(ctx context.Context, l *pushdown) (
	out []*series, warnings annotations.Annotations, err error) {
	r := s.request(l.matchers)
	r.Range = rangeOf(l.steps.first-l.offset-l.window+1, l.steps.at(l.steps.n-1)-l.offset)
	if err := s.memory.Take(8 * int64(l.steps.n)); err != nil {
		return nil, nil, err
	}
	e := &evaluation{selector: s, pushdown: l, instants: l.instants()}
	if l.narrow != nil {
		r.From = func(b *query.Basis) int64 {
			from := l.narrow(b)
			e.instants = l.instants()
			return from
		}
	}
	if width, ok := s.rollupGrid(l, r); ok {
		err = e.fromRollups(ctx, r, width)
	} else {
		err = e.fromSamples(ctx, r, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	sortSeries(e.out)
	return e.out, e.warnings, l.finishLabels(e.out, &e.warnings)
}

func (l *pushdown) instants() []int64 {
	out := make([]int64, l.steps.n)
	for k := range out {
		out[k] = l.steps.at(k)
	}
	return out
}

// evaluation is the state of evaluating one pushdown.
type evaluation struct {
	*selector
	pushdown *pushdown
	instants []int64
	out      []*series
	warnings annotations.Annotations
	spare    []float64 // of one series, not used yet
}

// values returns a slice for the values of one series. It is the same until keep takes it.
func (e *evaluation) values() ([]float64, error) {
	if e.spare == nil {
		if err := e.memory.Take(8 * int64(len(e.instants))); err != nil {
			return nil, err
		}
		e.spare = make([]float64, len(e.instants))
	}
	return e.spare, nil
}

// keep adds a series with the values of the slice that values returned.
func (e *evaluation) keep(l labels.Labels) {
	e.out = append(e.out, &series{l, e.instants, e.spare})
	e.spare = nil
}

// fromSamples computes the pushdown from samples: of the devices in only, of all if that is nil.
func (e *evaluation) fromSamples(ctx context.Context, r query.Request, only map[string]bool) error {
	var w *windows
	if err := e.memory.Take(16 * int64(len(e.instants))); err != nil {
		return err
	}
	warnings, err := e.read(ctx, r, e.pushdown.matchers, func(one *series) (kept bool, err error) {
		if only != nil && !only[one.labels.Get(deviceLabel)] {
			return false, nil
		}
		if w == nil { // all has been read
			w = newWindows(e.pushdown)
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

// finishLabels gives the results of a function the labels that the engine gives them, and adds its notes on counters.
func (l *pushdown) finishLabels(out []*series, said *annotations.Annotations) error {
	if l.function == "" || len(out) == 0 {
		return nil
	}
	if (l.function == "rate" || l.function == "increase") && !namedLikeCounter(l.metric) {
		said.Add(annotations.NewPossibleNonCounterInfo(l.metric, l.argument))
	}
	if l.function == "last_over_time" || l.function == "first_over_time" {
		return nil
	}
	for _, one := range out {
		if one.labels.Has(model.MetricTypeLabel) || one.labels.Has(model.MetricUnitLabel) {
			return errEngineOnly // without it series may be one, which the engine must refuse
		}
		one.labels = one.labels.DropReserved(schema.IsMetadataLabel)
	}
	return nil
}

// namedLikeCounter reports whether a metric's name ends as those of counters do.
func namedLikeCounter(metric string) bool {
	for _, end := range []string{"_total", "_sum", "_count", "_bucket"} {
		if strings.HasSuffix(metric, end) {
			return true
		}
	}
	return false
}
