package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// A device that has filled its logical partition, 20 GB on the service and little here, keeps its readings in the head
// and holds the floor; others of its tenant go on, and it costs an attempt now and then. Through the true adapter and
// the emulator.
func TestPartitionKeyFull(t *testing.T) {
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	server, err := emulator.Open(emulator.Config{
		InMemory: true, Unlimited: true, Now: clock, Limits: emulator.Limits{LogicalPartitionBytes: 200 << 10},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport(), Now: clock})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	require.NoError(t, client.Containers().Create(t.Context(), "chunks-2026-11", store.Throughput{RUs: 400}))
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Now: clock})
	_, err = dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	meter := &creates{Writer: client.Chunks()}
	l := ingest.NewLocal(ingest.Config{
		Config: worker.Config{Register: true, Hold: time.Minute, CatalogEvery: 6 * time.Hour}, Now: clock,
		Logger: slog.New(slog.DiscardHandler),
	}, ingest.Stores{
		Chunks: meter, Directory: dir, Catalog: client.Catalog(), Streams: stream.NewStreams(client.Documents()),
		DeadLetters: noDeadLetters{},
	}, worker.Assignment{Stream: 1})
	for i := range 300 {
		for k, device := range []string{"loud", "quiet"} {
			text := "calm"
			if device == "loud" {
				text = fmt.Sprintf("%x", ingesttest.Random(1500, int64(i)))
			}
			value := fmt.Appendf(nil, `{"tenant":"acme","device":%q,"ts":%d,"values":{"t":%q}}`, device, now.UnixMilli(), text)
			require.NoError(t, l.Take(t.Context(), admit.Record{Offset: int64(2*i + k), Time: now.UnixMilli(), Value: value}))
		}
		now = now.Add(time.Second)
		for jobs := l.Due(); len(jobs) > 0; jobs = l.Due() {
			for _, j := range jobs {
				require.NoError(t, l.Try(t.Context(), j))
			}
		}
	}
	full := 0
	l.Stalled(func(f bins.Fault, chains int) {
		if f == bins.KeyFull {
			full = chains
		}
	})
	require.Equal(t, 1, full)
	require.Equal(t, 1, meter.full, "one attempt in five minutes")
	require.GreaterOrEqual(t, meter.stored["quiet"], 4)
	require.Greater(t, meter.stored["loud"], 2)
	require.Less(t, l.Floor(), l.Position())
}

// creates counts what becomes of creates.
type creates struct {
	store.Writer
	full   int
	stored map[string]int
}

// Create implements store.Writer.
func (c *creates) Create(ctx context.Context, key sharding.Key, id string, doc []byte) (store.Receipt, error) {
	r, err := c.Writer.Create(ctx, key, id, doc)
	switch {
	case errors.Is(err, store.ErrKeyFull):
		c.full++
	case err == nil:
		if c.stored == nil {
			c.stored = map[string]int{}
		}
		c.stored[key.Device]++
	}
	return r, err
}
