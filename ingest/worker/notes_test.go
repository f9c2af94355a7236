package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/control/controltest"

	"github.com/stretchr/testify/require"
)

// The catalog is written when something is new, and then as seldom as it was asked for: a device that goes on reporting the
// same metrics must not cost a write each time.
func TestTheCatalogIsWrittenSeldom(t *testing.T) {
	for _, v := range []struct {
		name  string
		every time.Duration
		most  int
	}{
		{"with every chunk", -1, 1 + 60/10 + 1}, // what is new, the chunks of a minute at a hold of ten seconds, the end
		{"every half a minute", 30 * time.Second, 1 + 60/30 + 1},
		{"every hour", time.Hour, 1 + 1},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := newWorld(t, nil)
			for i := range 60 {
				at := int64(start + i*1000)
				value := fmt.Sprintf(`{"tenant":"acme","device":"d0","ts":%d,"values":{"a":%d}}`, at, i)
				w.log = append(w.log, worker.Record{Offset: int64(i), Time: at, Value: []byte(value)})
			}
			writes := 0
			w.Catalog.Fault = func(op, _, _ string) *controltest.Fault {
				if op == controltest.OpWrite {
					writes++
				}
				return nil
			}
			ctx := context.Background()
			l := w.worker(func(c *ingest.Config) { c.NoteEvery, c.CommitEvery = v.every, time.Second })
			for _, r := range w.log {
				require.NoError(t, l.Take(ctx, r))
				w.now = w.now.Add(time.Second)
				require.NoError(t, l.Step(ctx))
			}
			require.NoError(t, l.Finish(ctx))
			require.LessOrEqual(t, writes, v.most)
			require.Greater(t, writes, 0)
			d, ok, err := w.Catalog.Read(ctx, "acme", "d0")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, [2]int64{start, start + 59_000}, [2]int64{d.First, d.Last}, "in the end first and last are exact")
		})
	}
}
