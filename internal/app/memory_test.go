package app_test

import (
	"testing"

	"binnacle/internal/app"

	"github.com/stretchr/testify/require"
)

// The garbage collector keeps a process below what its settings bound and an eighth, and below nine tenths of its
// container, unless the user has set the limit.
func TestMemoryLimit(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	var cfg app.ServeConfig
	cfg.Ingest.Ingest.MemoryBytes, cfg.Ingest.Ingest.CatalogBytes = 1<<30, 256<<20
	cfg.Query.Query.TotalMemoryBytes, cfg.Query.Query.CacheBytes, cfg.Query.Query.TagsBytes = 512<<20, -1, 192<<20
	cfg.Query.RejectedBytes = 64 << 20
	const limit = (64 + 1024 + 256 + 512 + 192 + 64) << 20 / 8 * 9
	require.EqualValues(t, limit, cfg.MemoryLimit("max\n"))
	require.EqualValues(t, limit, cfg.MemoryLimit(""))
	require.EqualValues(t, 900<<20, cfg.MemoryLimit("1048576000\n"))
	cfg.Rollups.Rollups = true
	require.Greater(t, cfg.MemoryLimit("max\n"), int64(limit))
	t.Setenv("GOMEMLIMIT", "1GiB")
	require.NotEqualValues(t, 900<<20, cfg.MemoryLimit("1048576000\n"))
}
