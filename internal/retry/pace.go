package retry

import (
	"context"
	"time"
)

type paceKey struct{}

// WithPace returns a context under which background work that spends request units pauses for as long as pace makes of
// its pauses.
func WithPace(ctx context.Context, pace func(time.Duration) time.Duration) context.Context {
	return context.WithValue(ctx, paceKey{}, pace)
}

// Paced returns the length of a pause of background work under a context: the pause itself without a pace.
func Paced(ctx context.Context, pause time.Duration) time.Duration {
	if pace, ok := ctx.Value(paceKey{}).(func(time.Duration) time.Duration); ok {
		return pace(pause)
	}
	return pause
}
