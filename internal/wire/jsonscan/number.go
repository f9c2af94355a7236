package jsonscan

import (
	"math"
	"strconv"
)

// Number is a JSON number as it was written, and what was learnt while reading it.
type Number struct {
	Text []byte
	// Mantissa has all digits; meaningless when Digits > 19.
	Mantissa uint64
	Digits   int // significant digits, without leading zeros
	Exp      int // the value is Mantissa * 10^Exp, sign aside
	Negative bool
	Integer  bool // no fraction and no exponent was written
}

// Number consumes a number that begins here.
func (s *Scanner) Number() (Number, error) {
	n := Number{Integer: true}
	from := s.at
	if s.at < len(s.text) && s.text[s.at] == '-' {
		n.Negative = true
		s.at++
	}
	zero := s.at < len(s.text) && s.text[s.at] == '0'
	switch count := s.digits(&n); {
	case count == 0 && n.Negative:
		return n, s.Fail("no digit")
	case count == 0:
		return n, s.Fail("no value")
	case zero && count > 1:
		return n, s.Fail("number with a leading zero")
	}
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		n.Integer = false
		count := s.digits(&n)
		if count == 0 {
			return n, s.Fail("no digit")
		}
		n.Exp = -count
	}
	if s.at < len(s.text) && s.text[s.at]|0x20 == 'e' {
		s.at++
		n.Integer = false
		e, err := s.exponent()
		if err != nil {
			return n, err
		}
		n.Exp += e
	}
	n.Text = s.text[from:s.at]
	return n, nil
}

// digits consumes digits into the mantissa and counts them.
func (s *Scanner) digits(n *Number) int {
	from := s.at
	for ; s.at < len(s.text); s.at++ {
		c := s.text[s.at] - '0'
		if c > 9 {
			break
		}
		n.Mantissa = n.Mantissa*10 + uint64(c)
		if n.Digits > 0 || c > 0 {
			n.Digits++
		}
	}
	return s.at - from
}

// maxExp is more than any exponent that matters, and adds up without overflow.
const maxExp = 1 << 24

func (s *Scanner) exponent() (int, error) {
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
		return 0, s.Fail("no digit")
	}
	if negative {
		e = -e
	}
	return e, nil
}

// Float returns the nearest float64. A mantissa below 2^53 times or over an exact power of ten is rounded once, and so
// right (Clinger 1990); the rest is strconv's.
func (n Number) Float() (float64, error) {
	if n.Digits <= 15 && n.Exp >= -22 && n.Exp <= 22 {
		f := float64(n.Mantissa)
		if n.Exp < 0 {
			f /= powers[-n.Exp]
		} else {
			f *= powers[n.Exp]
		}
		if n.Negative {
			f = -f
		}
		return f, nil
	}
	return strconv.ParseFloat(string(n.Text), 64)
}

// powers of ten that a float64 holds exactly.
var powers = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// Floor returns the number rounded down to an int64, exactly, not by a float64. ok is false beyond int64.
func (n Number) Floor() (i int64, ok bool) {
	if n.Exp == 0 && n.Digits <= 18 {
		i = int64(n.Mantissa)
		if n.Negative {
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
	if n.Negative {
		i = -i
		if rest {
			i--
		}
	}
	return i, true
}

// split returns the digits before the decimal point, without leading zeros, and whether any digit after it is not 0.
// More than 19 digits before the point are not all written out.
func (n Number) split() (whole string, rest bool) {
	digits := make([]byte, 0, 32)
	for _, c := range n.Text {
		if c|0x20 == 'e' {
			break
		}
		if c >= '0' && c <= '9' && (c != '0' || len(digits) > 0) {
			digits = append(digits, c)
		}
	}
	switch before := len(digits) + n.Exp; {
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
