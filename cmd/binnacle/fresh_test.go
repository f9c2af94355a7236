package main_test

import (
	"context"
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// While readings go from the head to the store, in chunks that are cut all the time, every strict answer has whatever
// was acknowledged before it was asked for, once; and no complete answer lacks what one before it had.
func TestQueriesWhileChunksAreCut(t *testing.T) {
	t.Parallel()
	d := startDev(t, t.TempDir(), "--fleet=0", "--hold=120ms")
	ctx, cancel := context.WithTimeout(context.Background(), *freshFor)
	defer cancel()
	var acknowledged atomic.Int64 // reading n is of instant n; all below this one are acknowledged
	published := make(chan error, 1)
	from := noon()
	go func() {
		w := writer(d.kafka, "telemetry")
		defer w.Close()
		for n := int64(0); ctx.Err() == nil; {
			var messages []kafka.Message
			for range 20 {
				r := row{device: fmt.Sprintf("d%d", n%3), ts: from + n - n%2*40*86_400_000} // of two months
				messages = append(messages, message("acme", r, map[string]any{"n": float64(n)}))
				n++
			}
			if err := w.WriteMessages(context.Background(), messages...); err != nil {
				published <- err
				return
			}
			acknowledged.Store(n)
		}
		published <- nil
	}()
	shown := 0 // by a complete answer
	for asked := 0; ctx.Err() == nil; asked++ {
		query := url.Values{"from": {"0"}, "format": {"ndjson"}, "order": {[]string{"asc", "desc"}[asked%2]}}
		least := shown
		if asked%3 > 0 {
			query.Set("strict", "true")
			least = max(least, int(acknowledged.Load()))
		}
		seen := map[row]bool{}
		d.ask("acme", query.Encode(), func(r row, _ map[string]any) {
			require.False(t, seen[r], "%v is answered twice", r)
			seen[r] = true
		})
		require.GreaterOrEqual(t, len(seen), least, "answer %d, %s", asked, query.Encode())
		shown = len(seen)
	}
	require.NoError(t, <-published)
	require.Greater(t, shown, 100)
}
