package store

import (
	"context"
	"time"
)

type persistenceKey struct{}

// WithPersistence returns a context: its requests are sent again for so long while the store fails for the moment.
// While the store throttles them other bounds hold.
func WithPersistence(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, persistenceKey{}, d)
}

// PersistenceOf returns how long requests of the context are sent again, and whether the context says so.
func PersistenceOf(ctx context.Context) (time.Duration, bool) {
	d, ok := ctx.Value(persistenceKey{}).(time.Duration)
	return d, ok
}
