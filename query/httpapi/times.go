package httpapi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/duration"
	"binnacle/internal/telemetry"
)

// parseInstant reads RFC 3339, ms since 1970, now, or a duration before now. The answer is in ms since 1970, rounded up
// and held within the times that readings can have.
func parseInstant(s string, now time.Time) (int64, error) {
	if s == "now" {
		return clamp(now), nil
	}
	if ago, ok := strings.CutPrefix(s, "-"); ok {
		d, err := duration.Parse(ago)
		if d < 0 || err != nil && !errors.Is(err, duration.ErrTooLong) {
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
