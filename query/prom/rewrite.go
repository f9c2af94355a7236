package prom

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// pushdowns holds the pushdowns of a request by the matcher that marks each in the engine's tree.
type pushdowns map[*labels.Matcher]*pushdown

// of returns the pushdown that matchers mark, nil for none.
func (l pushdowns) of(matchers []*labels.Matcher) *pushdown {
	if len(matchers) == 0 {
		return nil
	}
	return l[matchers[len(matchers)-1]]
}

// rewrittenQuery is a query with pushdowns. It is evaluated once.
type rewrittenQuery struct {
	promql.Query
	pushdowns pushdowns
	restart   func() (promql.Query, error) // the same once more
	run       func(context.Context, promql.Query) *promql.Result
}

// Exec implements promql.Query.
func (p *rewrittenQuery) Exec(ctx context.Context) *promql.Result {
	p.pushdowns.rewrite(p.Statement())
	res := p.run(ctx, p.Query)
	if !errors.Is(res.Err, errEngineOnly) {
		return res
	}
	again, err := p.restart()
	if err != nil {
		return &promql.Result{Err: err}
	}
	p.Close()
	p.Query = again
	return p.run(ctx, again)
}

// rewriter replaces parts of a query, or of a subquery, by pushdowns.
type rewriter struct {
	steps     stepGrid
	lookback  time.Duration
	pushdowns pushdowns
	known     map[string]*pushdown // by pushdown.key
	reads     map[string]*readSet  // by range and matchers without the metric
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
	p := rewriter{steps, s.LookbackDelta, l, make(map[string]*pushdown), make(map[string]*readSet)}
	s.Expr = p.rewrite(s.Expr)
}

// millisOf returns an instant as the engine counts it.
func millisOf(t time.Time) int64 { return t.UnixNano() / int64(time.Millisecond) }

// usesSelector lists functions that use the selector of their argument in addition to its values.
var usesSelector = map[string]bool{
	"timestamp": true, "start_timestamp": true, "absent": true, "info": true,
}

// rewrite returns an expression with pushdowns. It leaves what does not depend on the step.
func (p *rewriter) rewrite(expr parser.Expr) parser.Expr {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		e.Expr = p.rewrite(e.Expr)
		if e.Param != nil {
			e.Param = p.rewrite(e.Param)
		}
		for _, s := range parser.ExtractSelectors(e.Expr) {
			if l := p.pushdowns.of(s); l != nil {
				l.nested = true
			}
		}
		return p.fold(e)
	case *parser.ParenExpr:
		e.Expr = p.rewrite(e.Expr)
	case *parser.UnaryExpr:
		e.Expr = p.rewrite(e.Expr)
	case *parser.BinaryExpr:
		e.LHS, e.RHS = p.rewrite(e.LHS), p.rewrite(e.RHS)
	case *parser.VectorSelector:
		if l := p.selector(e); l != nil {
			return p.mark(l, &parser.VectorSelector{Name: e.Name, PosRange: e.PosRange})
		}
	case *parser.SubqueryExpr:
		if inner, ok := p.within(e); ok {
			e.Expr = inner.rewrite(e.Expr)
		}
	case *parser.Call:
		if l := p.call(e); l != nil {
			return p.mark(l, &parser.VectorSelector{Name: l.metric, PosRange: e.PositionRange()})
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

// fold replaces an aggregation of a pushdown by a pushdown, or leaves it. The engine still ranks what topk keeps.
func (p *rewriter) fold(e *parser.AggregateExpr) parser.Expr {
	expr := e.Expr
	for inner, ok := expr.(*parser.ParenExpr); ok; inner, ok = expr.(*parser.ParenExpr) {
		expr = inner.Expr
	}
	s, ok := expr.(*parser.VectorSelector)
	f := newFold(e, p.steps.n)
	if !ok || f == nil {
		return e
	}
	source := p.pushdowns.of(s.LabelMatchers)
	if source == nil || source.fold != nil {
		return e
	}
	delete(p.pushdowns, s.LabelMatchers[len(s.LabelMatchers)-1])
	l := &pushdown{steps: source.steps, matchers: source.matchers, metric: source.metric, fold: f, source: source}
	if known := p.known[l.key()]; known != nil {
		l = known
		source.uses--
	} else {
		p.known[l.key()] = l
		source.folds = append(source.folds, f)
	}
	out := p.mark(l, &parser.VectorSelector{Name: l.metric, PosRange: e.PosRange})
	if f.best > 0 {
		e.Expr = out
		return e
	}
	return out
}

// mark gives a selector, which takes the place of a pushdown, its matchers. One more, known by its address, marks it.
func (p *rewriter) mark(l *pushdown, s *parser.VectorSelector) parser.Expr {
	mark := &labels.Matcher{Type: labels.MatchEqual}
	p.pushdowns[mark] = l
	l.count()
	s.LabelMatchers = append(slices.Clone(l.matchers), mark)
	return s
}

// selector returns the pushdown of a selector, nil for none.
func (p *rewriter) selector(s *parser.VectorSelector) *pushdown {
	if hasModifiers(s) {
		return nil
	}
	l := pushdown{window: p.lookback.Milliseconds(), offset: s.OriginalOffset.Milliseconds(), matchers: s.LabelMatchers}
	if names := equalTo(s.LabelMatchers, model.MetricNameLabel); len(names) == 1 {
		l.metric = names[0]
	}
	return p.add(l)
}

// call returns the pushdown of a function of a range, nil for none. Without a metric's name two series may become one,
// which the engine must refuse, unless the function keeps their names.
func (p *rewriter) call(c *parser.Call) *pushdown {
	if functions[c.Func.Name] == nil {
		return nil
	}
	l := pushdown{function: c.Func.Name}
	var length, offset time.Duration
	switch of := c.Args[0].(type) {
	case *parser.SubqueryExpr:
		inner, ok := p.within(of)
		if !ok || infoOnCounters[l.function] {
			return nil
		}
		if l.inner = inner.term(of.Expr); l.inner == nil {
			return nil
		}
		length, offset = of.Range, of.OriginalOffset
	case *parser.MatrixSelector:
		s := of.VectorSelector.(*parser.VectorSelector)
		names := equalTo(s.LabelMatchers, model.MetricNameLabel)
		if of.RangeExpr != nil || hasModifiers(s) || len(names) != 1 && !keepsName[l.function] {
			return nil
		}
		if len(names) == 1 {
			l.metric = names[0]
		}
		length, offset = of.Range, s.OriginalOffset
		l.matchers, l.argument = s.LabelMatchers, of.PositionRange()
	default:
		return nil
	}
	l.window, l.offset = length.Milliseconds(), offset.Milliseconds()
	l.back, l.seconds = (length + offset).Milliseconds(), length.Seconds()
	return p.add(l)
}

// hasModifiers reports whether a selector is more than matchers and an offset.
func hasModifiers(s *parser.VectorSelector) bool {
	return s.OriginalOffsetExpr != nil || s.Timestamp != nil || s.StartOrEnd != 0 || s.Anchored || s.Smoothed
}

// add returns a pushdown at the rewriter's steps, or the one that is equal to it.
func (p *rewriter) add(l pushdown) *pushdown {
	l.steps = p.steps
	key := l.key()
	if p.known[key] == nil {
		p.known[key] = &l
		p.read(&l)
	}
	return p.known[key]
}
