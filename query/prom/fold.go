package prom

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"slices"

	"binnacle/query"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/kahansum"
)

// fold aggregates the series of a pushdown one after the other, so that they need not all be held.
type fold struct {
	op       parser.ItemType
	grouping []string // sorted
	without  bool
	best     int // how many series topk and bottomk keep

	all    []*group // that with the first series in front
	byHash map[uint64]*group
	buffer []byte
}

// group is the state of an aggregation at each step, as the engine has it.
type group struct {
	series                // labels, instants, and value so far
	lost     []float64    // of a sum, to rounding
	n        []int        // how many series have a value
	rankings []rankedOnes // of topk and bottomk
}

// errEngineOnly says that the engine must evaluate all of a query itself.
var errEngineOnly = errors.New("the engine must evaluate the whole query")

// maxBest is the most series that topk may keep.
const maxBest = 1000

// newFold returns the fold of an aggregation that needs of a group two numbers at each step, or some of its series; nil
// for others.
func newFold(e *parser.AggregateExpr, steps int) *fold {
	f := &fold{op: e.Op, grouping: slices.Sorted(slices.Values(e.Grouping)), without: e.Without}
	switch e.Op {
	case parser.SUM, parser.AVG, parser.MIN, parser.MAX, parser.COUNT:
	case parser.TOPK, parser.BOTTOMK:
		n, ok := e.Param.(*parser.NumberLiteral)
		if !ok || !(n.Val >= 1 && n.Val <= maxBest) || steps == 1 { // ties of an instant have an order
			return nil
		}
		f.best = int(n.Val)
	default:
		return nil
	}
	f.clear()
	return f
}

func (f *fold) clear() { f.all, f.byHash = nil, make(map[uint64]*group) }

func (f *fold) key() string { return fmt.Sprintf("%s%d%t%q", f.op, f.best, f.without, f.grouping) }

func (f *fold) ranks() bool { return f.op == parser.TOPK || f.op == parser.BOTTOMK }

// add adds series in the engine's order, by its operations.
func (f *fold) add(memory *query.Memory, all []*series) error {
	for _, one := range all {
		if hasMetadata(one) {
			return errEngineOnly
		}
		g, err := f.group(memory, one.labels, one.times)
		if err != nil {
			return err
		}
		for k, v := range one.values {
			if math.IsNaN(v) && value.IsStaleNaN(v) {
				continue
			}
			so := &g.values[k]
			switch g.n[k]++; {
			case f.ranks():
				g.rankings[k].add(f, v, one)
			case g.n[k] == 1:
				*so = v
			case f.op == parser.SUM, f.op == parser.AVG:
				*so, g.lost[k] = kahansum.Inc(v, *so, g.lost[k])
				if f.op == parser.AVG && math.IsInf(*so, 0) {
					return errEngineOnly // which computes the mean in another way from here on
				}
			case f.op == parser.MAX && (*so < v || math.IsNaN(*so)), f.op == parser.MIN && (*so > v || math.IsNaN(*so)):
				*so = v
			}
		}
	}
	return nil
}

// group returns the group of a series.
func (f *fold) group(memory *query.Memory, of labels.Labels, instants []int64) (*group, error) {
	var hash uint64
	switch {
	case f.without:
		hash, f.buffer = of.HashWithoutLabels(f.buffer, f.grouping...)
	case len(f.grouping) > 0:
		hash, f.buffer = of.HashForLabels(f.buffer, f.grouping...)
	}
	if g := f.byHash[hash]; g != nil {
		return g, nil
	}
	b, n := labels.NewBuilder(of), len(instants)
	if f.without {
		b.Del(f.grouping...).Del(labels.MetricName)
	} else {
		b.Keep(f.grouping...)
	}
	g := &group{series: series{labels: b.Labels(), times: instants, values: make([]float64, n)},
		lost: make([]float64, n), n: make([]int, n)}
	if f.ranks() {
		g.rankings = make([]rankedOnes, n)
	}
	f.byHash[hash], f.all = g, append(f.all, g)
	return g, memory.Take(retainedBytes + int64(g.labels.ByteSize()) + int64(n)*int64(48+32*f.best))
}

// result returns the aggregates: of topk and bottomk the series that they keep, each with the steps at which they do.
func (f *fold) result(memory *query.Memory) (out []*series, err error) {
	kept := make(map[*series]*series)
	for _, g := range f.all {
		for k, n := range g.n {
			switch value := &g.values[k]; {
			case n == 0:
				*value = stale
			case f.op == parser.COUNT:
				*value = float64(n)
			case f.op == parser.AVG:
				*value = *value/float64(n) + g.lost[k]/float64(n)
			case f.op == parser.SUM:
				*value += g.lost[k]
			}
			if !f.ranks() {
				continue
			}
			for _, r := range g.rankings[k] {
				one := kept[r.of]
				if one == nil {
					if err := memory.Take(retainedBytes + 8*int64(len(g.n))); err != nil {
						return nil, err
					}
					one = &series{labels: r.of.labels, times: g.times, values: slices.Repeat([]float64{stale}, len(g.n))}
					kept[r.of], out = one, append(out, one)
				}
				one.values[k] = r.v
			}
		}
		if !f.ranks() {
			out = append(out, &g.series)
		}
	}
	if f.ranks() {
		sortSeries(out)
	}
	return out, nil
}

// rankedOnes is a heap of the series that topk or bottomk keeps at a step, the one that goes next in front.
type rankedOnes []ranked

type ranked struct {
	rank, v float64
	of      *series
}

func (h rankedOnes) Len() int           { return len(h) }
func (h rankedOnes) Less(i, j int) bool { return math.IsNaN(h[i].rank) || h[i].rank < h[j].rank }
func (h rankedOnes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankedOnes) Push(r any)        { *h = append(*h, r.(ranked)) }
func (h *rankedOnes) Pop() any          { panic("a series that is ranked stays, or is replaced") }

func (h *rankedOnes) add(f *fold, v float64, one *series) {
	r := ranked{v, v, one}
	if f.op == parser.BOTTOMK {
		r.rank = -v
	}
	if len(*h) < f.best {
		heap.Push(h, r)
	} else if least := (*h)[0].rank; least < r.rank || math.IsNaN(least) && !math.IsNaN(v) {
		(*h)[0] = r
		heap.Fix(h, 0)
	}
}

// hasMetadata reports whether a series has labels that go with its name.
func hasMetadata(s *series) bool {
	return s.labels.Has(model.MetricTypeLabel) || s.labels.Has(model.MetricUnitLabel)
}
