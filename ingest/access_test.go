package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// A process with revoked credentials ends with an error; one that was refused for a moment goes on.
func TestDeniedAccessEndsTheIngester(t *testing.T) {
	r := newRig(t, 1)
	denied := func(storetest.Op) *storetest.Fault {
		return &storetest.Fault{Err: fmt.Errorf("cosmos answered 401: %w", store.ErrDenied)}
	}
	r.Chunks.Fault = denied
	r.publish(0, r.message("d0", past, 1))
	in := r.ingester(func(c *ingest.Config, _ *ingest.Stores) { c.DeniedFor = 100 * time.Millisecond })
	done := make(chan error, 1)
	go func() { done <- in.Run(context.Background()) }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, ingest.ErrDenied)
		require.ErrorContains(t, err, "401")
	case <-time.After(time.Minute):
		require.Fail(t, "it goes on for ever")
	}
	require.Zero(t, max(0, r.committed(0)))

	n := 0
	r.Chunks.Fault = func(op storetest.Op) *storetest.Fault {
		if n++; n < 5 {
			return denied(op)
		}
		return nil
	}
	stop := r.run(r.ingester(nil))
	r.settled()
	stop()
	r.whole()
}
