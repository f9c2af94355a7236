package chunk

import (
	"math"
	"strconv"

	"binnacle/internal/telemetry"
)

// Stats sums up a column. NaN and infinities are counted apart and left out of everything else.
//
// Min, Max, First and Last are values of the column's kind; First and Last have the earliest and the latest instant.
// Sum is a float for floats (Neumaier's compensated sum in the order of time), an int for ints, and for bools how
// many are true. A Value is none where there is nothing to say: all of them for text, Sum where it leaves its type,
// all of them where no value counts.
type Stats struct {
	Count                      int
	Min, Max, Sum, First, Last telemetry.Value
	NaN, PosInf, NegInf        int
}

// StatsOf sums up a column that has values.
func StatsOf(c *Column) Stats {
	switch c.Kind {
	case telemetry.Float:
		return floatStats(c.Bits)
	case telemetry.Text:
		return Stats{Count: len(c.Texts)}
	default:
		return intStats(c.Kind, c.Bits)
	}
}

func intStats(kind telemetry.Kind, v []uint64) Stats {
	least, most, sum, fits := int64(v[0]), int64(v[0]), int64(0), true
	for _, b := range v {
		x := int64(b)
		least, most = min(least, x), max(most, x)
		next := sum + x
		fits = fits && (next > sum) == (x > 0)
		sum = next
	}
	s := Stats{
		Count: len(v),
		Min:   telemetry.BitsValue(kind, uint64(least)), Max: telemetry.BitsValue(kind, uint64(most)),
		First: telemetry.BitsValue(kind, v[0]), Last: telemetry.BitsValue(kind, v[len(v)-1]),
	}
	if fits {
		s.Sum = telemetry.IntValue(sum)
	}
	return s
}

func floatStats(v []uint64) (s Stats) {
	var first, last, sum, lost float64
	least, most := math.Inf(1), math.Inf(-1)
	for _, b := range v {
		x := math.Float64frombits(b)
		if !finite(b) {
			s.countOdd(x)
			continue
		}
		if s.Count++; s.Count == 1 {
			first = x
		}
		last = x
		least, most = min(least, x), max(most, x)
		next := sum + x
		if math.Abs(sum) >= math.Abs(x) {
			lost += sum - next + x
		} else {
			lost += x - next + sum
		}
		sum = next
	}
	if s.Count == 0 {
		return s
	}
	s.Min, s.Max = telemetry.FloatValue(least), telemetry.FloatValue(most)
	s.First, s.Last = telemetry.FloatValue(first), telemetry.FloatValue(last)
	if sum += lost; finite(math.Float64bits(sum)) {
		s.Sum = telemetry.FloatValue(sum)
	}
	return s
}

func (s *Stats) countOdd(x float64) {
	switch {
	case x > 0:
		s.PosInf++
	case x < 0:
		s.NegInf++
	default:
		s.NaN++
	}
}

// Values returns the number of values that s was made of.
func (s Stats) Values() int { return s.Count + s.NaN + s.PosInf + s.NegInf }

// The document is written here rather than by encoding/json because its bytes are part of the format: one order of
// properties, one spelling for each value.

// appendStats appends [count,min,max,sum,first,last], with [...,nan,+inf,-inf] if there are any, and [count] for text.
func appendStats(b []byte, kind telemetry.Kind, s *Stats) []byte {
	b = append(b, '[')
	b = strconv.AppendInt(b, int64(s.Count), 10)
	if kind != telemetry.Text {
		for _, v := range []telemetry.Value{s.Min, s.Max, s.Sum, s.First, s.Last} {
			b = append(b, ',')
			b = appendNumber(b, v)
		}
		if s.Values() > s.Count {
			for _, n := range []int{s.NaN, s.PosInf, s.NegInf} {
				b = append(b, ',')
				b = strconv.AppendInt(b, int64(n), 10)
			}
		}
	}
	return append(b, ']')
}

// appendNumber appends v as a JSON number that float64 holds, an int beyond 2^53 as a string, none as null.
func appendNumber(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Float:
		return appendFloat(b, v.Float())
	case telemetry.Int, telemetry.Bool:
		i := int64(v.Bits())
		if -maxExact <= i && i <= maxExact {
			return strconv.AppendInt(b, i, 10)
		}
		b = append(b, '"')
		b = strconv.AppendInt(b, i, 10)
		return append(b, '"')
	}
	return append(b, "null"...)
}

// appendFloat appends a finite v in the fewest digits that read back to it, without an exponent where that is short.
func appendFloat(b []byte, v float64) []byte {
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, v, format, -1, 64)
}
