package chunk

import (
	"math"
	"math/bits"
)

// A scale writes a double v as m = round(v * 10^exp) and a correction, the number of doubles between m / 10^exp and v.
// With single set, m / 10^exp is rounded through float32 first: a float32 sensor's 31.8 arrives as 31.799999237060547.
//
// The correction is 0 for every v that a decimal of exp places reads back to. All other doubles, NaN payloads, -0 and
// infinities included, need no case of their own: the correction wraps and reaches every bit pattern. m / 10^exp is
// the same on every machine: |m| < 2^53 and 10^22 are exact doubles, and IEEE 754 division rounds correctly.
type scale struct {
	exp    int // 0 to maxExp
	single bool
}

const maxExp = 22

var powers = [maxExp + 1]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10,
	1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// nearest returns the mantissa of a double, 0 where it would not be an exact integer, and the double that it stands
// for. power is the scale's power of ten: a loop gets it once.
func (s scale) nearest(b uint64, power float64) (m int64, got uint64) {
	f := math.RoundToEven(math.Float64frombits(b) * power)
	if math.Abs(f) < maxExact {
		m = int64(f)
	}
	f = float64(m) / power
	if s.single {
		f = float64(float32(f))
	}
	return m, math.Float64bits(f)
}

func (s scale) values(v []uint64, m []int64) {
	power := powers[s.exp]
	switch {
	case s.single:
		for i, x := range m {
			v[i] = math.Float64bits(float64(float32(float64(x) / power)))
		}
	case s.exp == 0:
		for i, x := range m {
			v[i] = math.Float64bits(float64(x))
		}
	default:
		for i, x := range m {
			v[i] = math.Float64bits(float64(x) / power)
		}
	}
}

// ord numbers the doubles in their order, so that neighbours differ by 1; unord is its inverse.
func ord(b uint64) int64   { return int64(b) ^ int64(uint64(int64(b)>>63)>>1) }
func unord(o int64) uint64 { return uint64(o) ^ uint64(o>>63)>>1 }

// sampleRuns runs of sampleRun neighbours are what the scale of a column is chosen from: neighbours, because
// differences are what is going to be stored.
const (
	sampleRuns = 8
	sampleRun  = 3
	// correctionBits is what a correction costs in addition to its own bits: its place in the bitmap.
	correctionBits = 4
)

// chooseScale returns the scale with the fewest bits for the mantissas and corrections of a sample; ok is false when
// the doubles' own bits are fewer. A brief choice takes the scale by which all of the sample are exact, if a smaller
// one leaves many that are not.
func chooseScale(v []uint64, brief bool) (best scale, ok bool) {
	var buf [sampleRuns * sampleRun]uint64
	sample := sampleOf(v, buf[:0])
	least := ordBits(sample)
	if brief {
		if s, ok := exactScale(sample); ok {
			if b, exact := s.bits(sample); exact && b < least {
				return s, true
			}
		}
	}
	for _, single := range []bool{false, true} {
		if single && !mostlySingle(sample) {
			break
		}
		for exp := range maxExp + 1 {
			s := scale{exp, single}
			b, exact := s.bits(sample)
			if b < least {
				best, least, ok = s, b, true
			}
			if exact {
				return best, ok // a larger exponent only makes larger mantissas
			}
		}
	}
	return best, ok
}

// exactScale returns the least scale by which all values of a sample are exact. ok is false without such a scale, or
// when the scale before it makes at least three quarters exact.
func exactScale(sample []uint64) (s scale, ok bool) {
	for _, b := range sample {
		for !s.exact(b) {
			if s.exp++; s.exp > maxExp {
				return s, false
			}
		}
	}
	if s.exp == 0 {
		return s, true
	}
	before, inexact := scale{exp: s.exp - 1}, 0
	for _, b := range sample {
		if !before.exact(b) {
			if inexact++; 4*inexact > len(sample) {
				return s, true
			}
		}
	}
	return s, false
}

func (s scale) exact(b uint64) bool {
	_, got := s.nearest(b, powers[s.exp])
	return got == b
}

// sampleOf picks runs of neighbours, spread evenly; all of v if it is short. It leaves out what is not finite.
func sampleOf(v, sample []uint64) []uint64 {
	runs, run := sampleRuns, sampleRun
	if len(v) <= sampleRuns*sampleRun {
		runs, run = 1, len(v)
	}
	for i := range runs {
		from := 0
		if runs > 1 {
			from = i * (len(v) - run) / (runs - 1)
		}
		for _, b := range v[from : from+run] {
			if finite(b) {
				sample = append(sample, b)
			}
		}
	}
	return sample
}

func finite(b uint64) bool { return b>>52&0x7FF != 0x7FF }

// bits estimates the sample's bits at scale s; exact is whether no value needs a correction.
func (s scale) bits(sample []uint64) (total int, exact bool) {
	exact = true
	var prev int64
	power := powers[s.exp]
	for i, b := range sample {
		m, got := s.nearest(b, power)
		if i > 0 {
			total += bits.Len64(zigzag(m - prev))
		}
		prev = m
		if got != b {
			exact = false
			total += bits.Len64(zigzag(ord(b)-ord(got))) + correctionBits
		}
	}
	return total, exact
}

func ordBits(sample []uint64) int {
	total := 1 // scales win a tie
	for i := 1; i < len(sample); i++ {
		total += bits.Len64(zigzag(ord(sample[i]) - ord(sample[i-1])))
	}
	return total
}

// mostlySingle reports whether half of the sample are float32 values.
func mostlySingle(sample []uint64) bool {
	n := 0
	for _, b := range sample {
		if v := math.Float64frombits(b); float64(float32(v)) == v {
			n++
		}
	}
	return 2*n >= len(sample)
}
