package decode

import (
	"math"
	"strconv"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
)

// AppendJSON appends the message of a reading. Decoding it gives the reading back if its time is below
// telemetry.MaxMillis, with three exceptions: an int that a float64 holds comes back as that float, every NaN as the
// same NaN, and no label with an empty value. An empty tenant or device is left out. All strings must be valid UTF-8.
func AppendJSON(b []byte, r telemetry.Reading) []byte {
	b = append(b, '{')
	if r.Tenant != "" {
		b = append(b, `"tenant":`...)
		b = append(jsontext.AppendString(b, r.Tenant), ',')
	}
	if r.Device != "" {
		b = append(b, `"device":`...)
		b = append(jsontext.AppendString(b, r.Device), ',')
	}
	b = append(b, `"ts":`...)
	b = appendTime(b, r.Time)
	b = append(b, `,"values":{`...)
	for i, f := range r.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendString(b, f.Metric), ':')
		b = appendValue(b, f.Value)
	}
	b = append(b, '}')
	if len(r.Labels) > 0 {
		b = jsontext.AppendLabels(append(b, `,"labels":`...), r.Labels)
	}
	if len(r.Tags) > 0 {
		b = jsontext.AppendLabels(append(b, `,"tags":`...), r.Tags)
	}
	return append(b, '}')
}

// appendTime writes milliseconds; so small a number that it would be read as seconds it writes in seconds.
func appendTime(b []byte, millis int64) []byte {
	if telemetry.EpochPlaces(float64(millis)) != 3 || millis == 0 {
		return strconv.AppendInt(b, millis, 10)
	}
	return strconv.AppendFloat(b, float64(millis)/1000, 'f', -1, 64)
}

func appendValue(b []byte, v telemetry.Value) []byte {
	switch v.Kind() {
	case telemetry.Float:
		return appendFloat(b, v.Float())
	case telemetry.Int:
		return strconv.AppendInt(b, v.Int(), 10)
	case telemetry.Bool:
		return strconv.AppendBool(b, v.Bool())
	case telemetry.Text:
		return jsontext.AppendString(b, v.Text())
	}
	return append(b, "null"...)
}

// fewPlaces and fewDigits bound decimals that are written as they are: a number with at most five places and 15
// digits in all is the shortest that reads back to its bits, since no two such numbers have the same bits.
const (
	fewPlaces = 1e5
	fewDigits = 1e15
)

// appendDecimal writes n / fewPlaces, without zeros at its end.
func appendDecimal(b []byte, n int64) []byte {
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendInt(b, n/fewPlaces, 10)
	rest := n % fewPlaces
	if rest == 0 {
		return b
	}
	b = append(b, ".00000"...)
	for i := len(b) - 1; rest > 0; i-- {
		b[i] = byte('0' + rest%10)
		rest /= 10
	}
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// appendFloat writes the shortest digits that read back to the same bits. From 10^15 on there is an
// exponent: without one the digits would be an integer literal, which is read to its last digit.
func appendFloat(b []byte, f float64) []byte {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f):
		return append(b, `{"float":"NaN"}`...)
	case math.IsInf(f, 1):
		return append(b, `{"float":"+Inf"}`...)
	case math.IsInf(f, -1):
		return append(b, `{"float":"-Inf"}`...)
	case abs != 0 && abs < fewDigits/fewPlaces:
		if n := math.Round(f * fewPlaces); n/fewPlaces == f {
			return appendDecimal(b, int64(n))
		}
	}
	switch {
	case abs == 0, abs >= 1e-6 && abs < 1e15:
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'e', -1, 64)
}
