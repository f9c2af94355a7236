package replay

import (
	"time"

	"binnacle/internal/telemetry"
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

// parse returns milliseconds since 1970, rounded down.
func (c *clock) parse(s string) (millis int64, ok bool) {
	if s == "" || len(s) > 64 {
		return 0, false
	}
	if millis, ok := telemetry.ParseEpoch(s); ok {
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
