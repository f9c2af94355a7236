package decode

import (
	"strconv"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// valueOf returns the float64 that was written, or an int64 for an integer that no float64 holds.
func valueOf(n jsonscan.Number) (telemetry.Value, *fault) {
	if !n.Integer || n.Digits <= 15 {
		f, err := n.Float()
		if err != nil {
			return telemetry.Value{}, faultf(Value, "number %.80q is beyond float64", n.Text)
		}
		return telemetry.FloatValue(f), nil
	}
	i, err := strconv.ParseInt(string(n.Text), 10, 64)
	if err == nil {
		// 2^63 as a float64 is no int64, so MaxInt64 must not be converted back.
		if f := float64(i); f < 1<<63 && int64(f) == i {
			return telemetry.FloatValue(f), nil
		}
		return telemetry.IntValue(i), nil
	}
	f, err := n.Float()
	if err != nil || strconv.FormatFloat(f, 'f', 0, 64) != string(n.Text) {
		return telemetry.Value{}, faultf(Value, "integer %.80q is beyond int64 and no float64 holds it", n.Text)
	}
	return telemetry.FloatValue(f), nil
}

// plainNumber reads a number of at most 15 digits without an exponent, which is most of them: it is a whole number
// below 2^53, over a power of ten that a float64 holds exactly, so that one division rounds it right (Clinger 1990).
func plainNumber(source []byte, at int) (x float64, end int, ok bool) {
	negative := at < len(source) && source[at] == '-'
	if negative {
		at++
	}
	first := at
	mantissa, at := appendDigits(0, source, at)
	digits := at - first
	if digits == 0 || digits > 15 || source[first] == '0' && digits > 1 {
		return 0, at, false
	}
	if at < len(source) && source[at] == '.' {
		point := at + 1
		mantissa, at = appendDigits(mantissa, source, point)
		places := at - point
		if places == 0 || digits+places > 15 {
			return 0, at, false
		}
		x = float64(mantissa) / tens[places]
	} else {
		x = float64(mantissa)
	}
	if at < len(source) && source[at]|0x20 == 'e' {
		return 0, at, false
	}
	if negative {
		x = -x
	}
	return x, at, true
}

// tens are powers of ten.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// appendDigits appends the decimal digits at a place to those of n, and returns where they end.
func appendDigits(n uint64, source []byte, at int) (uint64, int) {
	for ; at < len(source); at++ {
		c := source[at] - '0'
		if c > 9 {
			break
		}
		n = n*10 + uint64(c)
	}
	return n, at
}
