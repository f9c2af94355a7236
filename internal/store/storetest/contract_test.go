package storetest_test

import (
	"sync/atomic"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// clock is a store's clock, which stands still but for Wait.
type clock struct{ now atomic.Pointer[time.Time] }

func newClock() *clock {
	c := &clock{}
	start := time.Unix(1_795_176_000, 0)
	c.now.Store(&start)
	return c
}

func (c *clock) Now() time.Time { return *c.now.Load() }

func (c *clock) Wait(d time.Duration) {
	now := c.Now().Add(d)
	c.now.Store(&now)
}

// emulator opens an emulator in memory and a client of it, and returns the client and how to make a container.
func openEmulator(t *testing.T, now func() time.Time) (c *cosmos.Client, create func(name string)) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, PhysicalPartitions: 3, Now: now,
		Limits: emulator.Limits{LogicalPartitionBytes: storetest.KeyBytes}})
	require.NoError(t, err)
	c, err = cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport(), Now: now})
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		require.NoError(t, server.Close())
	})
	require.NoError(t, c.EnsureBase(t.Context()))
	return c, func(name string) {
		require.NoError(t, c.Containers().Create(t.Context(), name, store.Throughput{RUs: 400}))
	}
}

func TestChunksInMemory(t *testing.T) {
	runChunks(t, func(t *testing.T) fixture {
		m, at := storetest.NewMemory(t), newClock()
		m.Now = at.Now
		return fixture{Writer: m, Reader: m, Headers: m, CreateContainer: m.CreateContainer,
			DeleteContainer: m.DeleteContainer, Wait: at.Wait}
	})
}

func TestChunksOnTheEmulator(t *testing.T) {
	runChunks(t, func(t *testing.T) fixture {
		at := newClock()
		c, create := openEmulator(t, at.Now)
		return fixture{Writer: c.Chunks(), Reader: c.Chunks(), Headers: c.Chunks(), CreateContainer: create,
			DeleteContainer: func(name string) { require.NoError(t, c.Containers().Delete(t.Context(), name)) },
			Wait:            at.Wait}
	})
}

func TestRollupsInMemory(t *testing.T) {
	runRollups(t, func(t *testing.T) rollupFixture {
		v, at := storetest.NewRollups(t), newClock()
		v.Now = at.Now
		return rollupFixture{Rollups: v, CreateContainer: v.CreateContainer, Now: at.Now, Wait: at.Wait}
	})
}

func TestRollupsOnTheEmulator(t *testing.T) {
	runRollups(t, func(t *testing.T) rollupFixture {
		at := newClock()
		c, create := openEmulator(t, at.Now)
		return rollupFixture{Rollups: c.Rollups(), CreateContainer: create, Now: at.Now, Wait: at.Wait}
	})
}

// emulated opens an emulator in memory with the clock of the process, and a client of it.
func emulated(t *testing.T) *cosmos.Client {
	c, _ := openEmulator(t, nil)
	return c
}

func TestDocumentsInMemory(t *testing.T) {
	runDocuments(t, func(t *testing.T) store.Documents { return storetest.NewDocuments(t) })
}

func TestDocumentsOnTheEmulator(t *testing.T) {
	runDocuments(t, func(t *testing.T) store.Documents { return emulated(t).Documents() })
}

func TestCatalogInMemory(t *testing.T) {
	runCatalog(t, func(t *testing.T) store.Catalog { return storetest.NewCatalog(t) })
}

func TestCatalogOnTheEmulator(t *testing.T) {
	runCatalog(t, func(t *testing.T) store.Catalog { return emulated(t).Catalog() })
}

func TestFeedInMemory(t *testing.T) {
	runFeed(t, func(t *testing.T) (store.Documents, store.Feed) {
		docs := storetest.NewDocuments(t)
		return docs, docs
	})
}

func TestFeedOnTheEmulator(t *testing.T) {
	runFeed(t, func(t *testing.T) (store.Documents, store.Feed) {
		c := emulated(t)
		return c.Documents(), c.Feed()
	})
}
