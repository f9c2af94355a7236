package main_test

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/loadtest"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// A load test of an account asks first, measures what the account charges, and leaves what was there before it.
func TestLoadTestTarget(t *testing.T) {
	t.Parallel()
	emulated, err := emulator.Open(emulator.Config{InMemory: true, PhysicalPartitions: 3})
	require.NoError(t, err)
	server := httptest.NewServer(emulated)
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, emulated.Close())
	})
	client, err := cosmos.New(cosmos.Config{Endpoint: server.URL, Credential: cosmos.FixedKey(emulator.Key)})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	require.NoError(t, client.EnsureBase(t.Context()))
	mine := cosmos.Layout{Name: loadtest.TargetPrefix + "mine", Key: []string{"/tenant"}}
	require.NoError(t, client.Containers().CreateAs(t.Context(), mine, store.Throughput{RUs: 400}))
	before, err := client.Containers().List(t.Context())
	require.NoError(t, err)

	args := []string{"loadtest", "--target", "--cosmos=" + server.URL, "--target-time=1s", "--target-rus=2000",
		"--devices=100", "--minutes=10", "--hold=10m"}
	code, stdout, stderr := inProcess(t, args...)
	require.NotZero(t, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "3 containers named loadtest-…")
	require.Contains(t, stderr, "$0.48 (list price)")
	require.Contains(t, stderr, "not used without --yes")

	code, stdout, stderr = inProcess(t, append(args, "--yes", "--json")...)
	require.Zero(t, code, stderr)
	var report loadtest.TargetReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, loadtest.Whale, report.Scenario)
	require.Len(t, report.Layouts, 3)
	for i, want := range []loadtest.Layout{loadtest.ByDevice, loadtest.Hundred, loadtest.Binnacle} {
		got := report.Layouts[i]
		require.Equal(t, want, got.Layout)
		require.Equal(t, 3, got.Partitions)
		require.Positive(t, got.Documents, want)
		require.Equal(t, got.Requests, got.Documents+got.Throttled, want)
		require.InEpsilon(t, got.Modelled, got.Each, 0.001, "%s: the emulated charges by the same model", want)
		require.Positive(t, got.Latency.P99)
		require.GreaterOrEqual(t, got.Hottest, 1.0)
	}
	require.Greater(t, report.Layouts[0].PerMillion, 10*report.Layouts[2].PerMillion)

	after, err := client.Containers().List(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, before, after)

	refused(t, []string{"loadtest", "--target", "--check"}, "not for --target")
	refused(t, []string{"loadtest", "--target", "--target-rus=450"}, "400 to 100000 in steps of 100")
	refused(t, []string{"loadtest", "--target", "--target-layout=binnacle-balanced"}, "is allowed once")
	refused(t, []string{"loadtest", "--target", "--scenario=reconnect"}, "uniform, whale, zipf and hot-device")
}
