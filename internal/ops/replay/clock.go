package replay

import (
	"strings"

	"binnacle/internal/telemetry"
)

// parseTime returns the milliseconds since 1970, rounded down, that a cell of a table names: a number, RFC 3339, or
// what timestampOf makes RFC 3339 of.
func parseTime(s string) (millis int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if millis, ok := telemetry.ParseEpoch(s); ok {
		return millis, true
	}
	t, ok := telemetry.ParseRFC3339(s)
	if !ok {
		t, ok = telemetry.ParseRFC3339(timestampOf(s))
	}
	return t.UnixMilli(), ok
}

// timestampOf returns a time in RFC 3339 where a text has a blank between date and time, no time, no seconds, a decimal
// comma, no zone, which is UTC, a blank before the zone, or no colon in it.
func timestampOf(s string) string {
	const date = len("2006-01-02")
	if len(s) <= date {
		return s + "T00:00:00Z"
	}
	clock, zone := s[date+1:], "Z"
	if s[date] != ' ' && s[date] != 'T' && s[date] != 't' {
		return ""
	}
	if i := strings.IndexAny(clock, "Zz+-"); i >= 0 {
		clock, zone = strings.TrimSuffix(clock[:i], " "), clock[i:]
	}
	if len(clock) == len("15:04") {
		clock += ":00"
	}
	if len(zone) == len("+0100") {
		zone = zone[:3] + ":" + zone[3:]
	}
	return s[:date] + "T" + strings.Replace(clock, ",", ".", 1) + zone
}
