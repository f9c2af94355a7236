package main_test

import (
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// A data directory of an unreleased version has containers that nothing reads any more: dev stops, and its error names
// the directory, the container and the way out.
func TestDataDirOfUnreleasedVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	emulated, err := emulator.Open(emulator.Config{DataDir: filepath.Join(dir, "cosmos")})
	require.NoError(t, err)
	server := httptest.NewServer(emulated)
	client, err := cosmos.New(cosmos.Config{Endpoint: server.URL, Credential: cosmos.FixedKey(emulator.Key)})
	require.NoError(t, err)
	require.NoError(t, client.EnsureBase(t.Context()))
	require.NoError(t, client.Containers().Create(t.Context(), "views-2026-11", store.Throughput{RUs: 400}))
	client.Close()
	server.Close()
	require.NoError(t, emulated.Close())
	p := start(t, append(free(""), "--data-dir", dir)...)
	require.NotZero(t, p.wait(time.Minute), "exit code")
	require.Regexp(t, `(?m)^binnacle: \S+ holds the container views-2026-11, .*: start anew with another --data-dir, or delete `+
		dir+`$`, p.stderr.String())
}
