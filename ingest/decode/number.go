package decode

import (
	"math"
	"strconv"

	"binnacle/internal/telemetry"
)

// number is a JSON number as it was written, and what was learnt while reading it.
type number struct {
	text     []byte
	mantissa uint64 // of all digits; meaningless when digits > 19
	digits   int    // significant digits, without leading zeros
	exp      int    // the value is mantissa * 10^exp, sign aside
	negative bool
	integer  bool // no fraction and no exponent was written
}

// number consumes a number that begins here.
func (s *scanner) number() (number, error) {
	n := number{integer: true}
	from := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		n.negative = true
		s.at++
	}
	zero := s.at < len(s.text) && s.text[s.at] == '0'
	switch count := s.digits(&n); {
	case count == 0 && n.negative:
		return n, s.fail("no digit")
	case count == 0:
		return n, s.fail("no value")
	case zero && count > 1:
		return n, s.fail("number with a leading zero")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		n.integer = false
		count := s.digits(&n)
		if count == 0 {
			return n, s.fail("no digit")
		}
		n.exp = -count
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		s.at++
		n.integer = false
		e, err := s.exponent()
		if err != nil {
			return n, err
		}
		n.exp += e
	}
	n.text = s.text[from:s.at]
	return n, nil
}

// digits consumes digits into the mantissa and counts them.
func (s *scanner) digits(n *number) int {
	from := s.at
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at] - '0'
		if c > 9 {
			break
		}
		n.mantissa = n.mantissa*10 + uint64(c)
		if n.digits > 0 || c > 0 {
			n.digits++
		}
	}
	return s.at - from
}

// maxExp is more than any exponent that matters, and adds up without overflow.
const maxExp = 1 << 24

func (s *scanner) exponent() (int, error) {
	negative := false
	if s.at < len(s.text) && (s.text[s.at] == '-' || s.text[s.at] == '+') {
		negative = s.text[s.at] == '-'
		s.at++
	}
	from, e := s.at, 0
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at] - '0'
		if c > 9 {
			break
		}
		e = min(e*10+int(c), maxExp)
	}
	if s.at == from {
		return 0, s.fail("no digit")
	}
	if negative {
		e = -e
	}
	return e, nil
}

// value is the float64 that was written, or the int64 where an integer was that no float64 holds.
func (n number) value() (telemetry.Value, *fault) {
	if !n.integer || n.digits <= 15 {
		f, err := n.float()
		if err != nil {
			return telemetry.Value{}, faultf(Value, "number %.80q is beyond float64", n.text)
		}
		return telemetry.FloatValue(f), nil
	}
	i, err := strconv.ParseInt(string(n.text), 10, 64)
	if err == nil {
		// 2^63 as a float64 is no int64, so MaxInt64 must not be converted back.
		if f := float64(i); f < 1<<63 && int64(f) == i {
			return telemetry.FloatValue(f), nil
		}
		return telemetry.IntValue(i), nil
	}
	f, err := n.float()
	if err != nil || strconv.FormatFloat(f, 'f', 0, 64) != string(n.text) {
		return telemetry.Value{}, faultf(Value, "integer %.80q is beyond int64 and no float64 holds it", n.text)
	}
	return telemetry.FloatValue(f), nil
}

// float is the nearest float64. A mantissa below 2^53 times or over an exact power of ten is rounded
// once, hence right (Clinger 1990); the rest is strconv's.
func (n number) float() (float64, error) {
	if n.digits <= 15 && n.exp >= -22 && n.exp <= 22 {
		f := float64(n.mantissa)
		if n.exp < 0 {
			f /= powers[-n.exp]
		} else {
			f *= powers[n.exp]
		}
		if n.negative {
			f = -f
		}
		return f, nil
	}
	return strconv.ParseFloat(string(n.text), 64)
}

// powers of ten that a float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// floor is the number rounded down to an int64, exactly: no float64 stands between. ok is false beyond
// int64.
func (n number) floor() (i int64, ok bool) {
	if n.exp == 0 && n.digits <= 18 {
		i = int64(n.mantissa)
		if n.negative {
			i = -i
		}
		return i, true
	}
	whole, rest := n.split()
	if len(whole) > 19 {
		return 0, false
	}
	u, err := strconv.ParseUint("0"+whole, 10, 64)
	if err != nil || u > math.MaxInt64 {
		return 0, false
	}
	i = int64(u)
	if n.negative {
		i = -i
		if rest {
			i--
		}
	}
	return i, true
}

// split gives the digits before the decimal point, without leading zeros, and whether any digit after it
// is not 0. More than 19 digits before the point are not all written out.
func (n number) split() (whole string, rest bool) {
	digits := make([]byte, 0, 32)
	for _, c := range n.text {
		if c|0x20 == 'e' {
			break
		}
		if c >= '0' && c <= '9' && (c != '0' || len(digits) > 0) {
			digits = append(digits, c)
		}
	}
	switch before := len(digits) + n.exp; {
	case len(digits) == 0:
		return "", false
	case before <= 0:
		return "", true
	case before <= len(digits):
		for _, c := range digits[before:] {
			rest = rest || c != '0'
		}
		return string(digits[:before]), rest
	default:
		for len(digits) < min(before, 20) {
			digits = append(digits, '0')
		}
		return string(digits), false
	}
}
