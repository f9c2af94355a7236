package cosmos_test

import (
	"testing"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// In a database with throughput, the base containers share it; others share it or have their own, as they are made.
func TestSharedThroughput(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true})
	require.NoError(t, err)
	c, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, server.Close())
	})
	ctx, containers := t.Context(), c.Containers()
	for range 2 {
		require.NoError(t, c.EnsureShared(ctx, store.Throughput{RUs: 400}))
		require.NoError(t, c.EnsureBase(ctx))
		require.NoError(t, containers.Create(ctx, "chunks-2026", store.Throughput{Shared: true}))
		require.NoError(t, containers.Create(ctx, "chunks-2026-11", store.Throughput{RUs: 1000}))
	}
	require.NoError(t, containers.SetThroughput(ctx, store.Database, store.Throughput{RUs: 600}))
	for name, want := range map[string]store.Throughput{store.Database: {RUs: 600}, "control": {Shared: true},
		"chunks-2026": {Shared: true}, "chunks-2026-11": {RUs: 1000}} {
		state, err := containers.ReadThroughput(ctx, name)
		require.NoError(t, err)
		require.Equal(t, want, state.Throughput, name)
	}
	_, err = containers.ReadThroughput(ctx, "chunks-2027")
	require.ErrorIs(t, err, store.ErrNoContainer)
}

// In a serverless account all containers are made without throughput, whatever is asked for, and say so.
func TestServerless(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Capacity: "serverless"})
	require.NoError(t, err)
	c, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, server.Close())
	})
	ctx, containers := t.Context(), c.Containers()
	for range 2 {
		require.NoError(t, c.EnsureShared(ctx, store.Throughput{RUs: 400}))
		require.NoError(t, c.EnsureBase(ctx))
		require.NoError(t, containers.Create(ctx, "chunks-2026", store.Throughput{Serverless: true}))
		require.NoError(t, containers.Create(ctx, "rollups-2026", store.Throughput{RUs: 1000, Autoscale: true}))
	}
	for _, name := range []string{"control", "catalog", "heat", "chunks-2026", "rollups-2026"} {
		state, err := containers.ReadThroughput(ctx, name)
		require.NoError(t, err)
		require.Equal(t, store.Throughput{Serverless: true}, state.Throughput, name)
	}
	_, err = containers.ReadThroughput(ctx, store.Database)
	require.ErrorIs(t, err, store.ErrNoContainer)
	_, err = containers.ReadThroughput(ctx, "chunks-2027")
	require.ErrorIs(t, err, store.ErrNoContainer)
	require.ErrorIs(t, containers.SetThroughput(ctx, "chunks-2026", store.Throughput{RUs: 400}), store.ErrServerless)
	require.NoError(t, server.BecomeProvisioned())
	state, err := containers.ReadThroughput(ctx, "chunks-2026")
	require.NoError(t, err)
	require.Equal(t, store.Throughput{RUs: 5000}, state.Throughput)
}
