package prom

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"
)

// maxGrid is how many steps a subquery may have in which something is computed here.
const maxGrid = 1 << 20

// within returns the rewriter of a subquery's expression: its steps are multiples of the subquery's own, as the engine
// has them. It is not ok where there are none, or where they do not depend on those around it.
func (p *rewriter) within(q *parser.SubqueryExpr) (inner *rewriter, ok bool) {
	if q.Timestamp != nil || q.StartOrEnd != 0 || q.RangeExpr != nil || q.OriginalOffsetExpr != nil || q.StepExpr != nil {
		return nil, false
	}
	step := q.Step.Milliseconds()
	if q.Step == 0 {
		step = defaultSubqueryStep.Milliseconds()
	}
	if step <= 0 {
		return nil, false
	}
	before := p.steps.first - q.OriginalOffset.Milliseconds() - q.Range.Milliseconds()
	first, last := before/step*step, p.steps.at(p.steps.n-1)-q.OriginalOffset.Milliseconds()
	if first <= before {
		first += step
	}
	n := (last-first)/step + 1
	if last < first || n > maxGrid {
		return nil, false
	}
	of := *p
	of.steps = stepGrid{first, step, int(n)}
	return &of, true
}

// defaultSubqueryStep is the step of a subquery that names none.
const defaultSubqueryStep = time.Minute

// term is an expression of a subquery that is computed here, for all steps of the subquery at once: a pushdown, or an
// operation on terms.
type term struct {
	key      string // the same of terms with the same values
	pushdown *pushdown
	of       []*term
	apply    func(*selector, []columns) (columns, error)
}

// term returns an expression as one, nil if that is not possible.
func (p *rewriter) term(expr parser.Expr) *term {
	var l *pushdown
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return p.term(e.Expr)
	case *parser.UnaryExpr:
		of := p.term(e.Expr)
		if of == nil || e.Op != parser.SUB {
			return of
		}
		return mapping("-", of, change{func(v float64) float64 { return -v }, true})
	case *parser.BinaryExpr:
		return p.operation(e)
	case *parser.VectorSelector:
		l = p.selector(e)
	case *parser.Call:
		l = p.call(e)
	}
	if l == nil {
		return nil
	}
	return &term{key: "(" + l.key() + ")", pushdown: l}
}

// count counts the uses of the pushdowns that a term is made of.
func (t *term) count() {
	if t.pushdown != nil {
		t.pushdown.count()
	}
	for _, of := range t.of {
		of.count()
	}
}

// operation returns the term of an operation with a number, or of one on sets.
func (p *rewriter) operation(e *parser.BinaryExpr) *term {
	if e.Op.IsSetOperator() {
		left, right := p.term(e.LHS), p.term(e.RHS)
		if left == nil || right == nil {
			return nil
		}
		match := matching{e.VectorMatching, e.Op}
		key := fmt.Sprintf("(%s%s%v%q%s)", left.key, e.Op, match.On, match.MatchingLabels, right.key)
		return &term{key: key, of: []*term{left, right}, apply: match.apply}
	}
	if v, ok := numberOf(e.RHS); ok {
		if f, ok := withNumber(e, v, false); ok {
			return mapping(fmt.Sprint(e.Op, e.ReturnBool, v), p.term(e.LHS), f)
		}
	} else if v, ok := numberOf(e.LHS); ok {
		if f, ok := withNumber(e, v, true); ok {
			return mapping(fmt.Sprint(v, e.Op, e.ReturnBool), p.term(e.RHS), f)
		}
	}
	return nil
}

// mapping returns the term of a change of all values of a term, nil of none.
func mapping(name string, of *term, c change) *term {
	if of == nil {
		return nil
	}
	return &term{key: name + of.key, of: []*term{of}, apply: func(s *selector, of []columns) (columns, error) {
		return s.mapped(of[0], c)
	}}
}

// numberOf returns the value of a number in any brackets. It leaves NaN: which of two NaN an operation returns depends
// on the order of the operands in the processor.
func numberOf(expr parser.Expr) (v float64, ok bool) {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
		case *parser.NumberLiteral:
			return e.Val, !math.IsNaN(e.Val)
		default:
			return 0, false
		}
	}
}

// change makes a value of one, a stale marker for none.
type change struct {
	of        func(float64) float64
	dropsName bool
}

// withNumber returns the change that an operator with a number makes: on its right, or on its left if it is swapped.
func withNumber(e *parser.BinaryExpr, n float64, swapped bool) (c change, ok bool) {
	if compare := comparisons[e.Op]; compare != nil {
		holds := func(v float64) bool { return compare(v, n) }
		if swapped {
			holds = func(v float64) bool { return compare(n, v) }
		}
		if e.ReturnBool {
			return change{func(v float64) float64 {
				if holds(v) {
					return 1
				}
				return 0
			}, true}, true
		}
		return change{func(v float64) float64 {
			if holds(v) {
				return v
			}
			return stale
		}, false}, true
	}
	operate := arithmetic[e.Op]
	if swapped {
		return change{func(v float64) float64 { return operate(n, v) }, true}, operate != nil
	}
	return change{func(v float64) float64 { return operate(v, n) }, true}, operate != nil
}

var comparisons = map[parser.ItemType]func(l, r float64) bool{
	parser.EQLC: func(l, r float64) bool { return l == r }, parser.NEQ: func(l, r float64) bool { return l != r },
	parser.GTR: func(l, r float64) bool { return l > r }, parser.LSS: func(l, r float64) bool { return l < r },
	parser.GTE: func(l, r float64) bool { return l >= r }, parser.LTE: func(l, r float64) bool { return l <= r },
}

var arithmetic = map[parser.ItemType]func(l, r float64) float64{
	parser.ADD: func(l, r float64) float64 { return l + r }, parser.SUB: func(l, r float64) float64 { return l - r },
	parser.MUL: func(l, r float64) float64 { return l * r }, parser.DIV: func(l, r float64) float64 { return l / r },
	parser.POW: math.Pow, parser.MOD: math.Mod, parser.ATAN2: math.Atan2,
}

// columns are the series of a term: a value at each step, a stale marker for none. Two never have the same labels.
type columns struct {
	series []*series
	of     *pushdown // their pushdown, which others may use as well; nil for none
}

// columns returns the columns of a term, which the caller must release.
func (s *selector) columns(ctx context.Context, t *term) (c columns, warnings annotations.Annotations, err error) {
	if t.pushdown != nil {
		found := s.outcome(ctx, t.pushdown)
		return columns{found.series, t.pushdown}, found.warnings, found.err
	}
	of := make([]columns, len(t.of))
	for i := range t.of {
		found, said, err := s.columns(ctx, t.of[i])
		warnings.Merge(said)
		if err != nil {
			return c, warnings, err
		}
		of[i] = found
	}
	if err := ctx.Err(); err != nil {
		return c, warnings, err
	}
	c, err = t.apply(s, of)
	return c, warnings, err
}

// owned reports whether the values have a single user.
func (c *columns) owned() bool { return c.of == nil || c.of.uses == 1 }

// release ends a use of the values.
func (s *selector) release(c columns) {
	if c.owned() {
		for _, one := range c.series {
			s.memory.Give(8 * int64(len(one.values)))
		}
	}
	if c.of == nil {
		return
	}
	if c.of.uses--; c.of.uses == 0 {
		c.of.found = nil
	}
}

// writable returns columns with the same values that may be changed, and ends the use of those that it is given.
func (s *selector) writable(c columns) (out columns, err error) {
	out.series = make([]*series, len(c.series))
	owned := c.owned()
	for i, one := range c.series {
		of := *one
		if !owned {
			if err := s.memory.Take(8 * int64(len(one.values))); err != nil {
				return out, err
			}
			of.values = slices.Clone(one.values)
		}
		out.series[i] = &of
	}
	if c.of != nil {
		if c.of.uses--; owned {
			c.of.found = nil
		}
	}
	return out, nil
}

func (s *selector) mapped(c columns, by change) (columns, error) {
	c, err := s.writable(c)
	if err != nil {
		return c, err
	}
	for _, one := range c.series {
		for k, v := range one.values {
			if !value.IsStaleNaN(v) {
				one.values[k] = by.of(v)
			}
		}
	}
	s.dropEmpty(&c)
	if by.dropsName {
		return c, c.dropNames()
	}
	return c, nil
}

// dropEmpty removes series without a value, from columns that may be changed.
func (s *selector) dropEmpty(c *columns) {
	c.series = slices.DeleteFunc(c.series, func(one *series) bool {
		if hasValue(one.values) {
			return false
		}
		s.memory.Give(8 * int64(len(one.values)))
		return true
	})
}

// dropNames removes the names of metrics from columns that may be changed. Where labels are the same then, series are
// one, or the engine must refuse them.
func (c *columns) dropNames() error {
	seen := make(map[string]bool, len(c.series))
	var b []byte
	for _, one := range c.series {
		one.labels = one.labels.DropReserved(schema.IsMetadataLabel)
		b = one.labels.Bytes(b)
		if seen[string(b)] {
			return errEngineOnly
		}
		seen[string(b)] = true
	}
	return nil
}

// matching is an operation on sets.
type matching struct {
	*parser.VectorMatching
	op parser.ItemType
}

// apply keeps values of the left side where there is one that matches on the right side, or none; with "or" all, and
// those of the right side where none on the left side matches.
func (m matching) apply(s *selector, of []columns) (columns, error) {
	left, right := of[0], of[1]
	if m.op != parser.LOR {
		left, err := s.writable(left)
		if err != nil {
			return left, err
		}
		m.keep(left, m.present(right), m.op == parser.LAND)
		s.release(right)
		s.dropEmpty(&left)
		return left, nil
	}
	right, err := s.writable(right)
	if err != nil {
		return right, err
	}
	m.keep(right, m.present(left), false)
	s.dropEmpty(&right)
	left, err = s.writable(left)
	if err != nil {
		return left, err
	}
	s.join(&left, right)
	return left, nil
}

// join adds the series of the right side. Those with the same labels match, so that at each step one of them has a
// value at most: they are one.
func (s *selector) join(left *columns, right columns) {
	known := make(map[string]*series, len(left.series))
	var b []byte
	for _, one := range left.series {
		b = one.labels.Bytes(b)
		known[string(b)] = one
	}
	for _, one := range right.series {
		b = one.labels.Bytes(b)
		into := known[string(b)]
		if into == nil {
			left.series = append(left.series, one)
			continue
		}
		overlay(into.values, one.values)
		s.memory.Give(8 * int64(len(one.values)))
	}
}

// keep removes values at steps at which some of the other side are there that match, or at which none are.
func (m matching) keep(c columns, others map[string][]float64, matched bool) {
	var b []byte
	for _, one := range c.series {
		b = m.signature(one.labels, b)
		other := others[string(b)]
		for k := range one.values {
			if (other != nil && !value.IsStaleNaN(other[k])) != matched {
				one.values[k] = stale
			}
		}
	}
}

// present returns, by what must match, values at steps at which there are some.
func (m matching) present(c columns) map[string][]float64 {
	out := make(map[string][]float64)
	shared := make(map[string]bool)
	var b []byte
	for _, one := range c.series {
		b = m.signature(one.labels, b)
		key := string(b)
		if out[key] == nil {
			out[key] = one.values
			continue
		}
		if !shared[key] {
			out[key], shared[key] = slices.Clone(out[key]), true
		}
		overlay(out[key], one.values)
	}
	return out
}

// signature returns what must be the same of labels that match.
func (m matching) signature(l labels.Labels, b []byte) []byte {
	names := slices.Clone(m.MatchingLabels)
	if !m.On {
		names = append(names, model.MetricNameLabel)
	}
	slices.Sort(names)
	if m.On {
		return l.BytesWithLabels(b, names...)
	}
	return l.BytesWithoutLabels(b, names...)
}

// overSubquery computes the pushdown of a function over a subquery.
func (s *selector) overSubquery(ctx context.Context, l *pushdown) (
	out []*series, warnings annotations.Annotations, err error) {
	inner, warnings, err := s.columns(ctx, l.inner)
	if err != nil {
		return nil, warnings, err
	}
	defer s.release(inner)
	if len(inner.series) == 0 {
		return nil, warnings, nil
	}
	e, err := s.begin(l)
	if err != nil {
		return nil, warnings, err
	}
	var samples series
	for _, one := range inner.series {
		if err := ctx.Err(); err != nil {
			return nil, warnings, err
		}
		of := one
		if !inner.owned() || slices.ContainsFunc(one.values, value.IsStaleNaN) {
			if err := s.copyTo(&samples, one); err != nil {
				return nil, warnings, err
			}
			of = &samples
		}
		if err := e.add(of); err != nil {
			return nil, warnings, err
		}
	}
	c := columns{series: e.out}
	if !keepsName[l.function] {
		err = c.dropNames()
	}
	return c.series, warnings, err
}
