package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/schema"
	"github.com/prometheus/prometheus/util/annotations"
)

// pushdown is a part of a query that is computed here and not by the engine: a selector, or a function of a range of
// one or of a subquery. The engine finds a selector in its place, which Select answers with a finished value for each
// step. Equal parts of a query are one pushdown.
type pushdown struct {
	function string // key of functions; "" for the selector itself
	window   int64  // before an instant, what counts there: the range, or the lookback
	offset   int64
	steps    stepGrid

	back    int64   // from a step to the begin of its window as rates compute it; may differ from window + offset
	seconds float64 // length of the range

	matchers []*labels.Matcher
	metric   string // "" if the matchers name none or several
	inner    *term  // expression of a subquery, in place of matchers; nil for a selector
	argument posrange.PositionRange

	fold   *fold     // of an aggregation of another pushdown, source; nil for none
	source *pushdown // of fold
	folds  []*fold   // aggregations of its values
	whole  bool      // its series must be held, until all are there, before they are folded
	nested bool      // an aggregation adds its series in the order of all steps

	uses     int      // running uses of its values by the engine, folds or terms
	found    *outcome // nil before the first use
	together *readSet // its read set; nil for none

	// narrow is called when all has been read, may change steps, and returns the first instant that is needed; nil for all
	// steps.
	narrow func(*query.Basis) int64
	kept   *query.Basis // basis of an earlier evaluation, for narrow; nil for none
	again  bool         // something was read once more, which narrow has not seen
}

// outcome is what a selector found.
type outcome struct {
	series   []*series
	warnings annotations.Annotations
	err      error
	measured bool
	size     leafSize
}

// leafSize is how much a selector has found: series, the bytes of the longest labels of one, samples, and the most of
// one.
type leafSize struct{ series, labels, samples, longest float64 }

func (o *outcome) sizes() leafSize {
	if !o.measured {
		o.measured, o.size.series = true, float64(len(o.series))
		for _, s := range o.series {
			o.size.labels = max(o.size.labels, float64(s.labels.ByteSize()))
			o.size.samples += float64(len(s.times))
			o.size.longest = max(o.size.longest, float64(len(s.times)))
		}
	}
	return o.size
}

// stepGrid are the instants of a query's steps.
type stepGrid struct {
	first, step int64
	n           int
}

func (g stepGrid) at(k int) int64 { return g.first + int64(k)*g.step }

func (g stepGrid) instants() []int64 {
	out := make([]int64, g.n)
	for k := range out {
		out[k] = g.at(k)
	}
	return out
}

// errUnordered says that a series has come after others were folded that the engine adds later.
var errUnordered = errors.New("series come in another order than that of their labels")

// count counts a use. The first use counts one for each pushdown in the subquery, too.
func (l *pushdown) count() {
	if l.uses++; l.uses == 1 && l.inner != nil {
		l.inner.count()
	}
}

// key returns a text that is the same of pushdowns with the same values and annotations.
func (l *pushdown) key() string { return fmt.Sprint(l.steps, l.formula()) }

// formula returns a text that is the same of pushdowns that are equal but for their steps.
func (l *pushdown) formula() string {
	key := fmt.Sprint(l.function, " ", l.window, l.offset, l.back, l.seconds)
	if infoOnCounters[l.function] {
		key += fmt.Sprint(l.argument)
	}
	switch {
	case l.fold != nil:
		f := l.fold
		return l.source.formula() + fmt.Sprintf("%s%d%t%q", f.op, f.best, f.without, f.grouping)
	case l.inner != nil:
		return key + l.inner.key
	}
	return fmt.Sprintf("%s%q", key, l.matchers)
}

// outcome returns the series of a pushdown. It computes them once.
func (s *selector) outcome(ctx context.Context, l *pushdown) *outcome {
	if l.found == nil {
		if l.inner != nil {
			l.found = &outcome{}
			l.found.series, l.found.warnings, l.found.err = s.overSubquery(ctx, l)
		} else {
			l.found = s.found(ctx, l.matchers,
				func() ([]*series, annotations.Annotations, error) { return s.kept(ctx, l) })
		}
		if s.check != nil {
			s.check(l)
		}
	}
	return l.found
}

// evaluate reads the series of a pushdown and computes it.
func (s *selector) evaluate(ctx context.Context, l *pushdown) (
	out []*series, warnings annotations.Annotations, err error) {
	if l.fold != nil {
		return s.folded(ctx, l)
	}
	if e := l.together.take(l); e != nil {
		return e.finish()
	}
	e, err := s.begin(l)
	if err != nil {
		return nil, nil, err
	}
	others, err := s.readWith(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	r := s.request(l.matchers)
	r.Range = l.reads()
	if l.narrow != nil {
		r.From = func(b *query.Basis) int64 {
			from := l.narrow(b)
			e.instants = l.steps.instants()
			return from
		}
		r.Kept = l.kept
	}
	if width, ok := s.rollupGrid(l); ok {
		err = e.fromRollups(ctx, r, width)
	} else if len(others) > 0 {
		err = e.evaluateTogether(ctx, others)
	} else {
		err = e.fromSamples(ctx, r, nil)
	}
	if err == nil {
		out, warnings, err = e.finish()
	}
	if errors.Is(err, errUnordered) {
		l.narrow, l.again, l.whole = nil, true, true
		for _, f := range l.folds {
			f.all, f.byHash = nil, make(map[uint64]*group)
		}
		return s.evaluate(ctx, l)
	}
	return out, warnings, err
}

// onlyFolds reports whether nothing but folds uses the values of a pushdown that reads.
func (l *pushdown) onlyFolds() bool {
	return l.inner == nil && len(l.folds) > 0 && l.uses == len(l.folds)
}

// folded returns what a fold makes of its source, which is evaluated once.
func (s *selector) folded(ctx context.Context, l *pushdown) ([]*series, annotations.Annotations, error) {
	f, from := l.fold, l.source
	if from.found == nil && from.onlyFolds() && s.check == nil {
		from.found = &outcome{}
		_, from.found.warnings, from.found.err = s.evaluate(ctx, from)
	}
	found := s.outcome(ctx, from)
	err := found.err
	if err == nil {
		err = f.add(s.memory, found.series) // which is none, if the evaluation has folded them
	}
	if err != nil {
		return nil, nil, err
	}
	out, err := f.result(s.memory)
	return out, found.warnings, err
}

// begin returns the state before the evaluation of a pushdown.
func (s *selector) begin(l *pushdown) (*evaluation, error) {
	if err := s.memory.Take(8 * int64(l.steps.n)); err != nil {
		return nil, err
	}
	return &evaluation{selector: s, pushdown: l, instants: l.steps.instants()}, nil
}

func (l *pushdown) reads() telemetry.Range {
	return rangeOf(l.steps.first-l.offset-l.window+1, l.steps.at(l.steps.n-1)-l.offset)
}

// evaluation is the state of evaluating one pushdown.
type evaluation struct {
	*selector
	pushdown *pushdown
	instants []int64
	out      []*series
	warnings annotations.Annotations
	spares   [][]float64   // slices for the values of series to come
	windows  *windows      // nil before the first series
	folded   labels.Labels // of the last series that was folded
}

// values returns a slice for the values of one series. It is the same until keep takes it.
func (e *evaluation) values() ([]float64, error) {
	if len(e.spares) == 0 {
		if err := e.memory.Take(8 * int64(len(e.instants))); err != nil {
			return nil, err
		}
		e.spares = append(e.spares, make([]float64, len(e.instants)))
	}
	return e.spares[len(e.spares)-1], nil
}

// keep adds a series with the values of the slice that values returned.
func (e *evaluation) keep(l labels.Labels) error {
	if err := e.memory.Take(retainedBytes + int64(l.ByteSize())); err != nil {
		return err
	}
	last := len(e.spares) - 1
	e.out = append(e.out, &series{labels: l, times: e.instants, values: e.spares[last]})
	e.spares = e.spares[:last]
	return nil
}

// foldAt is how many points are held before their series are folded; a series counts as seriesPoints more.
const (
	foldAt       = 1 << 20
	seriesPoints = 256
)

// flush folds the series so far, if they are many, and drops them. It is called between two devices. Where the first
// ones are not in the order of their labels all are held.
func (e *evaluation) flush() error {
	l, points := e.pushdown, len(e.out)*(len(e.instants)+seriesPoints)
	if points < cmp.Or(e.foldAt, foldAt) || l.whole || !l.onlyFolds() || e.check != nil {
		return nil
	}
	if e.folded.IsEmpty() && !slices.IsSortedFunc(e.out, compareSeries) {
		l.whole = true
		return nil
	}
	return e.foldAll()
}

// foldAll folds the series so far, and drops them.
func (e *evaluation) foldAll() error {
	sortSeries(e.out)
	if n := len(e.out); n > 0 {
		if labels.Compare(e.out[0].labels, e.folded) < 0 {
			return errUnordered
		}
		e.folded = e.out[n-1].labels
	}
	bytes := int64(0)
	for _, one := range e.out {
		bytes += retainedBytes + int64(one.labels.ByteSize())
		e.spares = append(e.spares, one.values)
	}
	err := e.pushdown.finishLabels(e.out, &e.warnings)
	for _, f := range e.pushdown.folds {
		if err == nil {
			err = f.add(e.memory, e.out)
		}
	}
	e.memory.Give(bytes)
	e.out = e.out[:0]
	return err
}

// fromSamples computes the pushdown from samples: of the devices in only, of all if that is nil.
func (e *evaluation) fromSamples(ctx context.Context, r query.Request, only map[string]bool) error {
	r.Newest = e.pushdown.steps.n == 1 && (e.pushdown.function == "" || e.pushdown.function == "last_over_time")
	warnings, err := e.read(ctx, r, e.pushdown.matchers, func(one *series) (kept bool, err error) {
		if only != nil && !only[one.labels.Get(deviceLabel)] {
			return false, nil
		}
		return false, e.add(one)
	})
	e.warnings.Merge(warnings)
	return err
}

// add computes the pushdown of one series. It may change the samples. All must have been read, so that the steps are
// known.
func (e *evaluation) add(one *series) error {
	if e.windows == nil {
		if err := e.memory.Take(16 * int64(len(e.instants))); err != nil {
			return err
		}
		e.windows = newWindows(e.pushdown)
	}
	if err := e.flush(); err != nil {
		return err
	}
	values, err := e.values()
	if err != nil {
		return err
	}
	if one.rounded {
		e.warnings.Add(errRounded)
	}
	if e.windows.compute(one, values) {
		return e.keep(one.labels)
	}
	return nil
}

// finish returns what was computed, sorted, or folds it where nothing else needs it.
func (e *evaluation) finish() (out []*series, warnings annotations.Annotations, err error) {
	if e.pushdown.onlyFolds() && e.check == nil {
		return nil, e.warnings, e.foldAll()
	}
	sortSeries(e.out)
	return e.out, e.warnings, e.pushdown.finishLabels(e.out, &e.warnings)
}

// finishLabels gives the results of a function the labels that the engine gives them, and adds its notes on counters.
func (l *pushdown) finishLabels(out []*series, said *annotations.Annotations) error {
	if l.function == "" || len(out) == 0 {
		return nil
	}
	if infoOnCounters[l.function] && !namedLikeCounter(l.metric) {
		said.Add(annotations.NewPossibleNonCounterInfo(l.metric, l.argument))
	}
	if keepsName[l.function] {
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

// infoOnCounters lists the functions that add an info where a metric is not named like a counter.
var infoOnCounters = map[string]bool{"rate": true, "increase": true}

// keepsName lists the functions with results that have the names of their series.
var keepsName = map[string]bool{"last_over_time": true, "first_over_time": true}

// namedLikeCounter reports whether a metric's name has a suffix of counters.
func namedLikeCounter(metric string) bool {
	return slices.ContainsFunc([]string{"_total", "_sum", "_count", "_bucket"}, func(end string) bool {
		return strings.HasSuffix(metric, end)
	})
}
