package cosmos_test

import (
	"fmt"
	"strings"
	"testing"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"

	"github.com/stretchr/testify/require"
)

// BenchmarkCreate writes documents of 32 KB through azcosmos and the in-memory transport into the
// emulator, which keeps them in memory.
func BenchmarkCreate(b *testing.B) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Close()) }()
	c, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(b, err)
	defer c.Close()
	require.NoError(b, c.EnsureBase(b.Context()))
	require.NoError(b, c.Containers().Create(b.Context(), key.Container, small))
	payload := strings.Repeat("x", 32<<10)
	var rus float64
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("20261120.1.00003.%06d", i)
		receipt, err := c.Chunks().Create(b.Context(), key, id, fmt.Appendf(nil,
			`{"id":%q,"tenantShard":"acme~4r","device":"m1","from":1,"to":2,"data":%q}`, id, payload))
		require.NoError(b, err)
		rus += receipt.RUs
	}
	b.ReportMetric(rus/float64(b.N), "RU/op")
	b.ReportAllocs()
}
