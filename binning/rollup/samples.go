package rollup

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Samples are a series' values of a day as PromQL sees them: numbers, each instant once, in the order of time.
type Samples struct {
	Labels  telemetry.Labels
	Metric  string
	Times   []int64
	Values  []float64
	Rounded bool // some value is an integer that no float64 holds, and was rounded
}

// columnRun is the values of one column of one frame.
type columnRun struct {
	order  int // the frame's place among frames
	times  []int64
	column *chunk.Column
}

// Merge returns the samples of one device, from frames in the order of their sources: for one series and instant the
// value of the last frame counts (rule R5), even if it is text, which rollups leave out. They are sorted by labels
// and metric. Metrics says which ones are wanted; nil wants all.
func Merge(frames []chunk.Frame, wanted func(metric string) bool) []Samples {
	type series struct{ labels, metric string }
	runs := make(map[series][]columnRun)
	sets := make(map[string]telemetry.Labels)
	var key []byte
	for order := range frames {
		for i := range frames[order].Groups {
			g := &frames[order].Groups[i]
			key = g.Labels.AppendKey(key[:0])
			labels := string(key)
			sets[labels] = g.Labels
			for j := range g.Columns {
				c := &g.Columns[j]
				if wanted == nil || wanted(c.Metric) {
					of := series{labels, c.Metric}
					runs[of] = append(runs[of], columnRun{order, timesOf(g.Times, c), c})
				}
			}
		}
	}
	out := make([]Samples, 0, len(runs))
	for of, s := range runs {
		one := Samples{Labels: sets[of.labels], Metric: of.metric}
		if one.merge(s); len(one.Times) > 0 {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Samples) int {
		return cmp.Or(a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric))
	})
	return out
}

func timesOf(times []int64, c *chunk.Column) []int64 {
	if c.Present == nil {
		return times
	}
	out := make([]int64, 0, c.Len())
	for i, t := range times {
		if c.Present.Has(i) {
			out = append(out, t)
		}
	}
	return out
}

// merge merges strands, each instant once.
func (s *Samples) merge(runs []columnRun) {
	slices.SortFunc(runs, func(a, b columnRun) int { return cmp.Compare(a.times[0], b.times[0]) })
	n := 0
	disjoint := true
	for i := range runs {
		n += len(runs[i].times)
		if i > 0 {
			before := runs[i-1].times
			disjoint = disjoint && before[len(before)-1] < runs[i].times[0]
		}
	}
	s.Times, s.Values = make([]int64, 0, n), make([]float64, 0, n)
	if !disjoint {
		s.mergeOverlapping(runs, n)
		return
	}
	for i := range runs {
		for k := range runs[i].times {
			s.add(&runs[i], k)
		}
	}
}

func (s *Samples) mergeOverlapping(runs []columnRun, n int) {
	type value struct {
		time      int64
		strand, k int
	}
	all := make([]value, 0, n)
	for i := range runs {
		for k, t := range runs[i].times {
			all = append(all, value{t, i, k})
		}
	}
	slices.SortFunc(all, func(a, b value) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(runs[b.strand].order, runs[a.strand].order))
	})
	for i, v := range all {
		if i == 0 || all[i-1].time != v.time {
			s.add(&runs[v.strand], v.k)
		}
	}
}

// add takes a value, unless it is text.
func (s *Samples) add(from *columnRun, k int) {
	var v float64
	switch c := from.column; c.Kind {
	case telemetry.Text:
		return
	case telemetry.Float:
		v = math.Float64frombits(c.Bits[k])
	default:
		i := int64(c.Bits[k])
		v = float64(i)
		s.Rounded = s.Rounded || v == 1<<63 || int64(v) != i
	}
	s.Times, s.Values = append(s.Times, from.times[k]), append(s.Values, v)
}

// Fill puts the samples of a day into buckets of minutes, from hour from up to and without hour to, as cells of a
// row: the table's first bucket is the first of the hours. at0 is the sample at 00:00, when the hours begin with it.
// It reports whether there was any.
func (s *Samples) Fill(t *Table, row int, day telemetry.Day, from, to int) (at0 Sample, some bool) {
	r := Range(day, from, to)
	i, _ := slices.BinarySearch(s.Times, r.From)
	first := from * Minute.PerHour()
	var b Bucket
	open := -1
	shut := func() {
		if open >= 0 {
			t.Put(row, open-first, &b, Minute.End(day, open))
		}
		b = Bucket{Resets: b.Resets[:0]}
	}
	for ; i < len(s.Times) && s.Times[i] < r.To; i++ {
		some = true
		k := Minute.Bucket(day, s.Times[i])
		if k < 0 {
			at0 = Sample{true, s.Values[i]}
			continue
		}
		if k != open {
			shut()
			open = k
		}
		b.Add(s.Times[i], s.Values[i])
	}
	shut()
	t.Rounded[row] = t.Rounded[row] || some && s.Rounded
	return at0, some
}

// HalfHours returns a table of minutes on the grid of half hours. Its buckets are whole half hours.
func HalfHours(minutes *Table, families Families) *Table {
	const per = int(HalfHour / Minute)
	out := NewTable(minutes.Rows, minutes.Buckets/per, families)
	copy(out.Rounded, minutes.Rounded)
	var sum Bucket
	for row := range minutes.Rows {
		for k := range out.Buckets {
			sum = Bucket{Resets: sum.Resets[:0]}
			for m := k * per; m < (k+1)*per; m++ {
				// Only differences of instants matter, so the table's first one may be 0.
				if b := minutes.Get(row, m, int64(m+1)*int64(Minute)); !b.Empty() {
					sum.Join(&b)
				}
			}
			if !sum.Empty() {
				out.Put(row, k, &sum, int64(k+1)*int64(HalfHour))
			}
		}
	}
	return out
}
