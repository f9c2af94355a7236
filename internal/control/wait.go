package control

import (
	"context"
	"time"
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

// The waits between two looks at a replica that lags behind, or at a document that others change too.
const (
	firstWait = 5 * time.Millisecond
	maxWait   = time.Second
)

// newBackoff answers a function that waits a little longer each time, and fails when ctx ends.
func newBackoff() func(ctx context.Context) error {
	wait := firstWait
	return func(ctx context.Context) error {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		wait = min(2*wait, maxWait)
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
