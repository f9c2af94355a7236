package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// localHeads is a worker alone as store.Heads.
type localHeads struct{ *ingest.Local }

func (l localHeads) Heads(ctx context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{l.HeadRead(r)}, ctx.Err()
}

func (l localHeads) Devices(ctx context.Context, r store.ListRequest) ([]store.HeadDevice, error) {
	return l.Local.Bins().ListDevices(r), ctx.Err()
}

func (l localHeads) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	return l.Local.Bins().CatalogPending(tenant), ctx.Err()
}

// A worker's head keeps the contract of store.Heads.
func TestHeadRead(t *testing.T) {
	storetest.RunHeads(t, func(t *testing.T) storetest.HeadFixture {
		w := newWorld(t, nil)
		w.Chunks.CreateContainer("chunks-2024-10")
		ctx := ingesttest.Deadline(t)
		l := w.worker(func(c *ingest.Config) { c.Topic, c.Hold, c.Past = "telemetry", time.Hour, -1 })
		return storetest.HeadFixture{
			Heads: localHeads{l},
			Take: func(offset int64, readings ...telemetry.Reading) {
				for i, r := range readings {
					rec := admit.Record{Offset: offset + int64(i), Time: r.Time, Value: decode.AppendJSON(nil, r)}
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

// A list of devices makes no rows: what it costs is that of the devices it names, not of what is held.
func TestDeviceListMakesNoRows(t *testing.T) {
	w := newWorld(t, nil)
	l, ctx := w.worker(func(c *ingest.Config) { c.Hold = time.Hour }), ingesttest.Deadline(t)
	const devices, readings = 300, 30
	offset := int64(0)
	for range readings {
		for d := range devices {
			require.NoError(t, l.Take(ctx, one(offset, fmt.Sprintf("d%03d", d))))
			offset++
		}
	}
	request := store.ListRequest{Tenant: "acme", Prefix: "d", Limit: 2}
	held := l.Bins().ListDevices(request)
	require.Len(t, held, 2)
	for _, h := range held {
		require.Contains(t, []string{"d000", "d001"}, h.Device)
	}
	require.Less(t, testing.AllocsPerRun(10, func() { l.Bins().ListDevices(request) }), 60.0)
	many := testing.AllocsPerRun(3, func() { l.Bins().ListDevices(store.ListRequest{Tenant: "acme"}) })
	require.Less(t, many, 12.0*devices, "whatever the readings")
}
