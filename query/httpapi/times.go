package httpapi

import (
	"time"

	"binnacle/internal/text/duration"
)

func clamp(t time.Time) int64 { return duration.CeilMillis(t) }
