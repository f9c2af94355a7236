package cosmos_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/charges"
	"binnacle/internal/charges/purpose"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/emulator/fault"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// chunkID returns the id of a chunk of a day.
func chunkID(day telemetry.Day) string { return chunk.ID{Day: day, Stream: 1, Partition: 1}.String() }

// plainChunk returns a document of a key's chunk.
func plainChunk(key sharding.Key, day telemetry.Day) []byte {
	return fmt.Appendf(nil, `{"id":%q,"tenantShard":%q,"device":%q,"from":1,"to":2}`, chunkID(day), key.TenantShard, key.Device)
}

// Every request unit that the account charges is counted once, whatever the request was for and however it ended:
// containers, ranges, chunks, documents that exist or do not, scans, settings.
func TestEveryChargeIsCounted(t *testing.T) {
	clock := &simulation{now: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)}
	counter := charges.NewCounter("test")
	server, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now},
		func(cfg *cosmos.Config) { cfg.Charges, cfg.Sleep = counter, clock.Sleep })
	const container = "chunks-2026-11"
	require.NoError(t, c.Containers().Create(t.Context(), container, small))
	seed := rand.Uint64()
	t.Log("seed", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	key := func(n int) sharding.Key {
		return sharding.Key{Container: container, TenantShard: fmt.Sprint("acme~", n), Device: "truck"}
	}
	november := charges.Month{Year: 2026, Month: time.November}
	total := func() float64 {
		all, known, err := c.Charged(t.Context(), november)
		require.NoError(t, err)
		require.True(t, known)
		return all.All
	}
	require.NoError(t, server.Faults().Replace(1, fault.Rule{Probability: 0.1, Status: 429, Substatus: 3200},
		fault.Rule{Probability: 0.1, Status: 503}))
	today := telemetry.DayOf(clock.Now().UnixMilli())
	body := []byte(`{"from":1}`)
	calls := []func(ctx context.Context, n int) error{
		func(ctx context.Context, n int) error {
			_, err := c.Containers().ReadThroughput(ctx, []string{container, "none", store.HeatContainer}[n%3])
			return err
		},
		func(ctx context.Context, _ int) error { _, err := c.RangesOf(ctx, container); return err },
		func(ctx context.Context, _ int) error { _, err := c.Containers().List(ctx); return err },
		func(ctx context.Context, n int) error {
			_, err := c.Heat().PutHeat(ctx, store.HeatDocument{Key: "k", ID: fmt.Sprint(n), TTL: time.Hour, Body: body})
			return err
		},
		func(ctx context.Context, n int) error {
			_, err := c.Heat().CreateHeat(ctx, store.HeatDocument{Key: "k", ID: fmt.Sprint(n), TTL: time.Hour, Body: body})
			return err
		},
		func(ctx context.Context, _ int) error {
			_, err := c.Heat().ReadHeat(ctx, store.HeatQuery{Key: "k", To: math.MaxInt32}, func([]byte) error { return nil })
			return err
		},
		func(ctx context.Context, n int) error {
			_, err := c.Chunks().Create(ctx, key(n), chunkID(today), plainChunk(key(n), today))
			return err
		},
		func(ctx context.Context, n int) error {
			_, _, err := c.Chunks().Read(ctx, key(n), chunkID(today), "")
			return err
		},
		func(ctx context.Context, n int) error {
			_, err := c.Chunks().DeleteChunk(ctx, key(n), chunkID(today))
			return err
		},
	}
	failed := 0
	for range 400 {
		ctx := t.Context()
		if rng.IntN(2) == 0 {
			ctx = purpose.With(ctx, &purpose.Purpose{Tenant: "acme", Kind: charges.Queries,
				Source: &charges.Source{Query: "up"}})
		}
		if calls[rng.IntN(len(calls))](ctx, rng.IntN(4)) != nil {
			failed++
		}
	}
	require.Greater(t, failed, 20)
	server.Faults().Clear()
	require.InDelta(t, total(), counter.RUs(), 1e-6)
}

// Charges go to whom they are for: the tenant of the key, of a query, or nobody.
func TestPurposes(t *testing.T) {
	clock := &simulation{now: time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)}
	counter := charges.NewCounter("test")
	_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now},
		func(cfg *cosmos.Config) { cfg.Charges, cfg.Sleep = counter, clock.Sleep })
	const container = "chunks-2026-11"
	require.NoError(t, c.Containers().Create(t.Context(), container, small))
	today := telemetry.DayOf(clock.Now().UnixMilli())
	at := sharding.Key{Container: container, TenantShard: "acme~1", Device: "truck"}
	query := func(tenant string) context.Context {
		return purpose.With(t.Context(), &purpose.Purpose{Tenant: tenant, Kind: charges.Queries,
			Source: &charges.Source{Query: "up"}})
	}
	create := func(ctx context.Context, day telemetry.Day) {
		_, err := c.Chunks().Create(ctx, at, chunkID(day), plainChunk(at, day))
		require.NoError(t, err)
	}
	create(t.Context(), today)
	create(t.Context(), today-30)
	create(purpose.With(t.Context(), &purpose.Purpose{Kind: charges.Erase}), today-1)
	_, _, err := c.Chunks().Read(query("acme"), at, chunkID(today), "")
	require.NoError(t, err)
	_, err = c.Containers().List(purpose.With(t.Context(), &purpose.Purpose{Kind: charges.Erase}))
	require.NoError(t, err)
	_, err = c.Heat().ReadHeat(query("globex"), store.HeatQuery{Key: "k"}, func([]byte) error { return nil })
	require.NoError(t, err)

	docs, err := counter.Take(clock.Now(), func(int) float64 { return 0 })
	require.NoError(t, err)
	sum := charges.NewSum()
	for _, d := range docs {
		require.NoError(t, sum.Add(d.Body))
	}
	requests := map[string]int64{}
	for key, a := range sum.Rows {
		if key.Tenant != "" {
			requests[key.Tenant+" "+key.Container+" "+string(key.Kind)] = a.Requests
		}
	}
	require.Equal(t, map[string]int64{
		"acme chunks-2026-11 chunks": 1, "acme chunks-2026-11 backfill": 1, "acme chunks-2026-11 erase": 1,
		"acme chunks-2026-11 queries": 1, "globex heat queries": 1,
	}, requests)
	require.EqualValues(t, len(plainChunk(at, today)), sum.Rows[charges.Key{Tenant: "acme", Container: container,
		Kind: charges.Chunks}].Bytes)
	require.Len(t, sum.Sources["acme"], 1)
	require.Len(t, sum.Sources["globex"], 1)
}
