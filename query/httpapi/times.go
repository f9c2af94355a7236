package httpapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/telemetry"
)

// parseInstant reads RFC 3339, ms since 1970, now, or a duration before now. The answer is in ms since 1970, rounded up
// and held within the times that readings can have.
func parseInstant(s string, now time.Time) (int64, error) {
	if s == "now" {
		return clamp(now), nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		d, err := parseDuration(ago)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q is no duration", ago)
		}
		return clamp(now.Add(-d)), nil
	}
	if isDigits(s) {
		n, err := strconv.ParseInt(s, 10, 64)
		return min(n, telemetry.MaxMillis), err
	}
	// In a URL an unescaped + is a space; nothing else can be meant by one.
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "+", 1))
	if err != nil {
		return 0, err
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

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// parseDuration reads Go's durations, with d for 24 hours before the other units.
func parseDuration(s string) (time.Duration, error) {
	days, rest, ok := strings.Cut(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || strings.Trim(days, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no number of days", days)
	}
	d := time.Duration(min(n*24*float64(time.Hour), math.MaxInt64/4)) // 73 years: before the first event time
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || strings.HasPrefix(rest, "+") {
		return 0, fmt.Errorf("%q is no duration", rest)
	}
	return d + min(more, math.MaxInt64/4), nil
}
