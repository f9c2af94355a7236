package controltest_test

import (
	"testing"

	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"

	"github.com/stretchr/testify/require"
)

// emulator opens an emulator in memory and a client of it.
func openEmulator(t *testing.T) *cosmos.Client {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, PhysicalPartitions: 3})
	require.NoError(t, err)
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close())
	})
	require.NoError(t, client.EnsureBase(t.Context()))
	return client
}

func TestDocumentsInMemory(t *testing.T) {
	runDocuments(t, func(t *testing.T) control.Documents { return controltest.NewDocuments(t) })
}

func TestDocumentsOnTheEmulator(t *testing.T) {
	runDocuments(t, func(t *testing.T) control.Documents { return openEmulator(t).Documents() })
}

func TestCatalogInMemory(t *testing.T) {
	runCatalog(t, func(t *testing.T) control.Catalog { return controltest.NewCatalog(t) })
}

func TestCatalogOnTheEmulator(t *testing.T) {
	runCatalog(t, func(t *testing.T) control.Catalog { return openEmulator(t).Catalog() })
}

func TestFeedInMemory(t *testing.T) {
	runFeed(t, func(t *testing.T) (control.Documents, control.Feed) {
		docs := controltest.NewDocuments(t)
		return docs, docs
	})
}

func TestFeedOnTheEmulator(t *testing.T) {
	runFeed(t, func(t *testing.T) (control.Documents, control.Feed) {
		c := openEmulator(t)
		return c.Documents(), c.Feed()
	})
}
