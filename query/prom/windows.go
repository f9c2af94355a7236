package prom

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/util/kahansum"
)

// stale marks an instant without a value: the engine does not look behind it.
var stale = math.Float64frombits(value.StaleNaN)

// windows computes a pushdown, one series at a time. Operations and their order are those of the engine's functions,
// so that results are the same in all bits. It is owned by one goroutine.
type windows struct {
	*pushdown
	spans  []span // samples of each step's window
	times  []int64
	values []float64
	marks  []int // positions in values, ascending
}

// span is the samples of a window: those from lo up to and without hi.
type span struct{ lo, hi int }

func (s span) len() int { return s.hi - s.lo }

// functions compute values of windows that have at least one sample. A value that one does not set is absent.
var functions = map[string]func(w *windows, out []float64){
	"rate": (*windows).rates, "increase": (*windows).rates, "delta": (*windows).rates,
	"irate": (*windows).irates, "idelta": (*windows).irates,
	"avg_over_time": (*windows).averages, "sum_over_time": (*windows).sums,
	"min_over_time": (*windows).extremes, "max_over_time": (*windows).extremes,
	"count_over_time": (*windows).sizes, "present_over_time": (*windows).ones,
	"first_over_time": (*windows).firsts, "last_over_time": (*windows).lasts,
	"changes": (*windows).changes, "resets": (*windows).resets,
}

func newWindows(l *pushdown) *windows {
	return &windows{pushdown: l, spans: make([]span, l.steps.n)}
}

// compute sets out to the value of each step, and reports whether any step has a value. It may change the samples.
func (w *windows) compute(s *series, out []float64) bool {
	w.times, w.values = s.times, s.values
	if w.function != "" {
		w.forgetStale()
	}
	if w.function == "" || w.function == "last_over_time" {
		w.lasts(out)
	} else {
		w.place()
		for k := range out {
			out[k] = stale
		}
		functions[w.function](w, out)
	}
	return hasValue(out)
}

// hasValue reports whether there is a value at some step.
func hasValue(values []float64) bool {
	return slices.ContainsFunc(values, func(v float64) bool { return !value.IsStaleNaN(v) })
}

// overlay copies the values of another series, but for its stale markers.
func overlay(values, other []float64) {
	for k, v := range other {
		if !value.IsStaleNaN(v) {
			values[k] = v
		}
	}
}

// forgetStale removes stale markers, which ranges do not hold.
func (w *windows) forgetStale() {
	n := 0
	for i, v := range w.values {
		if !value.IsStaleNaN(v) {
			w.times[n], w.values[n] = w.times[i], v
			n++
		}
	}
	w.times, w.values = w.times[:n], w.values[:n]
}

// place finds the samples of each step's window.
func (w *windows) place() {
	var lo, hi edge
	for k := range w.spans {
		t := w.steps.at(k) - w.offset
		w.spans[k] = span{lo.move(w.times, t-w.window), hi.move(w.times, t)}
	}
}

// edge is a position among samples that moves ahead with the steps.
type edge struct{ at, stride int }

// move returns how many samples are up to an instant, which is not before that of the last call.
func (e *edge) move(times []int64, t int64) int {
	next := e.at + e.stride // right for regular samples
	if next > len(times) || next > 0 && times[next-1] > t || next < len(times) && times[next] <= t {
		more, _ := slices.BinarySearch(times[e.at:], t+1)
		next = e.at + more
	}
	e.at, e.stride = next, next-e.at
	return next
}

// lasts sets every value. It needs no spans: only where a window ends.
func (w *windows) lasts(out []float64) {
	var end edge
	for k := range out {
		t := w.steps.at(k) - w.offset
		out[k] = stale
		if i := end.move(w.times, t) - 1; i >= 0 && w.times[i] > t-w.window {
			out[k] = w.values[i]
		}
	}
}

// each sets out to the result of a function for each window with samples.
func (w *windows) each(out []float64, of func(span) float64) {
	for k, s := range w.spans {
		if s.len() > 0 {
			out[k] = of(s)
		}
	}
}

func (w *windows) firsts(out []float64) { w.each(out, func(s span) float64 { return w.values[s.lo] }) }

func (w *windows) sizes(out []float64) { w.each(out, func(s span) float64 { return float64(s.len()) }) }

func (w *windows) ones(out []float64) { w.each(out, func(span) float64 { return 1 }) }

func (w *windows) resets(out []float64) {
	w.count(out, func(before, v float64) bool { return v < before })
}

func (w *windows) changes(out []float64) {
	w.count(out, func(before, v float64) bool { return v != before && !(math.IsNaN(v) && math.IsNaN(before)) })
}

// count counts in each window the samples for which is holds with the sample before them.
func (w *windows) count(out []float64, is func(before, v float64) bool) {
	w.marks = w.marks[:0]
	for i := 1; i < len(w.values); i++ {
		if is(w.values[i-1], w.values[i]) {
			w.marks = append(w.marks, i)
		}
	}
	w.each(out, func(s span) float64 { return float64(len(w.marked(s))) })
}

// marked returns the marks behind the first sample of a window.
func (w *windows) marked(s span) []int {
	from, _ := slices.BinarySearch(w.marks, s.lo+1)
	to, _ := slices.BinarySearch(w.marks[from:], s.hi)
	return w.marks[from : from+to]
}

func (w *windows) irates(out []float64) {
	rate := w.function == "irate"
	for k, s := range w.spans {
		if s.len() < 2 {
			continue
		}
		before, v := w.values[s.hi-2], w.values[s.hi-1]
		if !rate || !(v < before) {
			v -= before
		}
		if rate {
			v /= float64(w.times[s.hi-1]-w.times[s.hi-2]) / 1000
		}
		out[k] = v
	}
}

// rates computes rate, increase and delta.
func (w *windows) rates(out []float64) {
	w.marks = w.marks[:0]
	if w.function != "delta" {
		for i := 1; i < len(w.values); i++ {
			if w.values[i] < w.values[i-1] {
				w.marks = append(w.marks, i)
			}
		}
	}
	c := coverage{pushdown: w.pushdown}
	for k, s := range w.spans {
		if s.len() < 2 {
			continue
		}
		first, last := s.lo, s.hi-1
		v := w.values[last] - w.values[first]
		if len(w.marks) > 0 {
			for _, i := range w.marked(s) {
				v += w.values[i-1]
			}
		}
		e := ends{w.times[first], w.times[last], s.len(), w.values[first], w.steps.at(k)}
		out[k] = v * c.extrapolation(&e, v)
	}
}

// ends is the first and the last of n samples of the window of the step at an instant, and the value of the first.
type ends struct {
	first, last int64
	n           int
	value       float64
	at          int64
}

// coverage is how the samples of a window cover it. As a rule it is the same of windows that follow each other, which
// spares divisions.
type coverage struct {
	*pushdown
	toStart, toEnd     int64 // ms; what lies between them follows
	n                  int
	start, end, length float64 // seconds, as far as the window is taken to be covered
	factor             float64 // unless a counter begins at zero before that
}

// extrapolation returns the factor of the increase between the first and the last sample of a step's window. A window
// counts as covered up to its end, or begin, if that is not much further away than samples are from each other; a
// counter begins at zero at the earliest.
func (c *coverage) extrapolation(of *ends, increase float64) float64 {
	toStart, toEnd := of.first-(of.at-c.back), of.at-c.offset-of.last
	if c.n != of.n || c.toStart != toStart || c.toEnd != toEnd {
		c.n, c.toStart, c.toEnd = of.n, toStart, toEnd
		c.measure(of.last - of.first)
		c.factor = c.over(c.start)
	}
	if c.function != "delta" && increase > 0 && of.value >= 0 {
		if toZero := c.length * (of.value / increase); toZero < c.start {
			return c.over(toZero)
		}
	}
	return c.factor
}

// measure computes start, end and length in seconds; covered is the time between the first and the last sample.
func (c *coverage) measure(covered int64) {
	c.start, c.end, c.length = float64(c.toStart)/1000, float64(c.toEnd)/1000, float64(covered)/1000
	apart := c.length / float64(c.n-1)
	far := apart * 1.1
	if c.start >= far {
		c.start = apart / 2
	}
	if c.end >= far {
		c.end = apart / 2
	}
}

// over returns the factor of a window that is covered from so long before its first sample.
func (c *coverage) over(start float64) float64 {
	factor := (c.length + start + c.end) / c.length
	if c.function == "rate" {
		factor /= c.seconds
	}
	return factor
}

func (w *windows) averages(out []float64) {
	w.summed(out, average, func(sum, rest, n float64) float64 { return sum/n + rest/n })
}

func (w *windows) sums(out []float64) {
	w.summed(out, sum, func(sum, rest, _ float64) float64 { return sum + rest })
}

// summed computes windows one by one, or four of the same size side by side: four chains of additions do not wait for
// each other. finish makes the result of a sum and what was lost of it to rounding. What is not finite goes the slow
// way.
func (w *windows) summed(out []float64, one func([]float64) float64, finish func(sum, rest, n float64) float64) {
	for k := 0; k < len(w.spans); {
		s, n := w.spans[k:], w.spans[k].len()
		if n > 1 && len(s) >= 4 && s[1].len() == n && s[2].len() == n && s[3].len() == n {
			sums, rests := sumFour([4][]float64{w.of(s[0]), w.of(s[1]), w.of(s[2]), w.of(s[3])})
			for i := range 4 {
				out[k+i] = finish(sums[i], rests[i], float64(n))
				if off := sums[i] + rests[i]; math.IsNaN(off - off) {
					out[k+i] = one(w.of(s[i]))
				}
			}
			k += 4
			continue
		}
		if n > 0 {
			out[k] = one(w.of(s[0]))
		}
		k++
	}
}

func (w *windows) of(s span) []float64 { return w.values[s.lo:s.hi] }

// sumFour returns the compensated sums of four windows of the same size. The error of an addition is the same as in
// kahansum.Inc, which looks which number is the larger one: both ways are exact as long as nothing overflows.
func sumFour(of [4][]float64) (sums, rests [4]float64) {
	n := len(of[0])
	a, b, c, d := of[0], of[1][:n], of[2][:n], of[3][:n]
	s0, s1, s2, s3 := a[0], b[0], c[0], d[0]
	var r0, r1, r2, r3 float64
	for i := 1; i < n; i++ {
		x0, x1, x2, x3 := a[i], b[i], c[i], d[i]
		t0, t1, t2, t3 := s0+x0, s1+x1, s2+x2, s3+x3
		y0, y1, y2, y3 := t0-s0, t1-s1, t2-s2, t3-s3
		r0 += (s0 - (t0 - y0)) + (x0 - y0)
		r1 += (s1 - (t1 - y1)) + (x1 - y1)
		r2 += (s2 - (t2 - y2)) + (x2 - y2)
		r3 += (s3 - (t3 - y3)) + (x3 - y3)
		s0, s1, s2, s3 = t0, t1, t2, t3
	}
	return [4]float64{s0, s1, s2, s3}, [4]float64{r0, r1, r2, r3}
}

func sum(values []float64) float64 {
	var sum, rest float64
	for _, v := range values {
		sum, rest = kahansum.Inc(v, sum, rest)
	}
	if math.IsInf(sum, 0) {
		return sum
	}
	return sum + rest
}

// average returns the mean, computed from the sum unless that overflows.
func average(values []float64) float64 {
	var rest float64
	sum := values[0]
	for i, v := range values[1:] {
		more, lost := kahansum.Inc(v, sum, rest)
		if math.IsInf(more, 0) {
			n := float64(i + 1)
			return partialMean{sum / n, rest / n, i + 1}.over(values)
		}
		sum, rest = more, lost
	}
	n := float64(len(values))
	return sum/n + rest/n
}

// partialMean is the mean of the first n values, in two parts.
type partialMean struct {
	mean, rest float64
	n          int
}

func (p partialMean) over(values []float64) float64 {
	for i := p.n; i < len(values); i++ {
		n := float64(i + 1)
		q := (n - 1) / n
		p.mean, p.rest = kahansum.Inc(values[i]/n, q*p.mean, q*p.rest)
	}
	return p.mean + p.rest
}

func (w *windows) extremes(out []float64) {
	x := newExtremes(w.pushdown, w.values, w.marks)
	w.each(out, x.of)
	w.marks = x.marks
}

// extremes computes for one window after the other the first of its greatest values, or of its least ones, or its last
// value if none of them is a number.
type extremes struct {
	values []float64
	least  bool  // the values have the other sign, and the least is wanted
	marks  []int // positions of values that are the greatest up to one of the next windows' ends; the values fall
	head   int   // the first mark that counts
	seen   int   // how many values have been looked at
}

// newExtremes begins. It may change the values, and uses the room of marks.
func newExtremes(l *pushdown, values []float64, marks []int) *extremes {
	x := &extremes{values: values, least: l.function == "min_over_time", marks: marks[:0]}
	if x.least {
		for i, v := range values {
			values[i] = -v
		}
	}
	return x
}

// of returns the result of a window, which begins and ends at or behind those before it, and is not empty.
func (x *extremes) of(s span) float64 {
	for ; x.seen < s.hi; x.seen++ {
		v := x.values[x.seen]
		if math.IsNaN(v) {
			continue
		}
		n := len(x.marks)
		for n > x.head && x.values[x.marks[n-1]] < v {
			n--
		}
		x.marks = append(x.marks[:n], x.seen)
	}
	for x.head < len(x.marks) && x.marks[x.head] < s.lo {
		x.head++
	}
	v := x.values[s.hi-1]
	if x.head < len(x.marks) {
		v = x.values[x.marks[x.head]]
	}
	if x.least {
		return -v
	}
	return v
}
