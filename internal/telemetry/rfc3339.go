package telemetry

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseRFC3339 returns the instant, in UTC, that a text names as RFC 3339, 5.6, allows: t and z in lower case, any
// number of decimals, and the leap second at the end of a month, which is the second after it, as in Unix time. ok is
// false for any other text. The instant is rounded down to a millisecond by UnixMilli, and is after that millisecond if
// any decimal says so.
func ParseRFC3339[T string | []byte](text T) (at time.Time, ok bool) {
	const layout = "0000-00-00T00:00:00" // a digit for a 0
	if len(text) < len(layout)+1 {
		return at, false
	}
	for i := range len(layout) {
		switch c := text[i]; layout[i] {
		case '0':
			ok = c >= '0' && c <= '9'
		case 'T':
			ok = c|0x20 == 't'
		default:
			ok = c == layout[i]
		}
		if !ok {
			return at, false
		}
	}
	two := func(i int) int { return int(text[i]-'0')*10 + int(text[i+1]-'0') }
	year, month, day := two(0)*100+two(2), two(5), two(8)
	hour, minute, second := two(11), two(14), two(17)
	nanos, end, ok := decimals(text, len(layout))
	offset, zoned := zoneOffset(text[end:])
	if !ok || !zoned || hour > 23 || minute > 59 || second > 60 {
		return at, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if month < 1 || month > 12 || date.Day() != day {
		return at, false
	}
	at = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC).Add(-offset)
	if y, m, _ := at.Date(); second == 60 && at.Truncate(time.Second) != time.Date(y, m, 1, 0, 0, 0, 0, time.UTC) {
		return at, false
	}
	return at, true
}

// decimals returns the nanoseconds of the fraction of a second that may begin at a place, and where it ends. Behind
// nine decimals any that is not 0 adds one, unless that makes another millisecond.
func decimals[T string | []byte](text T, at int) (nanos, end int, ok bool) {
	if text[at] != '.' {
		return 0, at, true
	}
	unit := int(time.Second)
	for end = at + 1; end < len(text) && text[end] >= '0' && text[end] <= '9'; end++ {
		digit := int(text[end] - '0')
		if unit /= 10; unit > 0 {
			nanos += digit * unit
		} else if digit > 0 && nanos%int(time.Millisecond) == 0 {
			nanos++
		}
	}
	return nanos, end, end > at+1
}

// zoneOffset returns how far a zone, Z or hours and minutes with a sign, lies ahead of UTC.
func zoneOffset[T string | []byte](text T) (ahead time.Duration, ok bool) {
	if len(text) == 1 {
		return 0, text[0]|0x20 == 'z'
	}
	if len(text) != len("+00:00") || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return 0, false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	hours, minutes := int(text[1]-'0')*10+int(text[2]-'0'), int(text[4]-'0')*10+int(text[5]-'0')
	ahead = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if text[0] == '-' {
		ahead = -ahead
	}
	return ahead, hours <= 23 && minutes <= 59
}

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
