package chunk

import (
	"math"
	"strconv"

	"binnacle/internal/telemetry"
)

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
