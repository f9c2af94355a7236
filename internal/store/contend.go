package store

import (
	"context"
	"errors"
	"time"

	"binnacle/internal/retry"
)

// Lagging are the pauses between two looks at a replica that lags behind, or at a document that others change too.
var Lagging = retry.Policy{First: 5 * time.Millisecond, Max: time.Second}

// Contend calls try until it does not fail with ErrExists or ErrChanged: another process was faster, or a read lagged.
func Contend(ctx context.Context, try func() error) error {
	for pauses := Lagging.Begin(); ; {
		err := try()
		if !errors.Is(err, ErrExists) && !errors.Is(err, ErrChanged) {
			return err
		}
		if err := pauses.Wait(ctx); err != nil {
			return err
		}
	}
}

// Put creates a document that has no ETag, and replaces any other.
func Put(ctx context.Context, docs Documents, d Document) (etag string, err error) {
	if d.ETag == "" {
		return docs.Create(ctx, d)
	}
	return docs.Replace(ctx, d)
}
