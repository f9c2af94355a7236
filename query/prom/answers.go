package prom

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

// answers evaluates range queries, and keeps what they answer. Of a query that was asked before, only steps are
// computed on which something has changed since (decision record 17).
type answers struct {
	*tenantStorage
	text string
}

// answerKey names an answer: a query, and the steps that it may have.
type answerKey struct {
	tenant, text    string
	lookback        time.Duration
	step, remainder int64 // every instant of a step is a multiple of step plus remainder
}

// keptAnswer is the answer of a query. It does not change.
type keptAnswer struct {
	steps    stepGrid
	hasValue []bool        // whether the selector has a value at a step
	matrix   promql.Matrix // sorted, without histograms
	infos    annotations.Annotations
	basis    *query.Basis
	tags     query.TagsSum
}

// maxAnswerBytes bounds an answer that is kept.
const maxAnswerBytes = 1 << 20

func (a *answers) bounded(ctx context.Context, q promql.Query) *promql.Result {
	if a == nil {
		return q.Exec(ctx)
	}
	return a.tenantStorage.bounded(ctx, q)
}

// exec runs a query that the engine has prepared and that has pushdowns.
func (a *answers) exec(ctx context.Context, q promql.Query, l pushdowns) *promql.Result {
	s, ok := q.Statement().(*parser.EvalStmt)
	if a == nil || !ok || s.Interval == 0 || a.asOf > 0 || len(l) != 1 {
		return a.bounded(ctx, q)
	}
	if n, _ := l.keepable(s.Expr); n != 1 {
		return a.bounded(ctx, q)
	}
	for _, of := range l {
		if of.metric != "" && !narrowing(of.matchers) {
			return a.evaluate(ctx, q, s, of)
		}
	}
	return a.bounded(ctx, q)
}

func (a *answers) evaluate(ctx context.Context, q promql.Query, s *parser.EvalStmt, asked *pushdown) *promql.Result {
	l := asked // or what it folds
	if l.fold != nil {
		l = l.source
	}
	key := answerKey{a.tenant, a.text, s.LookbackDelta, l.steps.step, l.steps.first % l.steps.step}
	tags, known := a.tagsSum(ctx)
	old, _ := a.querier.Kept().Get(key).(*keptAnswer)
	if !known || old != nil && old.tags != tags {
		old = nil
	}
	fresh := &keptAnswer{steps: l.steps, hasValue: make([]bool, l.steps.n), tags: tags}
	reused, changed := 0, int64(math.MinInt64) // steps, and the first instant that may differ
	if old != nil {
		l.kept = old.basis
	}
	l.narrow = func(b *query.Basis) int64 {
		if fresh.basis = b; b != nil && old != nil {
			changed = b.ChangedSince(old.basis)
			reused = old.valid(l, changed)
		}
		if l.steps = (stepGrid{l.steps.at(reused), l.steps.step, l.steps.n - reused}); l.steps.n == 0 {
			return math.MaxInt64
		}
		return min(changed, l.steps.first-l.offset-l.window+1)
	}
	hints := len(a.hints)
	selector := &selector{tenantStorage: a.tenantStorage}
	asked.ready = &outcome{}
	asked.ready.series, asked.ready.warnings, asked.ready.err = selector.found(ctx, l.matchers,
		func() ([]*series, annotations.Annotations, error) { return selector.evaluate(ctx, asked) })
	if asked.ready.err == nil && slices.ContainsFunc(asked.ready.series, hasMetadata) {
		if reused > 0 { // series of different steps may be one
			return &promql.Result{Err: errEngineOnly}
		}
		known = false
	}
	a.querier.Kept().Count(reused > 0)
	fresh.note(asked.ready.series, reused)
	var infos annotations.Annotations
	if reused > 0 && fresh.copyFrom(old, reused) {
		infos, a.hints = old.infos, a.hints[:hints]
	}
	res := &promql.Result{Value: promql.Matrix(nil), Warnings: asked.ready.warnings}
	if asked.ready.err != nil || reused < fresh.steps.n {
		s.Start = s.Start.Add(time.Duration(reused) * s.Interval)
		res = a.bounded(ctx, q)
	}
	tail, ok := res.Value.(promql.Matrix)
	if res.Err != nil || !ok {
		return res
	}
	size := keptBytes(tail)
	if reused == 0 && size > maxAnswerBytes {
		return res // which is not kept
	}
	if err := a.memory.Take(size); err != nil { // for a copy
		return &promql.Result{Err: a.beyond(err)}
	}
	res.Warnings.Merge(infos)
	var before promql.Matrix
	if reused > 0 {
		before = old.matrix
	}
	fresh.join(before, tail, reused)
	fresh.infos = res.Warnings
	keep := known && fresh.basis != nil && !l.again && len(a.hints) == hints && onlyInfos(res.Warnings)
	if now, ok := a.tagsSum(ctx); keep && ok && now == tags {
		if n := fresh.bytes(); n <= maxAnswerBytes {
			a.querier.Kept().Put(key, fresh, n)
		}
	}
	if reused > 0 {
		res.Value = fresh.matrix
	}
	return res
}

func (a *answers) tagsSum(ctx context.Context) (sum query.TagsSum, ok bool) {
	known, err := a.tags.Known(ctx)
	if err != nil {
		return sum, false
	}
	return known.TagsSum()
}

// keepable returns how many pushdowns of an expression can be computed step by step, so that the steps
// together are what the engine answers, and how many aggregations: the order in which it adds groups depends on all
// steps. It returns a high number for what is not so.
func (l pushdowns) keepable(expr parser.Expr) (n, aggregations int) {
	const never = 1 << 20
	switch e := expr.(type) {
	case *parser.NumberLiteral, *parser.StringLiteral:
	case *parser.VectorSelector:
		switch of := l.of(e.LabelMatchers); {
		case of == nil:
			return never, 0
		case of.fold != nil && of.fold.best == 0:
			return 1, 1
		}
		return 1, 0
	case *parser.ParenExpr:
		return l.keepable(e.Expr)
	case *parser.UnaryExpr:
		return l.keepable(e.Expr)
	case *parser.StepInvariantExpr:
		return l.keepable(e.Expr)
	case *parser.AggregateExpr:
		if e.Op == parser.LIMITK || e.Op == parser.LIMIT_RATIO {
			return never, 0
		}
		n, aggregations = l.keepable(e.Expr)
		if e.Param != nil {
			if m, _ := l.keepable(e.Param); m > 0 {
				return never, 0
			}
		}
		if aggregations++; aggregations > 1 {
			return never, 0
		}
	case *parser.BinaryExpr:
		n, aggregations = l.keepable(e.LHS)
		m, more := l.keepable(e.RHS)
		return n + m, aggregations + more
	case *parser.Call:
		if !byStep[e.Func.Name] {
			return never, 0
		}
		for _, arg := range e.Args {
			m, more := l.keepable(arg)
			n, aggregations = n+m, aggregations+more
		}
	default:
		return never, 0
	}
	return n, aggregations
}

// byStep lists functions of one series and step.
var byStep = map[string]bool{
	"abs": true, "ceil": true, "floor": true, "round": true, "exp": true, "ln": true, "log2": true, "log10": true,
	"sqrt": true, "sgn": true, "clamp": true, "clamp_min": true, "clamp_max": true, "deg": true, "rad": true, "time": true,
}

// valid returns how many steps of a pushdown have the value that they had when the answer was kept, if readings may
// have changed from an instant on.
func (k *keptAnswer) valid(l *pushdown, changed int64) int {
	skipped := (l.steps.first - k.steps.first) / l.steps.step
	if l.steps.first < k.steps.first || skipped >= int64(k.steps.n) {
		return 0
	}
	most := min(l.steps.n, k.steps.n-int(skipped))
	n := 0
	for n < most && l.steps.at(n)-l.offset < changed {
		n++
	}
	return n
}

// note notes on which steps the selector has a value. The series begin at the step from.
func (k *keptAnswer) note(found []*series, from int) {
	lacking := k.steps.n - from
	for _, s := range found {
		for i, v := range s.values {
			if at := from + i; !k.hasValue[at] && !value.IsStaleNaN(v) {
				k.hasValue[at] = true
				lacking--
			}
		}
		if lacking == 0 {
			return
		}
	}
}

// copyFrom notes the same for the steps that are reused, and reports whether there is any value.
func (k *keptAnswer) copyFrom(old *keptAnswer, reused int) (some bool) {
	skipped := int((k.steps.first - old.steps.first) / k.steps.step)
	copy(k.hasValue[:reused], old.hasValue[skipped:])
	return slices.Contains(k.hasValue[:reused], true)
}

// join sets the matrix to the first steps of an answer and all others. The points are copied: those of the engine are
// used again.
func (k *keptAnswer) join(before, after promql.Matrix, reused int) {
	from, to := k.steps.first, k.steps.at(reused)
	for len(before) > 0 || len(after) > 0 {
		first := -1
		switch {
		case len(before) == 0:
			first = 1
		case len(after) > 0:
			first = labels.Compare(before[0].Metric, after[0].Metric)
		}
		var s promql.Series
		if first <= 0 {
			s = promql.Series{Metric: before[0].Metric, DropName: before[0].DropName}
			points := before[0].Floats
			lo, _ := slices.BinarySearchFunc(points, from, compareTime)
			hi, _ := slices.BinarySearchFunc(points, to, compareTime)
			s.Floats = slices.Clone(points[lo:hi])
			before = before[1:]
		}
		if first >= 0 {
			s.Metric, s.DropName = after[0].Metric, after[0].DropName
			s.Floats = slices.Concat(s.Floats, after[0].Floats)
			if len(after[0].Histograms) > 0 {
				k.basis = nil
			}
			after = after[1:]
		}
		if len(s.Floats) > 0 || len(s.Histograms) > 0 {
			k.matrix = append(k.matrix, s)
		}
	}
}

func compareTime(p promql.FPoint, t int64) int { return cmp.Compare(p.T, t) }

// bytes returns about how much memory the answer takes.
func (k *keptAnswer) bytes() int64 {
	return k.basis.Bytes() + int64(len(k.hasValue)) + keptBytes(k.matrix)
}

// keptBytes returns about how much memory a copy of a matrix takes.
func keptBytes(m promql.Matrix) (n int64) {
	for _, s := range m {
		n += 128 + pointBytes*int64(len(s.Floats)) + int64(s.Metric.ByteSize())
	}
	return n
}

// onlyInfos reports whether all annotations are of the kind that goes with a selector's values: those of functions of
// the expression alone.
func onlyInfos(all annotations.Annotations) bool {
	for _, err := range all {
		if !errors.Is(err, annotations.PossibleNonCounterInfo) {
			return false
		}
	}
	return true
}
