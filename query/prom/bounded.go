package prom

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
)

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

// bounded returns what the engine makes of a query, within the query's memory. Where all steps together may need more
// it evaluates some at a time, each with the query once more.
func (t *tenantStorage) bounded(ctx context.Context, q promql.Query, more func() (promql.Query, error)) *promql.Result {
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
	case b.err == nil && res.Err == nil:
		return t.holding(res)
	case b.err == nil:
		return res
	case s.Interval == 0 || more == nil:
		return &promql.Result{Err: b.err}
	}
	out := joined{memory: t.memory, series: make(map[labels.Labels]int)}
	return b.inParts(ctx, more, &out)
}

func (t *tenantStorage) holding(res *promql.Result) *promql.Result {
	size := saidBytes(res.Warnings, nil)
	switch v := res.Value.(type) {
	case promql.Matrix:
		size = matrixBytes(v)
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

// saidBytes estimates the memory of warnings and infos that are not in known.
func saidBytes(all, known annotations.Annotations) (n int64) {
	for text := range all {
		if known[text] == nil {
			n += engineSeriesBytes + 2*int64(len(text))
		}
	}
	return n
}

// matrixBytes returns about how much memory a matrix takes.
func matrixBytes(m promql.Matrix) (n int64) {
	for _, s := range m {
		n += engineSeriesBytes + int64(s.Metric.ByteSize()) + pointBytes*int64(cap(s.Floats))
	}
	return n
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
		g = gridOf(stepsOf(s), s.Interval)
	}
	if b.taken, b.err = b.take(s.Expr, g); b.err != nil {
		b.end()
	}
}

// stepsOf returns how many steps a range query has.
func stepsOf(s *parser.EvalStmt) int { return int(s.End.Sub(s.Start)/s.Interval) + 1 }

func gridOf(steps int, interval time.Duration) grid {
	return grid{float64(steps), float64(steps-1) * float64(interval.Milliseconds())}
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

// takeTwice takes what an expression may hold, and as much once more.
func (b *bound) takeTwice(expr parser.Expr, g grid) (each int64, err error) {
	if each, err = b.take(expr, g); err != nil {
		return 0, err
	}
	if err := b.memory.Take(each); err != nil {
		b.memory.Give(each)
		return 0, b.beyond(err)
	}
	return each, nil
}

// leaf returns how much a selector has found.
func (b *bound) leaf(matchers []*labels.Matcher) leafSize {
	out := b.pushdowns.of(matchers).outcomeSoFar()
	if out == nil {
		out = b.reads.find(matchers, telemetry.Range{})
	}
	if out == nil {
		return leafSize{}
	}
	return out.sizes()
}

// outcomeSoFar returns what a pushdown has found, nil if nothing was asked yet.
func (l *pushdown) outcomeSoFar() *outcome {
	switch {
	case l == nil:
		return nil
	case l.ready != nil:
		return l.ready
	}
	return l.found
}

// inParts evaluates as many steps at a time as there is memory for.
func (b *bound) inParts(ctx context.Context, more func() (promql.Query, error), out *joined) *promql.Result {
	b.bound = nil
	whole := *b.statement
	steps := stepsOf(&whole)
	at, most := 0, steps/2
	for at < steps {
		q, err := more()
		if err != nil {
			return &promql.Result{Err: err}
		}
		s := q.Statement().(*parser.EvalStmt)
		most = max(min(most, steps-at), 1)
		var taken int64
		for taken, err = b.takeTwice(s.Expr, gridOf(most, whole.Interval)); err != nil && most > 1; {
			most /= 2
			taken, err = b.takeTwice(s.Expr, gridOf(most, whole.Interval))
		}
		if err == nil {
			b.memory.Give(taken) // out takes no more than that of what the part becomes
			s.Start = whole.Start.Add(time.Duration(at) * whole.Interval)
			s.End = s.Start.Add(time.Duration(most-1) * whole.Interval)
			part := q.Exec(ctx)
			if err = part.Err; err == nil {
				err = b.beyond(out.add(part))
			}
			b.memory.Give(taken)
		}
		q.Close()
		if err != nil {
			return &promql.Result{Err: err}
		}
		at += most
	}
	sort.Sort(out.matrix)
	return &promql.Result{Value: out.matrix, Warnings: out.said}
}

// joined is a result that is joined from results of consecutive steps. It takes its memory.
type joined struct {
	memory *query.Memory
	matrix promql.Matrix
	series map[labels.Labels]int
	said   annotations.Annotations
}

func (j *joined) add(res *promql.Result) error {
	m, err := res.Matrix()
	if err != nil {
		return err
	}
	if err := j.memory.Take(saidBytes(res.Warnings, j.said)); err != nil {
		return err
	}
	j.said.Merge(res.Warnings)
	for _, s := range m {
		at, known := j.series[s.Metric]
		if !known {
			if err := j.memory.Take(engineSeriesBytes + int64(s.Metric.ByteSize())); err != nil {
				return err
			}
			at = len(j.matrix)
			j.series[s.Metric] = at
			j.matrix = append(j.matrix, promql.Series{Metric: s.Metric, DropName: s.DropName})
		}
		of := &j.matrix[at]
		if need := len(of.Floats) + len(s.Floats); need > cap(of.Floats) {
			size := max(need, min(2*cap(of.Floats), maxPoints+1))
			err := j.memory.Take(pointBytes * int64(size))
			if err != nil {
				size = need
				err = j.memory.Take(pointBytes * int64(size))
			}
			if err != nil {
				return err
			}
			j.memory.Give(pointBytes * int64(cap(of.Floats)))
			of.Floats = append(make([]promql.FPoint, 0, size), of.Floats...)
		}
		of.Floats = append(of.Floats, s.Floats...)
	}
	return nil
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
