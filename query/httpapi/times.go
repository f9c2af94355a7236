package httpapi

import (
	"time"

	"binnacle/internal/duration"
)

func clamp(t time.Time) int64 { return duration.CeilMillis(t) }
