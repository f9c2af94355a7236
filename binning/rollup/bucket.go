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
