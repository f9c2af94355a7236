package cosmos_test

import (
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The charges of requests about one tenant are the tenant's in full, whatever the request; those about all tenants, and
// those of metadata, are nobody's.
func TestChargesOfOneTenantAreItsOwn(t *testing.T) {
	clock := &simulation{now: time.Unix(1_795_176_000, 0)}
	registry := prometheus.NewRegistry()
	_, c := openEmulator(t, emulator.Config{Unlimited: true, Now: clock.Now},
		func(cfg *cosmos.Config) { cfg.Registerer = registry })
	const container = "chunks-2026-11"
	require.NoError(t, c.Containers().Create(t.Context(), container, small))
	day := telemetry.DayOf(clock.now.UnixMilli())
	ignore := func([]byte) error { return nil }
	headers := func(tenant string) float64 {
		scan := store.HeaderScan{Container: container, Day: day, Tenant: tenant}
		usage, err := c.Chunks().Headers(t.Context(), scan, ignore)
		require.NoError(t, err)
		require.Positive(t, usage.RUs)
		return usage.RUs
	}
	for _, tenant := range []string{"acme", "globex"} {
		headers(tenant)
		scan := store.Scan{Key: sharding.Key{Container: container, TenantShard: tenant + "~cg"},
			Range: telemetry.Range{From: 0, To: 9}}
		_, err := c.Chunks().Scan(t.Context(), scan, ignore)
		require.NoError(t, err)
		require.NoError(t, c.Catalog().Create(t.Context(), tenant, "p", []byte(`{"v":1}`)))
	}
	everybody := headers("")

	total, tenants := chargesByOperation(t, registry)
	for _, operation := range []string{"scan", "catalog_create"} {
		require.InDelta(t, total[operation], tenants[operation], 1e-9, operation)
		require.Positive(t, total[operation], operation)
	}
	require.InDelta(t, total["headers"]-everybody, tenants["headers"], 1e-9)
	require.Len(t, tenants, 3, "all else is nobody's")
}

// chargesByOperation returns what was charged in all, and for requests about one tenant.
func chargesByOperation(t *testing.T, from prometheus.Gatherer) (total, tenants map[string]float64) {
	families, err := from.Gather()
	require.NoError(t, err)
	total, tenants = map[string]float64{}, map[string]float64{}
	for _, f := range families {
		sums := map[string]map[string]float64{"binnacle_cosmos_request_units_total": total,
			"binnacle_cosmos_tenant_request_units_total": tenants}[f.GetName()]
		if sums == nil {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "operation" {
					sums[l.GetValue()] += m.GetCounter().GetValue()
				}
			}
		}
	}
	return total, tenants
}
