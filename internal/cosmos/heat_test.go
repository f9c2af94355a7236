package cosmos_test

import (
	"sync"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

func TestHeatOnTheEmulator(t *testing.T) {
	clock := &simulation{now: time.Unix(1_795_176_000, 0)}
	_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now}, nil)
	docs := c.Heat()
	read := func(key string, from, to int64) (found []int64) {
		_, err := docs.ReadHeat(t.Context(), store.HeatQuery{Key: key, From: from, To: to}, func(doc []byte) error {
			f, err := heat.DecodeFrame(doc)
			found = append(found, f.From)
			return err
		})
		require.NoError(t, err)
		return found
	}
	for _, minute := range []int64{3, 1, 2} {
		body, err := heat.Frame{Layer: heat.Minutes, From: minute * heat.Minute, To: (minute + 1) * heat.Minute}.Encode()
		require.NoError(t, err)
		d := store.HeatDocument{Key: "minute", ID: string(rune('a' + minute)), TTL: time.Hour, Body: body}
		_, err = docs.CreateHeat(t.Context(), d)
		require.NoError(t, err)
		_, err = docs.CreateHeat(t.Context(), d)
		require.ErrorIs(t, err, store.ErrExists)
	}
	require.Equal(t, []int64{heat.Minute, 2 * heat.Minute, 3 * heat.Minute}, read("minute", 0, heat.Hour))
	require.Equal(t, []int64{2 * heat.Minute}, read("minute", 2*heat.Minute, 3*heat.Minute))
	require.Empty(t, read("hour", 0, heat.Hour))
	require.NoError(t, clock.Sleep(t.Context(), 2*time.Hour))
	require.Empty(t, read("minute", 0, heat.Hour), "they have expired")

	require.NoError(t, c.Containers().Delete(t.Context(), store.HeatContainer))
	_, err := docs.CreateHeat(t.Context(), store.HeatDocument{Key: "minute", ID: "z", TTL: time.Hour, Body: []byte(`{"a":1}`)})
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, err = docs.ReadHeat(t.Context(), store.HeatQuery{Key: "minute", To: 1}, nil)
	require.ErrorIs(t, err, store.ErrNoContainer)
}

// countedHeat collects what a client counts.
type countedHeat struct {
	mu  sync.Mutex
	all []heat.Charge
}

func (c *countedHeat) Count(what heat.Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, what)
}

// take returns what was counted since the last time.
func (c *countedHeat) take() (out []heat.Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, c.all = c.all, nil
	return out
}

// Each request about a tenant is counted under its first-level key, by what it was for; none about heat itself.
func TestChargesAreCountedByKeyAndKind(t *testing.T) {
	clock := &simulation{now: time.Unix(1_795_176_000, 0)}
	today := telemetry.DayOf(clock.now.UnixMilli())
	var counted countedHeat
	_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now},
		func(cfg *cosmos.Config) { cfg.Heat = &counted })
	const chunks, rollups = "chunks-2026-11", "rollups-2026-11"
	for _, name := range []string{chunks, rollups} {
		require.NoError(t, c.Containers().Create(t.Context(), name, small))
	}
	require.Empty(t, counted.take(), "containers are nobody's")
	key := sharding.Key{Container: chunks, TenantShard: "acme~cg", Device: "m1"}
	id := func(day telemetry.Day) string { return chunk.ID{Day: day, Stream: 1, Partition: 1}.String() }
	doc := []byte(`{"id":"ID","tenantShard":"acme~cg","device":"m1","from":1,"to":2}`)
	named := func(id string) []byte { return append([]byte(`{"id":"`+id+`"`), doc[len(`{"id":"ID"`):]...) }
	is := func(what heat.Charge, kind heat.Kind, device string, bytes int) {
		t.Helper()
		require.Positive(t, what.RUs)
		what.RUs = 0
		require.Equal(t, heat.Charge{Container: chunks, Shard: "acme~cg", Kind: kind, Device: device, Bytes: bytes}, what)
	}
	_, err := c.Chunks().Create(t.Context(), key, id(today), named(id(today)))
	require.NoError(t, err)
	is(counted.take()[0], heat.ChunkWrites, "m1", len(named(id(today))))
	_, err = c.Chunks().Create(t.Context(), key, id(today), named(id(today)))
	require.Error(t, err)
	is(counted.take()[0], heat.ChunkWrites, "m1", 0)
	_, err = c.Chunks().Create(t.Context(), key, id(today-3), named(id(today-3)))
	require.NoError(t, err)
	is(counted.take()[0], heat.Backfills, "m1", len(named(id(today-3))))
	_, _, err = c.Chunks().Last(t.Context(), key, store.Chain{Day: today, Stream: 1, Partition: 1})
	require.NoError(t, err)
	is(counted.take()[0], heat.LookUps, "m1", 0)
	_, _, err = c.Chunks().Read(t.Context(), key, id(today), "")
	require.NoError(t, err)
	is(counted.take()[0], heat.LookUps, "m1", 0)
	for device, asked := range map[string]string{"m1": "m1", "": ""} {
		scan := store.Scan{Key: sharding.Key{Container: chunks, TenantShard: "acme~cg", Device: asked},
			Range: telemetry.Range{From: 0, To: 9}}
		_, err = c.Chunks().Scan(t.Context(), scan, func([]byte) error { return nil })
		require.NoError(t, err)
		is(counted.take()[0], heat.ChunkReads, device, 0)
	}

	rollup := store.RollupKey{Container: rollups, TenantShard: "acme~cg", Name: "manifest"}
	body := []byte(`{"id":"r","tenantShard":"acme~cg","rollup":"manifest"}`)
	_, err = c.Rollups().CreateRollup(t.Context(), rollup, "r", body)
	require.NoError(t, err)
	got := counted.take()[0]
	require.Equal(t, [3]any{heat.RollupWrites, rollups, len(body)}, [3]any{got.Kind, got.Container, got.Bytes})
	_, _, _, err = c.Rollups().ReadRollup(t.Context(), rollup, "r")
	require.NoError(t, err)
	require.Equal(t, heat.RollupReads, counted.take()[0].Kind)

	require.NoError(t, c.Catalog().Create(t.Context(), "acme", "p", []byte(`{"v":1}`)))
	got = counted.take()[0]
	require.Equal(t, [3]any{heat.Catalog, "acme", "catalog"}, [3]any{got.Kind, heat.Key{Shard: got.Shard}.Tenant(),
		got.Container})
	_, err = c.Heat().CreateHeat(t.Context(), store.HeatDocument{Key: "minute", ID: "z", TTL: time.Hour,
		Body: []byte(`{"from":1}`)})
	require.NoError(t, err)
	require.Empty(t, counted.take(), "heat does not count itself")
}
