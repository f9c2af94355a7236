package worker_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// What a value takes in documents, whatever the width of the device: a hold of a few readings, and one that fills
// documents. The values are noise of one byte each.
func TestBytesPerValueOfWideDevices(t *testing.T) {
	for _, v := range []struct {
		metrics, readings int
		bound             float64 // bytes per value
		chunks            int     // at most
	}{
		{1, 5, 80, 1}, {1, 2000, 1.7, 1},
		{10, 5, 28, 1}, {10, 2000, 1.6, 2},
		{100, 5, 6.5, 1}, {100, 300, 1.7, 2},
		{400, 5, 6, 1}, {400, 150, 1.8, 2},
		{1000, 5, 5.6, 1}, {1000, 120, 1.7, 2},
		{5000, 3, 8.3, 1}, {5000, 40, 2, 2},
	} {
		t.Run(fmt.Sprintf("%d metrics %d readings", v.metrics, v.readings), func(t *testing.T) {
			w := newWorld(t, nil)
			l, ctx := w.worker(nil), ingesttest.Deadline(t)
			r := rand.New(rand.NewPCG(5, uint64(v.metrics)))
			for i := range int64(v.readings) {
				message := fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{`, start+i*10)
				for m := range v.metrics {
					if m > 0 {
						message = append(message, ',')
					}
					message = fmt.Appendf(message, `"sensor_value_%05d":%d.%d`, m, m+r.IntN(25), r.IntN(10))
				}
				require.NoError(t, l.Take(ctx, admit.Record{Offset: i, Time: start, Value: append(message, '}', '}')}))
				w.now = w.now.Add(time.Millisecond)
			}
			require.NoError(t, l.Finish(ctx))
			total := 0
			docs := w.Chunks.Documents()
			for _, d := range docs {
				total += len(d.Doc)
			}
			each := float64(total) / float64(v.metrics*v.readings)
			t.Logf("%d chunks of %d KB, %.2f B per value", len(docs), total/len(docs)>>10, each)
			require.LessOrEqual(t, len(docs), v.chunks)
			require.LessOrEqual(t, each, v.bound)
		})
	}
}
