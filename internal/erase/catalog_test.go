package erase_test

import (
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/erase"

	"github.com/stretchr/testify/require"
)

// Rule E-R10: what the catalog has of an erased device goes, also what an ingester writes that does not know the order
// yet; what one writes that knows it stays, and so do other devices.
func TestCatalogForgetsUntilIngestersKnow(t *testing.T) {
	pages := controltest.NewCatalog(t)
	told := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	write := func(told time.Time, metric string) {
		id, doc, err := catalog.Encode(catalog.Page{Updated: told.UnixMilli(), Entries: []catalog.Entry{
			controltest.Entry("m1", nil, metric), controltest.Entry("m2", nil, metric)}})
		require.NoError(t, err)
		require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	}
	write(told, "before")
	o := &control.Erasure{Tenant: "acme", Device: "m1", To: control.EveryDay, At: told.Add(time.Hour)}
	require.NoError(t, erase.Forget(t.Context(), pages, o))
	write(o.At.Add(8*time.Second), "meanwhile")
	_, known := pages.Entry("acme", "m1")
	require.False(t, known)
	write(time.UnixMilli(pages.Index("acme").Updated()+1), "after") // as an ingester does with a copy of now
	m1, _ := pages.Entry("acme", "m1")
	require.Equal(t, []string{"after"}, m1.MetricNames())
	m2, _ := pages.Entry("acme", "m2")
	require.Equal(t, []string{"after", "before", "meanwhile"}, m2.MetricNames())
}
