package app_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/app"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The report has what was charged, in the partitions that the container has now: after a split they are unequal, and
// the key that was hot is in one of the new ones.
func TestPartitionsAfterASplit(t *testing.T) {
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, PhysicalPartitions: 4})
	require.NoError(t, err)
	now := time.Now().UTC().Truncate(time.Minute)
	clock := func() time.Time { return now }
	collector := heatlog.NewCollector(heatlog.Config{Role: "ingest", Now: clock})
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport(), Heat: collector})
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close())
	})
	ctx := t.Context()
	require.NoError(t, client.EnsureBase(ctx))
	directory := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents()})
	snapshot, err := directory.Register(ctx, "acme")
	require.NoError(t, err)
	tenant, _ := snapshot.Tenant("acme")
	day := telemetry.DayOf(now.UnixMilli())
	container := sharding.Container("", sharding.Month.Of(day))
	require.NoError(t, client.Containers().Create(ctx, container, store.Throughput{RUs: 24_000}))

	var total, hot float64
	write := func(device string, n int) (rus float64) {
		for i := range n {
			key := tenant.Placement.Key(device, day, uint32(i))
			id := chunk.ID{Day: day, Stream: 1, Partition: 1, Number: uint32(i)}.String()
			doc := fmt.Sprintf(`{"id":%q,"tenantShard":%q,"device":%q,"from":1,"to":2}`, id, key.TenantShard, device)
			got, err := client.Chunks().Create(ctx, key, id, []byte(doc))
			require.NoError(t, err)
			rus += got.RUs
		}
		return rus
	}
	hot = write("truck-7", 60)
	total = hot
	for i := range 40 {
		total += write(fmt.Sprintf("d%d", i), 1)
	}
	now = now.Add(time.Minute)
	collector.Round(ctx, client.Heat(), now)

	source := ops.HeatSource{Client: client, Snapshot: func() *control.Snapshot { return snapshot }}
	report := func() (sum, hottest float64, partitions int) {
		r, err := source.Report(ctx, ops.HeatRequest{Since: time.Hour}, now)
		require.NoError(t, err)
		require.Equal(t, 24_000, r.BoughtRUs)
		for _, p := range r.Partitions {
			sum += p.RUs * r.To.Sub(r.From).Seconds()
			hottest = max(hottest, p.Share)
		}
		require.Contains(t, r.Diagnosis, tenant.Placement.Key("truck-7", day, 0).TenantShard)
		require.Len(t, r.Tenants, 1)
		return sum, hottest, len(r.Partitions)
	}
	sum, hottest, n := report()
	require.InDelta(t, total, sum, 0.5)
	require.Greater(t, hottest, hot/total)
	require.Equal(t, 4, n)

	stats, err := server.Partitions(store.Database, container)
	require.NoError(t, err)
	require.NoError(t, server.Split(store.Database, container, stats[2].ID))
	sum, after, n := report()
	require.InDelta(t, total, sum, 0.5)
	require.Equal(t, 5, n, "the ranges are read anew")
	require.Greater(t, after, hot/total)

	gauges := app.NewPartitionGauges(prometheus.NewRegistry())
	require.NoError(t, gauges.Update(ctx, source, container))

	api := httptest.NewServer(ops.Endpoint(source.ServePartitions))
	defer api.Close()
	for query, status := range map[string]int{"": 200, "?since=1s": 400, "?since=x": 400, "?container=control": 400,
		"?container=chunks-2001-01": 404, "?container=catalog&since=24h": 200} {
		resp, err := http.Get(api.URL + query)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, "%s: %s", query, body)
	}
}
