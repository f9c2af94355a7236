package worker_test

import (
	"context"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// localHeads is a worker alone as store.Heads.
type localHeads struct{ *ingest.Local }

func (l localHeads) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{l.Snapshot(r)}, ctx.Err()
}

func (l localHeads) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return l.Local.Devices(r), ctx.Err()
}

// A worker's head keeps the contract of store.Heads.
func TestHeadsOfAWorker(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		w := newWorld(t, nil)
		w.Chunks.CreateContainer("chunks-2024-10")
		ctx := ingesttest.Soon(t)
		l := w.worker(func(c *ingest.Config) { c.Topic, c.Hold, c.Past = "telemetry", time.Hour, -1 })
		return storetest.HeadFixture{
			Heads: localHeads{l},
			Take: func(offset int64, readings ...telemetry.Reading) {
				for i, r := range readings {
					rec := worker.Record{Offset: offset + int64(i), Time: r.Time, Value: decode.AppendJSON(nil, r)}
					require.NoError(t, l.Take(ctx, rec))
				}
			},
			Store: func() {
				require.NoError(t, l.Finish(ctx))
				w.now = w.now.Add(time.Minute) // what lingers goes
				require.NoError(t, l.Step(ctx))
			},
			Documents: func() (docs [][]byte) {
				for _, d := range w.Chunks.Documents() {
					docs = append(docs, d.Doc)
				}
				return docs
			},
		}
	})
}
