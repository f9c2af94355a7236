package prom

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// reservedPoints is how many points the engine reserves for a series that has one, if the query has as many steps.
const reservedPoints = 5000

// engineSeriesBytes estimates the engine's memory of a series in lists and maps, without points and labels; pointBytes
// is the size of a point.
const (
	engineSeriesBytes = 512
	pointBytes        = 16
)

// footprint bounds what the engine holds for an expression. Numbers are floats, so that none can overflow.
type footprint struct {
	series float64 // how many it has
	labels labelSizes
	held   float64 // bytes of its result
	peak   float64 // the most bytes while it is computed, with its result
	points float64 // points of the longest series in a range of time
	work   float64 // the most points that the engine looks at without a look at the time
}

// maxWork is some seconds of work. The engine computes a function of a range for all steps of a series, whatever the
// time.
const maxWork = 5e9

// labelSizes bounds the bytes of the labels of one series: of those that were read, and of those that the query makes,
// by name. A label of a series that was read is no longer than all of them.
type labelSizes struct {
	read float64
	made map[string]float64
}

func (s *labelSizes) of(name string) float64 {
	if size, ok := s.made[name]; ok {
		return size
	}
	return s.read
}

func (s *labelSizes) all() float64 {
	sum := s.read
	for _, size := range s.made {
		sum += size
	}
	return sum
}

// make notes a label that the query makes. Where the old one stays it is as long as that.
func (s *labelSizes) make(name string, size float64) {
	if s.made == nil {
		s.made = make(map[string]float64)
	}
	s.made[name] = max(s.made[name], size+float64(len(name)))
}

func (s *labelSizes) join(o labelSizes) {
	s.read = max(s.read, o.read)
	for name, size := range o.made {
		s.make(name, size)
	}
}

// grid is how many steps an expression is evaluated at, and how many milliseconds lie between the first and the last.
type grid struct{ steps, span float64 }

// meter bounds what an expression takes in the engine, whatever it is made of. What the engine does not do is to make
// more series than it is given, but for count_values and labels that group_left copies: of those each sample may be a
// series of its own.
type meter struct {
	leaf    func([]*labels.Matcher) leafSize
	samples float64 // limit of the engine
}

// result returns the footprint of a result with the series and labels of one, which is computed while that one's bytes
// are held.
func (m *meter) result(from footprint, g grid) footprint {
	// Each series has a sample, and the engine counts those.
	series := min(from.series, 2*m.samples)
	points := min(series*g.steps, series*min(g.steps, reservedPoints)+2*m.samples)
	held := series*(engineSeriesBytes+from.labels.all()) + points*pointBytes
	peak := max(from.peak, from.held+held)
	return footprint{series: series, labels: from.labels, held: held, peak: peak, work: from.work}
}

func (m *meter) of(expr parser.Expr, g grid) footprint {
	switch e := expr.(type) {
	case *parser.StringLiteral:
		return footprint{}
	case *parser.ParenExpr:
		return m.of(e.Expr, g)
	case *parser.StepInvariantExpr: // one step, which is copied to all others
		return m.result(m.of(e.Expr, grid{steps: 1}), g)
	case *parser.VectorSelector:
		of := m.leaf(e.LabelMatchers)
		return m.result(footprint{series: of.series, labels: labelSizes{read: of.labels}}, g)
	case *parser.MatrixSelector:
		of := m.leaf(e.VectorSelector.(*parser.VectorSelector).LabelMatchers)
		held := of.series*engineSeriesBytes + min(of.samples, m.samples)*pointBytes
		return footprint{series: of.series, labels: labelSizes{read: of.labels}, held: held, peak: held, points: of.longest}
	case *parser.SubqueryExpr:
		return m.subquery(e, g)
	case *parser.UnaryExpr:
		return m.result(m.of(e.Expr, g), g)
	case *parser.AggregateExpr:
		return m.aggregate(e, g)
	case *parser.BinaryExpr:
		return m.binary(e, g)
	case *parser.Call:
		return m.call(e, g)
	}
	return m.result(footprint{series: 1}, g) // a number
}

// subquery returns the footprint of a subquery, which has steps of its own. The engine counts something for each.
func (m *meter) subquery(e *parser.SubqueryExpr, g grid) footprint {
	step := float64(e.Step.Milliseconds())
	if step <= 0 {
		step = float64(defaultSubqueryStep.Milliseconds())
	}
	inner := grid{span: g.span + float64(e.Range.Milliseconds())}
	inner.steps = inner.span/step + 2
	of := m.of(e.Expr, inner)
	counts := 2 * 8 * inner.steps
	of.held += of.series * engineSeriesBytes
	of.peak = max(of.peak, of.held) + counts
	of.points = float64(e.Range.Milliseconds())/step + 1
	return of
}

func (m *meter) aggregate(e *parser.AggregateExpr, g grid) footprint {
	var param footprint
	if e.Param != nil {
		param = m.of(e.Param, g)
	}
	of := m.of(e.Expr, g)
	series := of.series
	switch {
	case e.Op == parser.COUNT_VALUES:
		series *= g.steps
		of.labels.make(textOf(e.Param), 32) // a number
	case len(e.Grouping) == 0 && !e.Without && !ofInput[e.Op]:
		series = min(series, 1)
	}
	of.series, of.work = series, max(param.work, of.work)
	of.held, of.peak = param.held+of.held, max(param.peak, param.held+of.peak)
	return m.result(of, g)
}

// ofInput lists the aggregations with series of their input.
var ofInput = map[parser.ItemType]bool{
	parser.TOPK: true, parser.BOTTOMK: true, parser.LIMITK: true, parser.LIMIT_RATIO: true,
}

func (m *meter) binary(e *parser.BinaryExpr, g grid) footprint {
	left, right := m.of(e.LHS, g), m.of(e.RHS, g)
	series, sizes := left.series+right.series, left.labels
	sizes.join(right.labels)
	match := e.VectorMatching
	if match == nil { // with a number
		series = max(left.series, right.series)
	} else if len(match.Include) > 0 {
		series = min(left.series*right.series, series*g.steps)
		sizes.read = left.labels.read + right.labels.read
	}
	// What belongs together is found by texts of the labels of both sides.
	texts := left.series*left.labels.all() + right.series*right.labels.all() + series*sizes.all()
	return m.result(footprint{series: series, labels: sizes, held: left.held + right.held + texts,
		peak: max(left.peak, left.held+right.peak), work: max(left.work, right.work)}, g)
}

func (m *meter) call(e *parser.Call, g grid) footprint {
	series, held, peak, work, texts := 0.0, 0.0, 0.0, 0.0, 0
	var sizes labelSizes
	for _, arg := range e.Args {
		of := m.of(arg, g)
		peak, held = max(peak, held+of.peak), held+of.held
		series, work = max(series, of.series), max(work, of.work, g.steps*of.points)
		sizes.join(of.labels)
		texts += len(textOf(arg))
	}
	switch e.Func.Name {
	case "label_replace":
		replacement, source := textOf(e.Args[2]), sizes.of(textOf(e.Args[3]))
		sizes.make(textOf(e.Args[1]), float64(strings.Count(replacement, "$"))*source+float64(len(replacement)))
	case "label_join":
		size := float64(len(e.Args) * len(textOf(e.Args[2])))
		for _, arg := range e.Args[3:] {
			size += sizes.of(textOf(arg))
		}
		sizes.make(textOf(e.Args[1]), size)
	case "absent", "absent_over_time": // the matchers spell its labels
		for _, matchers := range parser.ExtractSelectors(e.Args[0]) {
			for _, matcher := range matchers {
				sizes.make(matcher.Name, float64(len(matcher.Value)))
			}
		}
	default:
		sizes.read += float64(texts)
	}
	beside := held + series*2*sizes.all() // keys of series
	return m.result(footprint{series: max(series, 1), labels: sizes, held: beside, peak: peak, work: work}, g)
}

// textOf returns the text of a string literal in any brackets.
func textOf(expr parser.Expr) string {
	for {
		switch e := expr.(type) {
		case *parser.ParenExpr:
			expr = e.Expr
		case *parser.StepInvariantExpr:
			expr = e.Expr
		case *parser.StringLiteral:
			return e.Val
		default:
			return ""
		}
	}
}

// bound takes all that an evaluation by the engine may hold from the query's memory before it begins: the
// engine counts samples, and neither what it reserves nor labels. The engine asks for all selectors before it
// evaluates anything, and what they find is found out then.
type bound struct {
	*tenantStorage
	statement *parser.EvalStmt
	selectors int    // number of selectors in the statement
	sets      []*set // sets of the selectors that the engine has asked for
	end       context.CancelFunc
	taken     int64
	err       error
}

// bounded returns what the engine makes of a query, within the query's memory.
func (t *tenantStorage) bounded(ctx context.Context, q promql.Query) *promql.Result {
	s, ok := q.Statement().(*parser.EvalStmt)
	if !ok {
		return q.Exec(ctx)
	}
	asked, end := context.WithCancel(ctx)
	defer end()
	b := &bound{tenantStorage: t, statement: s, selectors: len(parser.ExtractSelectors(s.Expr)), end: end}
	t.bound = b
	defer func() { t.bound = nil }()
	if b.selectors == 0 {
		b.check()
	}
	res := q.Exec(asked)
	t.memory.Give(b.taken)
	switch {
	case b.err != nil:
		return &promql.Result{Err: b.err}
	case res.Err != nil:
		return res
	}
	size := int64(0)
	for text := range res.Warnings {
		size += engineSeriesBytes + 2*int64(len(text))
	}
	switch v := res.Value.(type) {
	case promql.Matrix:
		for _, s := range v {
			size += engineSeriesBytes + int64(s.Metric.ByteSize()) + pointBytes*int64(cap(s.Floats))
		}
	case promql.Vector:
		for _, s := range v {
			size += engineSeriesBytes + int64(s.Metric.ByteSize())
		}
	}
	if err := t.memory.Take(size); err != nil {
		return &promql.Result{Err: t.beyond(err)}
	}
	return res
}

func (t *tenantStorage) beyond(err error) error {
	if !errors.Is(err, query.ErrMemory) {
		return err
	}
	return &query.LimitError{
		Limit: fmt.Sprintf("the %d MiB of memory that a PromQL query may use (--promql-memory-mb)", t.memoryBytes>>20),
		Narrow: []string{"select fewer series", "ask for fewer steps (start, end, step, subqueries)",
			"make fewer and shorter labels (count_values, group_left, label_replace, label_join, absent)"},
	}
}

// add adds a set, and checks the evaluation with the last one.
func (b *bound) add(s *set) {
	if b.sets = append(b.sets, s); len(b.sets) == b.selectors {
		b.check()
	}
}

// check takes what the evaluation may hold, or ends it.
func (b *bound) check() {
	for _, s := range b.sets {
		s.resolve()
	}
	s := b.statement
	g := grid{steps: 1}
	if s.Interval > 0 {
		n := s.End.Sub(s.Start) / s.Interval
		g = grid{float64(n + 1), float64(n) * float64(s.Interval.Milliseconds())}
	}
	if b.taken, b.err = b.take(s.Expr, g); b.err != nil {
		b.end()
	}
}

// take takes what an expression may hold.
func (b *bound) take(expr parser.Expr, g grid) (taken int64, err error) {
	m := meter{leaf: b.leaf, samples: float64(b.maxSamples)}
	of := m.of(expr, g)
	taken = int64(min(of.peak, 1<<60))
	if err := b.memory.Take(taken); err != nil {
		return 0, b.beyond(err)
	}
	if of.work > maxWork {
		b.memory.Give(taken)
		return 0, &query.LimitError{Limit: fmt.Sprintf("%.0f points for the steps of a series", maxWork),
			Narrow: []string{"ask for fewer or longer steps (step, subqueries), or for shorter ranges"}}
	}
	return taken, nil
}

// leaf returns how much a selector has found.
func (b *bound) leaf(matchers []*labels.Matcher) leafSize {
	out := b.reads.find(matchers, telemetry.Range{})
	if l := b.pushdowns.of(matchers); l != nil {
		out = l.found
	}
	if out == nil {
		return leafSize{}
	}
	return out.sizes()
}

// reads is what selectors without a pushdown have read.
type reads []read

type read struct {
	key string
	telemetry.Range
	*outcome
}

// find returns the outcome for matchers and a range, or nil.
func (r reads) find(matchers []*labels.Matcher, of telemetry.Range) *outcome {
	key := fmt.Sprintf("%q", matchers)
	for i := range r {
		if r[i].key == key && (of.Empty() || r[i].From <= of.From && r[i].To >= of.To) {
			return r[i].outcome
		}
	}
	return nil
}
