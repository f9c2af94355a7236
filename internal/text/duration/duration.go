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

	"binnacle/internal/telemetry"
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

// ParseInstant returns the ms since 1970 of RFC 3339, of a date's midnight in UTC, of a number since 1970 in the unit
// that telemetry.ParseEpoch finds, of now, or of a duration before now, such as -2h. It rounds up, and clamps to the
// times that readings can have. Parameters of the API and flags of commands are read with it.
func ParseInstant(s string, now time.Time) (int64, error) {
	if s == "now" {
		return CeilMillis(now), nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		d, err := Parse(ago)
		if d < 0 || err != nil && !errors.Is(err, ErrTooLong) {
			return 0, fmt.Errorf("%q is not a duration", ago)
		}
		return CeilMillis(now.Add(-d)), nil
	}
	if whole, _, _ := strings.Cut(s, "."); len(whole) < 20 && strings.Trim(s, "0123456789.") == "" {
		if negative, ok := telemetry.ParseEpoch("-" + s); ok { // so it rounds up
			return min(-negative, telemetry.MaxMillis), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return CeilMillis(day), nil
	}
	// In a URL an unescaped + is a space; nothing else can be meant by one.
	t, ok := telemetry.ParseRFC3339(strings.Replace(s, " ", "+", 1))
	if !ok {
		return 0, fmt.Errorf("%.60q is no time", s)
	}
	return CeilMillis(t), nil
}

// ParseDayOf returns the UTC day of a time as ParseInstant reads it, or of eight digits, and whether the day begins
// then.
func ParseDayOf(s string, now time.Time) (d telemetry.Day, begins bool, err error) {
	if d, err := telemetry.ParseDay(s); err == nil {
		return d, true, nil
	}
	at, err := ParseInstant(s, now)
	d = telemetry.DayOf(at)
	return d, at == d.Start(), err
}

// CeilMillis returns the ms of a time, rounded up, within the times that readings can have.
func CeilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return min(max(ms, 0), telemetry.MaxMillis)
}
