package prom

import (
	"container/heap"
	"errors"
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
	best     int // how many series topk and bottomk keep, 0 for others

	all    []*group // that with the first series in front
	byHash map[uint64]*group
	buffer []byte
}

// group is the state of an aggregation at each step, as the engine has it.
type group struct {
	series                // labels, instants, and value so far, stale before the first one
	lost     []float64    // of a sum or average, to rounding
	n        []float64    // how many values an average has
	rankings []rankedOnes // of topk and bottomk
}

// errEngineOnly says that the engine must evaluate all of a query itself.
var errEngineOnly = errors.New("the engine must evaluate the whole query")

// maxBest is the most series that topk may keep.
const maxBest = 1000

// newFold returns the fold of an aggregation that can be computed one series after the other, nil for others.
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
	f.byHash = make(map[uint64]*group)
	return f
}

// add adds series in the engine's order, by its operations. Then the caller may use their values again.
func (f *fold) add(memory *query.Memory, all []*series) error {
	for _, one := range all {
		if hasMetadata(one) {
			return errEngineOnly
		}
		g, err := f.group(memory, one.labels, one.times)
		if err != nil {
			return err
		}
		add := f.addValues
		if f.best > 0 {
			add = f.rank
		}
		if err := add(memory, g, one); err != nil {
			return err
		}
	}
	return nil
}

// addValues adds the values of a series to those of its group.
func (f *fold) addValues(_ *query.Memory, g *group, one *series) error {
	for k, v := range one.values {
		if value.IsStaleNaN(v) {
			continue
		}
		if f.op == parser.COUNT {
			v = 1
		}
		so := &g.values[k]
		switch {
		case value.IsStaleNaN(*so):
			*so = v
		case f.op == parser.COUNT:
			*so++
		case f.op == parser.SUM, f.op == parser.AVG:
			*so, g.lost[k] = kahansum.Inc(v, *so, g.lost[k])
			if f.op == parser.AVG && math.IsInf(*so, 0) {
				return errEngineOnly // which computes the mean in another way from here on
			}
		case f.op == parser.MAX && (*so < v || math.IsNaN(*so)), f.op == parser.MIN && (*so > v || math.IsNaN(*so)):
			*so = v
		}
		if f.op == parser.AVG {
			g.n[k]++
		}
	}
	return nil
}

// rank ranks a series at each step, and counts its labels if it is kept at some.
func (f *fold) rank(memory *query.Memory, g *group, one *series) error {
	bytes := int64(0)
	for k, v := range one.values {
		if value.IsStaleNaN(v) {
			continue
		}
		h := &g.rankings[k]
		if len(*h) < f.best {
			if err := memory.Take(rankedBytes); err != nil {
				return err
			}
		}
		if h.add(f, v, one) {
			bytes = retainedBytes + int64(one.labels.ByteSize())
		}
	}
	return memory.Take(bytes)
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
		b.Del(f.grouping...).Del(model.MetricNameLabel)
	} else {
		b.Keep(f.grouping...)
	}
	g := &group{series: series{labels: b.Labels(), times: instants}}
	if err := memory.Take(retainedBytes + int64(g.labels.ByteSize()) + groupBytes[f.op]*int64(n)); err != nil {
		return nil, err
	}
	switch f.op {
	case parser.TOPK, parser.BOTTOMK:
		g.rankings = make([]rankedOnes, n)
	case parser.AVG:
		g.n = make([]float64, n)
		fallthrough
	case parser.SUM:
		g.lost = make([]float64, n)
		fallthrough
	default:
		g.values = slices.Repeat([]float64{stale}, n)
	}
	f.byHash[hash], f.all = g, append(f.all, g)
	return g, nil
}

// groupBytes is what a group of an aggregation takes at a step.
var groupBytes = map[parser.ItemType]int64{parser.MIN: 8, parser.MAX: 8, parser.COUNT: 8, parser.SUM: 16,
	parser.AVG: 24, parser.TOPK: 24, parser.BOTTOMK: 24}

// result returns the aggregates: of topk and bottomk the series that they keep, each with the steps at which they do.
func (f *fold) result(memory *query.Memory) (out []*series, err error) {
	kept := make(map[*series]*series)
	for _, g := range f.all {
		for k, v := range g.values {
			switch {
			case value.IsStaleNaN(v):
			case f.op == parser.AVG:
				g.values[k] = v/g.n[k] + g.lost[k]/g.n[k]
			case f.op == parser.SUM:
				g.values[k] = v + g.lost[k]
			}
		}
		if f.best == 0 {
			out = append(out, &g.series)
		}
		for k, ranking := range g.rankings {
			for _, r := range ranking {
				one := kept[r.of]
				if one == nil {
					if err := memory.Take(retainedBytes + 8*int64(len(g.times))); err != nil {
						return nil, err
					}
					one = &series{labels: r.of.labels, times: g.times, values: slices.Repeat([]float64{stale}, len(g.times))}
					kept[r.of], out = one, append(out, one)
				}
				one.values[k] = r.v
			}
		}
	}
	if f.best > 0 {
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

// rankedBytes is what one of rankedOnes takes at most.
const rankedBytes = 2 * 24

func (h rankedOnes) Len() int           { return len(h) }
func (h rankedOnes) Less(i, j int) bool { return math.IsNaN(h[i].rank) || h[i].rank < h[j].rank }
func (h rankedOnes) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *rankedOnes) Push(r any)        { *h = append(*h, r.(ranked)) }
func (h *rankedOnes) Pop() any          { panic("a series that is ranked stays, or is replaced") }

// add ranks a series, and reports whether it is among those that are kept so far.
func (h *rankedOnes) add(f *fold, v float64, one *series) bool {
	r := ranked{v, v, one}
	if f.op == parser.BOTTOMK {
		r.rank = -v
	}
	if len(*h) < f.best {
		heap.Push(h, r)
		return true
	}
	least := (*h)[0].rank
	if !(least < r.rank || math.IsNaN(least) && !math.IsNaN(v)) {
		return false
	}
	(*h)[0] = r
	heap.Fix(h, 0)
	return true
}

// hasMetadata reports whether a series has labels that go with its name.
func hasMetadata(s *series) bool {
	return s.labels.Has(model.MetricTypeLabel) || s.labels.Has(model.MetricUnitLabel)
}
