// Package duration parses and formats durations with Go's units and d for 24 hours, and parses times. Flags, settings
// and parameters of the API all use it. Parse reads back what String writes.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is 24 hours.
const Day = 24 * time.Hour

// ErrTooLong is the error of Parse for more than 292 years. It comes with the longest duration.
var ErrTooLong = errors.New("longer than 106751 days")

// Parse reads 90s, 1h30m, 2d, 1d12h or 1.5d. Days come first; a minus before all of it counts for all of it.
func Parse(s string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration such as 90s, 1h30m, 2d or 1d12h", s)
	text, negative := strings.CutPrefix(s, "-")
	if text == "" || strings.ContainsAny(text, "+-") {
		return 0, wrong
	}
	sign := time.Duration(1)
	if negative {
		sign = -1
	}
	var total time.Duration
	if days, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || strings.Trim(days, "0123456789.") != "" {
			return 0, wrong
		}
		if n *= float64(Day); n >= math.MaxInt64 {
			return sign * math.MaxInt64, fmt.Errorf("%q is %w", s, ErrTooLong)
		}
		total, text = time.Duration(n), rest
	}
	if text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, wrong
		}
		if total > math.MaxInt64-d {
			return sign * math.MaxInt64, fmt.Errorf("%q is %w", s, ErrTooLong)
		}
		total += d
	}
	return sign * total, nil
}

// String returns the shortest text that Parse reads back: 30s, 1h30m, 7d, 1d12h, 1.5s.
func String(d time.Duration) string {
	sign := ""
	if d < 0 {
		if d == math.MinInt64 { // has no positive counterpart
			return "-106751d23h47m16.854775808s"
		}
		sign, d = "-", -d
	}
	var days string
	if d >= Day {
		days, d = strconv.FormatInt(int64(d/Day), 10)+"d", d%Day
		if d == 0 {
			return sign + days
		}
	}
	text := d.String()
	if trimmed, ok := strings.CutSuffix(text, "m0s"); ok {
		text = trimmed + "m"
	}
	if trimmed, ok := strings.CutSuffix(text, "h0m"); ok {
		text = trimmed + "h"
	}
	return sign + days + text
}
