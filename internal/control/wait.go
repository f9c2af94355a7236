package control

import (
	"context"
	"errors"
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

// contend calls try until it does not fail with ErrExists or ErrChanged: another process was faster, or a read lagged.
func contend(ctx context.Context, try func() error) error {
	for pauses := lagging.Begin(); ; {
		err := try()
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged) {
			return err
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// put creates a document that has no ETag, and replaces any other.
func put(ctx context.Context, docs Documents, d Document) (etag string, err error) {
	if d.ETag == "" {
		return docs.Create(ctx, d)
	}
	return docs.Replace(ctx, d)
}
