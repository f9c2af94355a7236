package worker_test

import (
	"testing"
	"time"

	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// A chunk says when its writer cut it, by the writer's own clock, not by that of its records.
func TestChunkRecordsCutTime(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(nil), ingesttest.Deadline(t)
	require.NoError(t, l.Take(ctx, noise(0, "d0")))
	w.now = w.now.Add(17 * time.Second)
	require.NoError(t, l.Step(ctx))
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Take(ctx, noise(1, "d0")))
	last := w.now.Add(23 * time.Second)
	w.now = last
	require.NoError(t, l.Step(ctx))
	h := w.Headers()
	require.Len(t, h, 2)
	require.Equal(t, last.UnixMilli(), max(h[0].Cut, h[1].Cut))
	require.Equal(t, last.Add(-83*time.Second).UnixMilli(), min(h[0].Cut, h[1].Cut))
}
