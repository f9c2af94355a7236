package erase_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/erase"
	"binnacle/internal/store/storetest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// Rule E-R10: annotations of before an order about all of the tenant are taken out; no other order is about them.
func TestAnnotationsOfErasedTenant(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	w := newWorldAt(t, func() time.Time { return now }, 1e8)
	notes := w.notes()
	for _, name := range []string{"acme", "globex"} {
		_, err := notes.Add(t.Context(), name, tenant.Annotation{Text: "before", Time: 1, Made: now.UnixMilli()}, 0)
		require.NoError(t, err)
	}
	sweep := func(o *erasure.Order) {
		s := erase.NewSweeper(erase.Config{Chunks: w.memory, Rollups: w.rollups, Now: w.now, Orders: w.orders,
			Snapshot: w.directory.Refresh, By: "test", RUs: 1e9, Annotations: notes})
		for n := 0; w.orderOf(o).ClearedAt.IsZero(); n++ {
			require.Less(t, n, 100)
			require.NoError(t, s.Round(t.Context()))
			now = now.Add(20 * time.Second)
		}
	}
	stored := func(tenant string) (out []string) {
		all, err := notes.List(t.Context(), tenant)
		require.NoError(t, err)
		for _, a := range all {
			out = append(out, a.Text)
		}
		return out
	}
	sweep(w.order(erasure.Order{Tenant: "acme", Device: "m1", To: erasure.EveryDay}, 50))
	require.Equal(t, []string{"before"}, stored("acme"))
	whole := w.order(erasure.Order{Tenant: "acme", To: erasure.EveryDay}, 50)
	_, err := notes.Add(t.Context(), "acme", tenant.Annotation{Text: "after", Time: 1,
		Made: now.Add(2 * time.Minute).UnixMilli()}, 0)
	require.NoError(t, err)
	sweep(whole)
	require.Equal(t, []string{"after"}, stored("acme"))
	require.Equal(t, []string{"before"}, stored("globex"))
}

// Rule E-R10: what the catalog has of an erased device goes, also what an ingester writes that does not know the order
// yet; what one writes that knows it stays, and so do other devices.
func TestCatalogForgetsUntilIngestersKnow(t *testing.T) {
	pages := storetest.NewCatalog(t)
	told := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	write := func(told time.Time, metric string) {
		id, doc, err := catalog.Encode(catalog.Page{Updated: told.UnixMilli(), Entries: []catalog.Entry{
			storetest.Entry("m1", nil, metric), storetest.Entry("m2", nil, metric)}})
		require.NoError(t, err)
		require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	}
	write(told, "before")
	o := &erasure.Order{Tenant: "acme", Device: "m1", To: erasure.EveryDay, At: told.Add(time.Hour)}
	require.NoError(t, erasure.Forget(t.Context(), pages, o))
	write(o.At.Add(8*time.Second), "meanwhile")
	_, known := pages.Entry("acme", "m1")
	require.False(t, known)
	write(time.UnixMilli(pages.Index("acme").Updated()+1), "after") // as an ingester does with a copy of now
	m1, _ := pages.Entry("acme", "m1")
	require.Equal(t, []string{"after"}, m1.MetricNames())
	m2, _ := pages.Entry("acme", "m2")
	require.Equal(t, []string{"after", "before", "meanwhile"}, m2.MetricNames())
}

// Order and catalog of a tenant with many devices: one page forgets them all, and none is read, as the order is void
// after a minute.
func TestCatalogForgetsATenantAtOnce(t *testing.T) {
	pages := storetest.NewCatalog(t)
	o := &erasure.Order{Tenant: "acme", To: erasure.EveryDay, At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	for i := range 3 {
		id, doc, err := catalog.Encode(catalog.Page{Updated: o.At.UnixMilli(),
			Entries: []catalog.Entry{storetest.Entry(fmt.Sprint("m", i), nil, "v")}})
		require.NoError(t, err)
		require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	}
	var calls []string
	pages.Fault = func(op, _, _ string) *storetest.Fault {
		calls = append(calls, op)
		return nil
	}
	require.NoError(t, erasure.Forget(t.Context(), pages, o))
	require.Equal(t, []string{storetest.OpCreate}, calls)
	require.Empty(t, pages.Index("acme").Devices())
}

// What the catalog learns of a tenant for a moment after it was erased as a whole is forgotten when ingesters know the
// order, and all that they write then comes later.
func TestCatalogForgetsDevicesThatItDidNotHave(t *testing.T) {
	pages := storetest.NewCatalog(t)
	o := &erasure.Order{Tenant: "acme", To: erasure.EveryDay, At: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	write := func(device string, at int64) {
		id, doc, err := catalog.Encode(catalog.Page{Updated: at, Entries: []catalog.Entry{storetest.Entry(device, nil, "v")}})
		require.NoError(t, err)
		require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	}
	require.NoError(t, erasure.Forget(t.Context(), pages, o))
	write("m1", o.At.UnixMilli()+2000)
	write("m2", pages.Index("acme").Updated()+1)
	require.NoError(t, erasure.Forget(t.Context(), pages, o))
	_, isKnown := pages.Entry("acme", "m1")
	require.False(t, isKnown)
	_, isKnown = pages.Entry("acme", "m2")
	require.True(t, isKnown)
}
