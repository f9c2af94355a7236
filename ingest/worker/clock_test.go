package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

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
