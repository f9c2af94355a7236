package app_test

import (
	"context"
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
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// meteredCatalog counts what the catalog costs, apart from all else.
type meteredCatalog struct {
	store.Catalog
	meter *store.Meter
}

func (m meteredCatalog) Create(ctx context.Context, tenant, id string, doc []byte) error {
	return m.Catalog.Create(store.WithMeter(ctx, m.meter), tenant, id, doc)
}

func (m meteredCatalog) Pages(ctx context.Context, tenant string, since int64) ([]store.PageInfo, error) {
	return m.Catalog.Pages(store.WithMeter(ctx, m.meter), tenant, since)
}

func (m meteredCatalog) Read(ctx context.Context, tenant string, ids []string,
	yield func(id string, doc []byte) error) error {
	return m.Catalog.Read(store.WithMeter(ctx, m.meter), tenant, ids, yield)
}

// A fleet that only goes on reporting costs the catalog at most 0.02 RU a device and day, by the emulator's charges.
func TestCatalogCostOfSteadyFleet(t *testing.T) {
	now := time.Date(2026, 11, 2, 5, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, Now: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport(), Now: clock})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	knowStream(t, client.Documents())
	require.NoError(t, client.Containers().Create(t.Context(),
		sharding.Container("", sharding.Month.Of(telemetry.DayOf(now.UnixMilli()))),
		store.Throughput{RUs: 400}))
	dir := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Now: clock})
	_, err = dir.Register(t.Context(), "acme")
	require.NoError(t, err)
	of := meteredCatalog{client.Catalog(), &store.Meter{}}
	l := ingest.NewLocal(ingest.Config{Config: worker.Config{Register: true, Hold: 12 * time.Hour}, Now: clock,
		Logger: slog.New(slog.DiscardHandler)},
		ingest.Stores{Chunks: client.Chunks(), Directory: dir, Catalog: of, Streams: stream.NewStreams(client.Documents()),
			DeadLetters: noDeadLetters{}}, worker.Assignment{Stream: 1})
	const n, days = 1000, 3
	offset, before := int64(0), 0.0
	for day := range days {
		for range 6 { // every four hours, one device after the other
			for i := range n {
				value := fmt.Appendf(nil, `{"tenant":"acme","device":"truck-%06d","ts":%d,"values":{"velocity":62.5}}`, i,
					now.UnixMilli())
				require.NoError(t, l.Take(t.Context(), admit.Record{Offset: offset, Time: now.UnixMilli(), Value: value}))
				offset++
				now = now.Add(4 * time.Hour / n)
				if i%4 == 3 {
					require.NoError(t, l.Step(t.Context()))
				}
			}
		}
		spent := of.meter.Read().RUs
		t.Logf("day %d: %.4f RU a device", day, (spent-before)/n)
		if day > 0 { // on the first one all are new
			require.Less(t, (spent-before)/n, 0.02, "day %d", day)
		}
		before = spent
	}
}
