package duration

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"binnacle/internal/telemetry"
)

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
