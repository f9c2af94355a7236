package merge

import (
	"maps"
	"math"
	"slices"
)

// emitGroup yields the buckets of a group, filled as was asked.
func (g *Grouped) emitGroup(of *group, yield func(Aggregated) error) error {
	at := slices.Sorted(maps.Keys(of.buckets))
	if len(at) == 0 {
		return nil // no value of it was finite
	}
	width := len(g.ask.Aggregates)
	values := make([]float64, width*len(at))
	bytes := int64(8 * (len(values) + len(at)))
	if err := g.cfg.Memory.Take(bytes); err != nil {
		return err
	}
	defer func() { g.cfg.Memory.Give(bytes) }()
	for i, n := range at {
		for k := range g.ask.Aggregates {
			a := &g.ask.Aggregates[k]
			values[i*width+k] = a.of(of.buckets[n], a)
		}
	}
	out := Aggregated{Group: of.Group}
	give := func(n int, row []float64) error {
		out.Start, out.End, out.Values = g.ask.Buckets.Start(n), g.ask.Buckets.End(n), row
		return yield(out)
	}
	if g.ask.Fill == NoFill || g.ask.Fill == "" {
		for i, n := range at {
			if err := give(n, values[i*width:][:width]); err != nil {
				return err
			}
		}
		return nil
	}
	row := make([]float64, width)
	fills := make([]filler, width)
	for k := range fills {
		fills[k] = filler{fill: g.ask.Fill, buckets: &g.ask.Buckets, at: at, values: values[k:], width: width, before: -1}
		if g.ask.Aggregates[k].name == "count" {
			fills[k].fill = FillNull
		}
	}
	for n := range g.ask.Buckets.Len() {
		for k := range fills {
			row[k] = fills[k].value(n)
			if math.IsNaN(row[k]) && g.ask.Aggregates[k].name == "count" {
				row[k] = 0
			}
		}
		if err := give(n, row); err != nil {
			return err
		}
	}
	return nil
}

// filler fills the values of one aggregate of a group.
type filler struct {
	fill    Fill
	buckets *Buckets
	at      []int     // the buckets with values
	values  []float64 // one for each bucket in at, width apart
	width   int

	before int // among at, the last one with a value that lies at or before the bucket; -1 for none
	next   int // among at, the first one with a value that lies behind it
}

func (f *filler) of(i int) float64 { return f.values[i*f.width] }

// value returns the value of a bucket. Buckets must ascend.
func (f *filler) value(n int) float64 {
	for f.next < len(f.at) && (f.at[f.next] <= n || math.IsNaN(f.of(f.next))) {
		if !math.IsNaN(f.of(f.next)) {
			f.before = f.next
		}
		f.next++
	}
	switch {
	case f.before < 0:
		return none
	case f.at[f.before] == n || f.fill == FillPrevious:
		return f.of(f.before)
	case f.fill == FillLinear && f.next < len(f.at):
		from, to := f.buckets.Start(f.at[f.before]), f.buckets.Start(f.at[f.next])
		weight := float64(f.buckets.Start(n)-from) / float64(to-from)
		return f.of(f.before)*(1-weight) + f.of(f.next)*weight
	}
	return none
}
