package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"
	"unsafe"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"

	"github.com/stretchr/testify/require"
)

// A producer with a clock that is a day ahead stamps its records so: what it sends is a dead letter, and nobody waits
// for it. A map that is not fresh is read once more before that.
func TestFutureTimesFromClockAhead(t *testing.T) {
	message := func(at int64) []byte {
		return fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, at)
	}
	tomorrow := int64(start + 86_400_000)
	w := newWorld(t, []admit.Record{
		{Offset: 0, Time: tomorrow, Value: message(tomorrow)},
		{Offset: 1, Time: start, Value: message(start)},
		{Offset: 2, Time: -1, Value: message(tomorrow + 1)},
		{Offset: 3, Time: start, Value: message(start + 1)},
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	l := w.worker(nil)
	w.now = w.now.Add(10 * time.Minute)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.NoError(t, l.Finish(ctx))
	require.Len(t, w.Stored(), 2)
	require.Len(t, w.deadLetters, 2)
	for i, deadLetter := range w.deadLetters {
		require.Equal(t, decode.Future, deadLetter.Bad.Reason)
		require.EqualValues(t, 2*i, deadLetter.Record.Offset)
	}
}

// ahead moves the monotonic clock of a time, and not the wall clock: time.Now looks at one after the other, and its
// thread may be preempted in between.
func ahead(at time.Time, by time.Duration) time.Time {
	inside := (*struct {
		wall      uint64
		monotonic int64
		location  *time.Location
	})(unsafe.Pointer(&at))
	inside.monotonic += int64(by)
	return at
}

// Rows linger by the clock by which the worker wakes for them: else it would wake for rows that stay, without end.
func TestRowsLingerByTheWallClock(t *testing.T) {
	begun := time.Now()
	w := newWorld(t, []admit.Record{{Time: start,
		Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":1}}`, start)}})
	w.now = ahead(begun, 10*time.Millisecond)
	require.NotEqual(t, w.now.Sub(begun), w.now.Round(0).Sub(begun), "the clocks are apart")
	l := w.worker(func(c *ingest.Config) { c.Linger = time.Minute })
	require.NoError(t, l.Take(t.Context(), w.log[0]))
	require.NoError(t, l.Finish(t.Context()))
	require.Len(t, w.Stored(), 1)
	require.Equal(t, 1, rowsOf(l))
	w.now = begun.Add(time.Minute)
	require.NoError(t, l.Step(t.Context()))
	require.Zero(t, rowsOf(l))
}
