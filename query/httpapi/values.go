package httpapi

import (
	"math"
	"strconv"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
)

// firstWide is the least float that is written with an exponent: from 2^53 on, digits before the point would look like
// an integer that a float64 can't hold.
const firstWide = 1 << 53

// appendFloat appends the shortest decimal that reads back to the same bits. It must be finite.
func appendFloat(b []byte, f float64) []byte {
	if abs := math.Abs(f); abs == 0 || (abs >= 1e-6 && abs < firstWide) {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 is e-9
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// nonFinite returns the word for a float that is not a number in JSON, "" for the others.
func nonFinite(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	}
	return ""
}

// appendPlain appends a value that is not text as people and CSV have it.
func appendPlain(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Float:
		if word := nonFinite(v.Float()); word != "" {
			return append(b, word...)
		}
		return appendFloat(b, v.Float())
	case telemetry.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	}
	return strconv.AppendBool(b, v.Bool())
}

func appendJSON(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Text:
		return jsontext.AppendString(b, v.Text())
	case telemetry.Float:
		if word := nonFinite(v.Float()); word != "" {
			return append(append(append(b, '"'), word...), '"')
		}
	}
	return appendPlain(b, v)
}
