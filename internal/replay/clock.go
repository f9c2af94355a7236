package replay

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// layouts of times in tables. A fraction of a second may follow the seconds in all of them; without a zone
// it is UTC.
var layouts = []string{
	"2006-01-02 15:04:05",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02 15:04:05Z0700",
	"2006-01-02 15:04:05 Z07:00",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04",
	"2006-01-02T15:04",
	"2006-01-02T15:04Z07:00",
	"2006-01-02",
}

// clock reads times, first in the layout that the last one had.
type clock struct{ last int }

// parse gives milliseconds since 1970, rounded down.
func (c *clock) parse(s string) (millis int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if millis, ok := epoch(s); ok {
		return millis, true
	}
	if t, err := time.Parse(layouts[c.last], s); err == nil {
		return t.UnixMilli(), true
	}
	for i, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			c.last = i
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// epoch reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970; which, its
// magnitude tells: below 10^11 seconds (the year 5138), below 10^14 milliseconds, below 10^17
// microseconds, else nanoseconds. Decimals count exactly.
func epoch(s string) (millis int64, ok bool) {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && !strings.ContainsRune("+-.eE", rune(c)) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, false
	}
	if strings.ContainsAny(s, "eE") {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	switch abs := math.Abs(f); {
	case abs < 1e11:
		return shifted(s, 3)
	case abs < 1e14:
		return shifted(s, 0)
	case abs < 1e17:
		return shifted(s, -3)
	}
	return shifted(s, -6)
}

// shifted is a decimal number times 10^places, rounded down.
func shifted(s string, places int) (int64, bool) {
	negative := s[0] == '-'
	whole, fraction, _ := strings.Cut(strings.TrimLeft(s, "+-"), ".")
	point := len(whole) + places
	digits := whole + fraction
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	for len(digits) < point {
		digits += "0"
	}
	i, err := strconv.ParseInt("0"+digits[:point], 10, 64)
	if err != nil {
		return 0, false
	}
	if !negative {
		return i, true
	}
	if strings.Trim(digits[point:], "0") != "" {
		return -i - 1, true
	}
	return -i, true
}
