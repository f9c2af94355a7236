package control

import (
	"context"
	"time"

	"binnacle/internal/retry"
)

// semaphore lets one caller in at a time; unlike a mutex it gives up when a context ends.
type semaphore chan struct{}

func newSemaphore() semaphore { return make(semaphore, 1) }

func (s semaphore) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// lagging are the pauses between two looks at a replica that lags behind, or at a document that others change too.
var lagging = retry.Policy{First: 5 * time.Millisecond, Max: time.Second}
