package app_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/stream"

	"github.com/stretchr/testify/require"
)

// What a takeover costs in the catalog, with the true adapter and the emulator's charges: its pages are read once, and
// nothing is written that is not new.
func TestTakeoverCostInCatalog(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(),
		Now: func() time.Time { return now }})
	_, err = dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	const n = 1000
	var perDevice []float64
	for life := range 3 {
		cfg := ingest.Config{
			Config: worker.Config{Register: true, Hold: time.Hour},
			Now:    func() time.Time { return now }, Logger: slog.New(slog.DiscardHandler),
		}
		stores := ingest.Stores{
			Chunks: client.Chunks(), Directory: dir, Catalog: client.Catalog(), Streams: stream.NewStreams(client.Documents()),
			DeadLetters: noDeadLetters{},
		}
		l := ingest.NewLocal(cfg, stores, worker.Assignment{Stream: 1, Position: int64(life * n)})
		for i := range n {
			value := fmt.Appendf(nil, `{"tenant":"acme","device":"truck-%06d","ts":%d,"values":{"velocity":62.5,"fuel":0.7,"rpm":1800},"tags":{"fleet":"East"}}`,
				i, now.UnixMilli())
			require.NoError(t, l.Take(t.Context(), admit.Record{Offset: int64(life*n + i), Time: now.UnixMilli(),
				Value: value}))
		}
		now = now.Add(2 * time.Second) // a reader sees what others have committed
		_, err = dir.Refresh(t.Context())
		require.NoError(t, err) // as the loop of a Directory does every two seconds
		meter := &store.Meter{}
		require.NoError(t, l.Step(store.WithMeter(t.Context(), meter)))
		perDevice = append(perDevice, meter.Read().RUs/n)
		now = now.Add(time.Minute)
	}
	t.Logf("RU a device: new %.4f, taken over %.4f and %.4f", perDevice[0], perDevice[1], perDevice[2])
	require.Greater(t, perDevice[0], 0.006, "a device that is new is written")
	require.Less(t, perDevice[0], 0.05)
	require.Less(t, perDevice[1], 0.02)
	require.Less(t, perDevice[2], 0.02)
}

type noDeadLetters struct{ ingest.DeadLetterWriter }
