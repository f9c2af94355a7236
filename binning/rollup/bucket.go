package rollup

import "math"

// staleBits is the NaN by which Prometheus marks that a series has ended: it is no sample, but nothing before it counts
// (prometheus/model/value).
const staleBits = 0x7ff0000000000002

// IsStale reports whether a value is a stale marker.
func IsStale(v float64) bool { return math.Float64bits(v) == staleBits }

// Bucket is the samples of a series in one bucket, in the order of time. Stale markers are in no field but Stale.
type Bucket struct {
	N             uint32
	Stale         bool // the newest sample is a stale marker
	FirstT, LastT int64
	First, Last   float64
	Resets        []float64 // the values that a lower one follows in the bucket
	Min, Max      float64   // the first of the least and of the greatest ones; NaN if all are
	Hi, Lo        float64   // the sum, and what was lost of it to rounding (Neumaier)
	Size          Size      // the values' sizes
}

// Empty reports whether nothing is in the bucket, not even a stale marker.
func (b *Bucket) Empty() bool { return b.N == 0 && !b.Stale }

// Add takes a sample that is later than those before.
func (b *Bucket) Add(t int64, v float64) {
	if b.Stale = IsStale(v); b.Stale {
		return
	}
	if b.N == 0 {
		b.FirstT, b.First, b.Min, b.Max = t, v, v, v
	} else {
		if v < b.Last {
			b.Resets = append(b.Resets, b.Last)
		}
		b.extremes(v, v)
	}
	b.N++
	b.LastT, b.Last = t, v
	b.Hi, b.Lo = plus(v, b.Hi, b.Lo)
	b.Size = b.Size.Join(SizeOf(v))
}

// Join takes the samples of a bucket that is later.
func (b *Bucket) Join(next *Bucket) {
	if next.Empty() {
		return
	}
	b.Stale = next.Stale
	if next.N == 0 {
		return
	}
	if b.N == 0 {
		resets := append(b.Resets[:0], next.Resets...)
		*b = *next
		b.Resets = resets
		return
	}
	if next.First < b.Last {
		b.Resets = append(b.Resets, b.Last)
	}
	b.Resets = append(b.Resets, next.Resets...)
	b.extremes(next.Min, next.Max)
	b.N += next.N
	b.LastT, b.Last = next.LastT, next.Last
	b.Hi, b.Lo = plus(next.Hi, b.Hi, b.Lo)
	b.Lo += next.Lo
	b.Size = b.Size.Join(next.Size)
}

func (b *Bucket) extremes(lowest, highest float64) {
	if lowest < b.Min || math.IsNaN(b.Min) {
		b.Min = lowest
	}
	if highest > b.Max || math.IsNaN(b.Max) {
		b.Max = highest
	}
}

// plus adds to a sum and what was lost of it so far, as Prometheus does (util/kahansum): operations and their order
// decide the last bits. The conversions keep a compiler from fusing across.
func plus(v, sum, lost float64) (float64, float64) {
	t := float64(sum + v)
	switch {
	case math.IsInf(t, 0):
		lost = 0
	case math.Abs(sum) >= math.Abs(v):
		lost += float64(sum-t) + v
	default:
		lost += float64(v-t) + sum
	}
	return t, float64(lost)
}

// Size bounds some values: how far from zero they are, and whether all of them are integers. It is twice an exponent,
// and one more if a value is no integer. The exponent is 0 of zeros alone, 1 + e of values below 2^(e-1022) with e the
// greatest of their biased exponents, so 2048 where one is infinite or NaN. Its zero value is that of no values.
type Size uint32

const (
	fraction  Size = 1
	unbounded Size = 2048 << 1
	maxSize        = int64(unbounded | fraction)
	bias           = 1022
)

// SizeOf returns the size of a value.
func SizeOf(v float64) Size {
	if v == 0 {
		return 0
	}
	s := Size(math.Float64bits(v)>>52&0x7ff+1) << 1
	if s == unbounded || v != math.Trunc(v) {
		s |= fraction
	}
	return s
}

// Join returns the size of the values of both.
func (s Size) Join(o Size) Size { return max(s&^fraction, o&^fraction) | (s|o)&fraction }

// MaxMagnitude returns what no value is further from zero than, infinity where nothing is.
func (s Size) MaxMagnitude() float64 {
	switch e := s &^ fraction; {
	case e == 0:
		return 0
	case e >= unbounded:
		return math.Inf(1)
	default:
		return min(math.Ldexp(1, int(e>>1)-1-bias), math.MaxFloat64)
	}
}

// Whole reports whether all values are integers.
func (s Size) Whole() bool { return s&fraction == 0 }
