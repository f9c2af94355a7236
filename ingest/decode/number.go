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
