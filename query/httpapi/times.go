package httpapi

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"binnacle/internal/duration"
	"binnacle/internal/telemetry"
)

// ParseInstant returns the ms since 1970 of RFC 3339, of a date's midnight in UTC, of a number since 1970 in the unit
// that telemetry.ParseEpoch finds, of now, or of a duration before now. It rounds up, and clamps to the times that
// readings can have.
func ParseInstant(s string, now time.Time) (int64, error) {
	if s == "now" {
		return clamp(now), nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		d, err := duration.Parse(ago)
		if d < 0 || err != nil && !errors.Is(err, duration.ErrTooLong) {
			return 0, fmt.Errorf("%q is not a duration", ago)
		}
		return clamp(now.Add(-d)), nil
	}
	if whole, _, _ := strings.Cut(s, "."); len(whole) < 20 && strings.Trim(s, "0123456789.") == "" {
		if negative, ok := telemetry.ParseEpoch("-" + s); ok { // so it rounds up
			return min(-negative, telemetry.MaxMillis), nil
		}
	}
	if day, err := time.Parse(time.DateOnly, s); err == nil {
		return clamp(day), nil
	}
	// In a URL an unescaped + is a space; nothing else can be meant by one.
	t, ok := telemetry.ParseRFC3339(strings.Replace(s, " ", "+", 1))
	if !ok {
		return 0, fmt.Errorf("%.60q is none", s)
	}
	return clamp(t), nil
}

func clamp(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return min(max(ms, 0), telemetry.MaxMillis)
}
