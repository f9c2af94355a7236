package store

import (
	"context"
	"sync/atomic"
	"time"
)

type persistenceKey struct{}

// Persistence is how long requests of a context are sent again while the store fails for the moment, and how it has
// failed last. It is safe for any number of callers.
type Persistence struct {
	For time.Duration

	failing atomic.Pointer[FailingError]
}

// WithPersistence returns a context: its requests are sent again for so long while the store fails for the moment.
// While the store throttles them other bounds hold.
func WithPersistence(ctx context.Context, d time.Duration) context.Context {
	return context.WithValue(ctx, persistenceKey{}, &Persistence{For: d})
}

// PersistenceOf returns what a context says of sending requests again, nil for nothing.
func PersistenceOf(ctx context.Context) *Persistence {
	p, _ := ctx.Value(persistenceKey{}).(*Persistence)
	return p
}

// Note notes how a request has failed at last, nil that it was served.
func (p *Persistence) Note(failing *FailingError) {
	if p != nil {
		p.failing.Store(failing)
	}
}

// Failing returns how the request that ended last has failed, nil where it was served.
func (p *Persistence) Failing() *FailingError {
	if p == nil {
		return nil
	}
	return p.failing.Load()
}
