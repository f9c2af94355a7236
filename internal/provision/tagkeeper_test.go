package provision_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// Devices come to a class by tag, and leave it, as the catalog has their tags. A catalog that is lost takes none out.
func TestTagKeeper(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	docs, pages := storetest.NewDocuments(t), storetest.NewCatalog(t)
	directory := control.NewDirectory(control.DirectoryConfig{Documents: docs, Now: func() time.Time { return now }})
	_, err := directory.Register(t.Context(), "acme")
	require.NoError(t, err)
	add := func(device, site string, at int64) {
		e := storetest.Entry(device, map[string]string{"site": site}, "m")
		for i := range e.Tags {
			e.Tags[i].Updated = at
		}
		pages.AddPage("acme", e)
	}
	add("pump-1", "oslo", 1)
	add("pump-2", "bergen", 1)
	var said strings.Builder
	newKeeper := func(of store.Catalog) *provision.TagKeeper {
		return &provision.TagKeeper{Snapshot: directory.Refresh, Tenants: tenant.NewTenants(docs),
			Catalogs: catalogcache.New(catalogcache.Config{Catalog: of}),
			Now:      func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&said, nil))}
	}
	keeper := newKeeper(pages)
	acme := func() tenant.Tenant {
		v, err := directory.Refresh(t.Context())
		require.NoError(t, err)
		tenant, ok := v.Tenant("acme")
		require.True(t, ok)
		return tenant
	}
	require.NoError(t, keeper.Round(t.Context()), "there are no classes")

	const text = "{site=oslo}=100d,default=5d"
	tags, err := tenant.RetentionTags(text)
	require.NoError(t, err)
	found, err := provision.TaggedDevices(t.Context(), keeper.Catalogs, acme(), tags)
	require.NoError(t, err)
	require.Equal(t, tenant.Tagged{tags[0]: {"pump-1"}}, found)
	change, err := tenant.RetentionChange(text, keeper.Now, found)
	require.NoError(t, err)
	require.NoError(t, keeper.Tenants.Set(t.Context(), "acme", change))

	later := telemetry.DayOf(now.UnixMilli()) + 30
	kept := func(device string) int { return int(acme().RetentionOf(device, later).Hours() / 24) }
	now = now.Add(3 * time.Hour)
	add("pump-3", "oslo", 2)
	add("pump-2", "oslo", 2)
	require.NoError(t, keeper.Round(t.Context()))
	require.Equal(t, []int{100, 100, 100, 5}, []int{kept("pump-1"), kept("pump-2"), kept("pump-3"), kept("pump-4")})
	before, found2, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.True(t, found2)
	require.NoError(t, keeper.Round(t.Context()))
	after, _, err := docs.Read(t.Context(), tenant.Kind, "acme")
	require.NoError(t, err)
	require.Equal(t, before.ETag, after.ETag, "nothing has changed, so nothing is written")

	add("pump-1", "bergen", 3)
	require.NoError(t, keeper.Round(t.Context()))
	require.NoError(t, keeper.Round(t.Context()))
	now = now.Add(3 * time.Hour)
	require.Equal(t, []int{100, 100}, []int{kept("pump-1"), kept("pump-2")}, "what a device sends shortens nothing")
	require.Contains(t, said.String(), "1 device would be kept for less")
	require.Equal(t, 1, strings.Count(said.String(), "level=WARN"), "it is said once")
	require.NoError(t, newKeeper(storetest.NewCatalog(t)).Round(t.Context()))
	require.Equal(t, []int{100, 100, 100}, []int{kept("pump-1"), kept("pump-2"), kept("pump-3")}, "the catalog was lost")
}
