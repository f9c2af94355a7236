package rollup

import "math"

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
