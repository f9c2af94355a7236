package telemetry

import (
	"math"
	"strconv"
	"strings"
)

// EpochPlaces returns the power of ten by which a number since 1970 becomes milliseconds. Its magnitude decides the
// unit: seconds below 10^11 (the year 5138), milliseconds below MaxMillis, microseconds below a thousand times that,
// else nanoseconds.
func EpochPlaces(number float64) int {
	switch abs := math.Abs(number); {
	case abs < 1e11:
		return 3
	case abs < MaxMillis:
		return 0
	case abs < 1e3*MaxMillis:
		return -3
	}
	return -6
}

// EpochMillis returns the milliseconds since 1970, rounded down, that a whole number of seconds, milliseconds,
// microseconds or nanoseconds is; EpochPlaces has the rule.
func EpochMillis(number int64) int64 {
	if number >= 1e11 && number < MaxMillis {
		return number // nearly all
	}
	switch EpochPlaces(float64(number)) {
	case 3:
		return number * 1e3
	case -3:
		return FloorDiv(number, 1e3)
	case -6:
		return FloorDiv(number, 1e6)
	}
	return number
}

// FloorDiv divides, and rounds down below zero, too.
func FloorDiv(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// ParseEpoch returns the milliseconds since 1970, rounded down, that a decimal number is; EpochPlaces has the rule.
// Decimals count exactly. It reports false for a text that is no such number.
func ParseEpoch(text string) (millis int64, ok bool) {
	if len(text) > 64 || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	if strings.ContainsAny(text, "eE") {
		text = strconv.FormatFloat(f, 'f', -1, 64)
	}
	whole, fraction, _ := strings.Cut(strings.TrimLeft(text, "+-"), ".")
	digits, point := whole+fraction, len(whole)+EpochPlaces(f)
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	for len(digits) < point {
		digits += "0"
	}
	millis, err = strconv.ParseInt("0"+digits[:point], 10, 64)
	switch negative, rest := text[0] == '-', strings.Trim(digits[point:], "0") != ""; {
	case err != nil:
		return 0, false
	case negative && rest:
		return -millis - 1, true
	case negative:
		return -millis, true
	}
	return millis, true
}
