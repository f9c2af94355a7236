package prom

import (
	"math"
	"slices"

	"binnacle/binning/rollup"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/util/kahansum"
)

// buckets is one series on a grid: bucket i describes its samples in (begin + i*width, begin + (i+1)*width]. Stale
// markers count in stale only. It has the columns that its pushdown needs; where counts is 0, values mean nothing. It
// is used for one series after another, and owned by one goroutine.
type buckets struct {
	begin, width int64
	needs        rollup.Columns

	counts []uint32
	stale  []bool  // the newest sample is a stale marker
	lastT  []int32 // ms before the bucket's end
	last   []float64

	firstT        []int32 // ms before the bucket's end
	first         []float64
	counterResets []counterReset // within buckets

	hi, lo []float64 // the two parts of kahansum, added sample by sample unless the width is more than a minute
	most   float64   // no value is further from zero than this
	whole  bool      // all values are integers

	extreme []float64 // the least or the greatest value, as the pushdown needs

	before     []uint32       // counts of the buckets before one together, made by count
	resetMarks []counterReset // made by markResets
	marks      []int          // made by extremes

	// Of the pushdown: the bucket behind the first step's window, how many lie between two steps, and in a
	// window.
	behind, apart, length int
}

// counterReset is a value that a lower one follows, in a bucket.
type counterReset struct {
	bucket int
	within bool // and so is the value itself
	value  float64
}

// fromBuckets lists the functions that can be computed from buckets, and the columns that they need. They are the same
// in all bits as from samples, but for sums and averages, which may differ by one unit in the last place.
var fromBuckets = map[string]struct {
	needs rollup.Columns
	of    func(b *buckets, l *pushdown, out []float64) (certain bool)
}{
	"":                  {rollup.Newest, (*buckets).newestOnes},
	"last_over_time":    {rollup.Newest, (*buckets).newestOnes},
	"present_over_time": {rollup.Newest, (*buckets).newestOnes},
	"count_over_time":   {rollup.Counts, (*buckets).sizes},
	"first_over_time":   {rollup.Oldest, (*buckets).firsts},
	"rate":              {rollup.Oldest | rollup.Newest, (*buckets).rates},
	"increase":          {rollup.Oldest | rollup.Newest, (*buckets).rates},
	"delta":             {rollup.Oldest | rollup.Newest, (*buckets).rates},
	"resets":            {rollup.Oldest | rollup.Newest, (*buckets).resets},
	"sum_over_time":     {rollup.Sums, (*buckets).totals},
	"avg_over_time":     {rollup.Sums, (*buckets).averages},
	"min_over_time":     {rollup.Lowest, (*buckets).extremes},
	"max_over_time":     {rollup.Highest, (*buckets).extremes},
}

// fitsGrid reports whether buckets of a width can answer a pushdown: all its windows are whole buckets, or only the
// newest sample counts: a bucket has its time.
func (l *pushdown) fitsGrid(width int64) bool {
	_, ok := fromBuckets[l.function]
	if first := l.steps.first - l.offset - l.window; !ok || first < 0 ||
		(l.steps.at(l.steps.n-1)-l.offset-first)/width >= maxBuckets {
		return false
	}
	for _, n := range []int64{l.steps.first - l.offset, l.steps.at(l.steps.n-1) - l.offset} {
		if n%width != 0 {
			return false
		}
	}
	if l.steps.n > 2 && l.steps.step%width != 0 {
		return false
	}
	switch l.function {
	case "", "last_over_time", "present_over_time":
		return true
	}
	return l.window%width == 0
}

// maxBuckets is how many buckets a series may have: there is room for all of them, also where it has no samples.
const maxBuckets = 1 << 20

// newBuckets returns empty buckets for a pushdown that fits the grid.
func newBuckets(l *pushdown, width int64) *buckets {
	first, last := l.steps.first-l.offset-l.window, l.steps.at(l.steps.n-1)-l.offset
	b := &buckets{begin: first - first%width, width: width, needs: fromBuckets[l.function].needs | rollup.Counts}
	n := int((last - b.begin) / width)
	b.counts, b.stale = make([]uint32, n), make([]bool, n)
	b.lastT, b.last = make([]int32, n), make([]float64, n)
	if b.needs.Has(rollup.Oldest) {
		b.firstT, b.first = make([]int32, n), make([]float64, n)
	}
	if b.needs.Has(rollup.Sums) {
		b.hi, b.lo = make([]float64, n), make([]float64, n)
	}
	if b.needs&(rollup.Lowest|rollup.Highest) != 0 {
		b.extreme = make([]float64, n)
	}
	b.before = make([]uint32, n+1)
	end := func(k int) int { return int((l.steps.at(k) - l.offset - b.begin) / width) }
	b.behind, b.length = end(0), int(l.window/width)
	if l.steps.n > 1 {
		b.apart = end(1) - b.behind // with more than two steps, a step is whole buckets
	}
	return b
}

func (b *buckets) bytes() int64 { return int64(len(b.counts)) * 64 }

func (b *buckets) reset() {
	clear(b.counts)
	clear(b.stale)
	b.counterResets = b.counterResets[:0]
	b.most, b.whole = 0, true
}

// add adds a sample, which must be later than all before. It ignores one outside of all buckets.
func (b *buckets) add(t int64, v float64) {
	i := int((t-b.begin+b.width-1)/b.width) - 1
	if t <= b.begin || i >= len(b.counts) {
		return
	}
	if b.stale[i] = value.IsStaleNaN(v); b.stale[i] {
		return
	}
	some := b.counts[i] > 0
	if b.needs.Has(rollup.Oldest) {
		if !some {
			b.firstT[i], b.first[i] = int32(b.at(i)-t), v
		} else if v < b.last[i] {
			b.counterResets = append(b.counterResets, counterReset{i, true, b.last[i]})
		}
	}
	if b.needs.Has(rollup.Sums) {
		if !some {
			b.hi[i], b.lo[i] = 0, 0
		}
		b.hi[i], b.lo[i] = kahansum.Inc(v, b.hi[i], b.lo[i])
		b.noteSize(math.Abs(v), v == math.Trunc(v))
	}
	if b.extreme != nil && (!some || b.isBeyond(v, b.extreme[i])) {
		b.extreme[i] = v
	}
	b.counts[i]++
	b.lastT[i], b.last[i] = int32(b.at(i)-t), v
}

func (b *buckets) at(i int) int64 { return b.begin + int64(i+1)*b.width }

// noteSize widens the bound of the values, and whether all are integers. A NaN makes the bound NaN for good.
func (b *buckets) noteSize(most float64, whole bool) {
	b.most = max(b.most, most)
	b.whole = b.whole && whole
}

// compute sets out to the value of each step. It reports whether any step has a value, and whether all values are
// certain to agree with the samples, as fromBuckets says.
func (b *buckets) compute(l *pushdown, out []float64) (some, certain bool) {
	for k := range out {
		out[k] = stale
	}
	certain = fromBuckets[l.function].of(b, l, out)
	return hasValue(out), certain
}

// end returns the number of the bucket behind the window of a step.
func (b *buckets) end(k int) int { return b.behind + k*b.apart }

// newest returns the bucket of the newest sample of a window, -1 for none. For a selector stale markers are samples.
func (b *buckets) newest(l *pushdown, k int) int {
	after := l.steps.at(k) - l.offset - l.window
	for i := b.end(k) - 1; i >= 0 && b.at(i) > after; i-- {
		switch {
		case l.function == "" && b.stale[i]:
			return -1
		case b.counts[i] == 0:
		case b.at(i)-int64(b.lastT[i]) > after:
			return i
		default:
			return -1
		}
	}
	return -1
}

// newestOnes computes what only the newest sample of a window counts for.
func (b *buckets) newestOnes(l *pushdown, out []float64) bool {
	for k := range out {
		switch i := b.newest(l, k); {
		case i >= 0 && l.function == "present_over_time":
			out[k] = 1
		case i >= 0:
			out[k] = b.last[i]
		}
	}
	return true
}

func (b *buckets) count() {
	n := uint32(0)
	for i, c := range b.counts {
		b.before[i] = n
		n += c
	}
	b.before[len(b.counts)] = n
}

// window returns the buckets of a step's window, without empty ones at its ends, and how many samples they have.
func (b *buckets) window(k int) (of span, n int) {
	of.hi = b.end(k)
	of.lo = of.hi - b.length
	if n = int(b.before[of.hi] - b.before[of.lo]); n == 0 {
		return of, 0
	}
	for b.counts[of.lo] == 0 {
		of.lo++
	}
	for b.counts[of.hi-1] == 0 {
		of.hi--
	}
	return of, n
}

// each sets out to the result of a function for each window with n samples, n > 0.
func (b *buckets) each(out []float64, of func(s span, n int) float64) (certain bool) {
	b.count()
	for k := range out {
		if s, n := b.window(k); n > 0 {
			out[k] = of(s, n)
		}
	}
	return true
}

func (b *buckets) sizes(_ *pushdown, out []float64) bool {
	return b.each(out, func(_ span, n int) float64 { return float64(n) })
}

func (b *buckets) firsts(_ *pushdown, out []float64) bool {
	return b.each(out, func(s span, _ int) float64 { return b.first[s.lo] })
}

// markResets fills resetMarks: all counter resets, also those from one bucket to the next, in the order of time.
func (b *buckets) markResets() {
	b.resetMarks = b.resetMarks[:0]
	earlier := func(x, y counterReset) int { return x.bucket - y.bucket }
	if !slices.IsSortedFunc(b.counterResets, earlier) {
		slices.SortStableFunc(b.counterResets, earlier)
	}
	if len(b.counterResets) == 0 && b.gapless() {
		b.markResetsBetween()
		return
	}
	within, before := b.counterResets, -1
	for i, n := range b.counts {
		if n == 0 {
			continue
		}
		if before >= 0 && b.first[i] < b.last[before] {
			b.resetMarks = append(b.resetMarks, counterReset{i, false, b.last[before]})
		}
		for len(within) > 0 && within[0].bucket == i {
			b.resetMarks, within = append(b.resetMarks, within[0]), within[1:]
		}
		before = i
	}
}

// gapless reports whether no bucket between the first and the last sample is empty.
func (b *buckets) gapless() bool {
	counts := b.counts
	for len(counts) > 0 && counts[0] == 0 {
		counts = counts[1:]
	}
	for len(counts) > 0 && counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	return !slices.Contains(counts, 0)
}

// markResetsBetween fills resetMarks where no bucket has a reset within it, and none between others is empty. Values
// of empty ones at the ends mean nothing, but no window reaches them: it ends at buckets with samples.
func (b *buckets) markResetsBetween() {
	if len(b.counts) == 0 {
		return
	}
	first, last := b.first[1:], b.last
	last = last[:len(first)]
	for i, v := range first {
		if v < last[i] {
			b.resetMarks = append(b.resetMarks, counterReset{i + 1, false, last[i]})
		}
	}
}

// resetsWithin returns the resets behind the first sample of some buckets.
func (b *buckets) resetsWithin(s span) []counterReset {
	at := func(bucket int, within bool) int {
		wanted := counterReset{bucket: bucket, within: within}
		i, _ := slices.BinarySearchFunc(b.resetMarks, wanted, func(m, of counterReset) int {
			switch {
			case m.bucket != of.bucket:
				return m.bucket - of.bucket
			case of.within && !m.within:
				return -1
			}
			return 1 // no mark is equal: the first of several is wanted
		})
		return i
	}
	return b.resetMarks[at(s.lo, true):at(s.hi, false)]
}

func (b *buckets) resets(_ *pushdown, out []float64) bool {
	b.markResets()
	return b.each(out, func(s span, _ int) float64 { return float64(len(b.resetsWithin(s))) })
}

// rates computes rate, increase and delta.
func (b *buckets) rates(l *pushdown, out []float64) bool {
	b.count()
	b.resetMarks = b.resetMarks[:0]
	if l.function != "delta" {
		b.markResets()
	}
	c := coverage{pushdown: l}
	for k := range out {
		s, n := b.window(k)
		if n < 2 {
			continue
		}
		e := ends{b.at(s.lo) - int64(b.firstT[s.lo]), b.at(s.hi-1) - int64(b.lastT[s.hi-1]), n, b.first[s.lo],
			l.steps.at(k)}
		v := b.last[s.hi-1] - e.value
		if len(b.resetMarks) > 0 {
			for _, m := range b.resetsWithin(s) {
				v += m.value
			}
		}
		out[k] = v * c.extrapolation(&e, v)
	}
	return true
}

// added adds up the sums of buckets. What was lost to rounding in one of them is lost in both parts.
func (b *buckets) added(s span) (sum, rest float64) {
	for i := s.lo; i < s.hi; i++ {
		if b.counts[i] > 0 {
			sum, rest = kahansum.Inc(b.hi[i], sum, rest)
			rest += b.lo[i]
		}
	}
	return sum, rest
}

// isPrecise reports whether a compensated sum of n values, which is near whole, is that of Prometheus but for one unit
// in the last place, whatever the order in which the values are added. Integers add up without a loss below 2^53. Of
// other values up to m a compensated sum is off by less than n³u²m, u = 2^-53: where four times as much is less than
// u/2^10 of the sum, two such sums round to neighbours. Where n³m is larger the values nearly cancel each other.
func (b *buckets) isPrecise(n int, whole float64) bool {
	const cancelled, smallest = 1 << 41, 0x1p-900 // below that a division loses bits
	of, size := float64(n), math.Abs(whole)
	if b.whole && of*b.most <= 1<<53 {
		return true
	}
	return of*b.most < math.MaxFloat64/4 && of*of*of/cancelled*b.most <= size && size > smallest
}

// sums sets out to the result of finish for the two parts of the sum of each window with n samples, n > 0.
func (b *buckets) sums(out []float64, finish func(sum, rest, n float64) float64) (certain bool) {
	b.count()
	for k := range out {
		s, n := b.window(k)
		if n == 0 {
			continue
		}
		sum, rest := b.added(s)
		if !b.isPrecise(n, sum+rest) {
			return false
		}
		out[k] = finish(sum, rest, float64(n))
	}
	return true
}

func (b *buckets) totals(_ *pushdown, out []float64) bool {
	return b.sums(out, func(sum, rest, _ float64) float64 { return sum + rest })
}

func (b *buckets) averages(_ *pushdown, out []float64) bool { return b.sums(out, nearestMean) }

// nearestMean returns the float nearest to the mean of n values with that sum. Prometheus' own result is off by one
// unit in the last place at most: it rounds after a division and after an addition.
func nearestMean(sum, rest, n float64) float64 {
	whole := sum + rest
	lost := rest - (whole - sum)
	mean := whole / n
	return mean + (math.FMA(-mean, n, whole)+lost)/n
}

// isBeyond reports whether a value is further out than an extreme, and any value is beyond one that is not a number.
func (b *buckets) isBeyond(v, extreme float64) bool {
	return math.IsNaN(extreme) || b.needs.Has(rollup.Lowest) && v < extreme || b.needs.Has(rollup.Highest) && v > extreme
}

func (b *buckets) extremes(l *pushdown, out []float64) bool {
	for i, n := range b.counts {
		if n == 0 {
			b.extreme[i] = math.NaN()
		}
	}
	x := newExtremes(l, b.extreme, b.marks)
	b.each(out, func(s span, _ int) float64 { return x.of(s) })
	b.marks = x.marks
	return true
}
