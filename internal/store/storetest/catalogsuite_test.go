package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"binnacle/internal/catalog"
	"binnacle/internal/store"

	"github.com/stretchr/testify/require"
)

// runCatalog checks an implementation of store.Catalog; open returns an empty one.
func runCatalog(t *testing.T, open func(t *testing.T) store.Catalog) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, ctx context.Context, catalog store.Catalog)
	}{
		{"a page is created once", pageCreate},
		{"pages are listed and read", pageList},
		{"pages of one tenant", pageTenants},
		{"many pages", pageMany},
		{"a page is deleted", pageDelete},
		{"a read ends at an error of yield", pageYield},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, t.Context(), open(t)) })
	}
}

// page returns a page that says something of devices.
func page(t *testing.T, p catalog.Page, devices ...string) (id string, doc []byte) {
	for _, d := range devices {
		p.Entries = append(p.Entries, catalog.Entry{Device: d, First: 1, Last: 2,
			Tags: []catalog.Tag{{Name: `a"b\c/😀`, Value: "nord/süd", Updated: 3}}})
	}
	id, doc, err := catalog.Encode(p)
	require.NoError(t, err)
	return id, doc
}

func stored(t *testing.T, ctx context.Context, c store.Catalog, tenant string,
	since int64) map[string]store.PageInfo {
	infos, err := c.Pages(ctx, tenant, since)
	require.NoError(t, err)
	out := make(map[string]store.PageInfo)
	for _, i := range infos {
		require.Positive(t, i.Stored)
		out[i.ID] = i
	}
	require.Len(t, out, len(infos), "each page once")
	return out
}

func pageCreate(t *testing.T, ctx context.Context, c store.Catalog) {
	require.Empty(t, stored(t, ctx, c, "acme", 0))
	id, doc := page(t, catalog.Page{Updated: 9}, "Gerät 7:x", "m1")
	require.NoError(t, c.Create(ctx, "acme", id, doc))
	require.ErrorIs(t, c.Create(ctx, "acme", id, doc), store.ErrExists)
	require.NoError(t, c.Create(ctx, "globex", id, doc))
	require.NoError(t, c.Read(ctx, "acme", []string{id, "none"}, func(got string, doc []byte) error {
		require.Equal(t, id, got)
		p, err := catalog.Decode(got, doc)
		require.NoError(t, err)
		require.Len(t, p.Entries, 2)
		require.Equal(t, "nord/süd", p.Entries[0].Tags[0].Value)
		return nil
	}))
}

func pageList(t *testing.T, ctx context.Context, c store.Catalog) {
	plain, doc := page(t, catalog.Page{Updated: 9}, "a", "b")
	require.NoError(t, c.Create(ctx, "acme", plain, doc))
	said, doc := page(t, catalog.Page{Updated: 10, Replaces: []string{"x", "y"}})
	require.NoError(t, c.Create(ctx, "acme", said, doc))
	forgets, doc := page(t, catalog.Page{Updated: 11, Forget: []catalog.Forgotten{{Device: 5, Until: 7}}})
	require.NoError(t, c.Create(ctx, "acme", forgets, doc))
	applied, doc := page(t, catalog.Page{Updated: 11, Applied: true, Forget: []catalog.Forgotten{{Device: 5, Until: 7}}})
	require.NoError(t, c.Create(ctx, "acme", applied, doc))

	all := stored(t, ctx, c, "acme", 0)
	require.Len(t, all, 4)
	require.Equal(t, 2, all[plain].Devices)
	require.Positive(t, all[plain].Bytes)
	require.EqualValues(t, 9, all[plain].Updated)
	require.Equal(t, []string{"x", "y"}, all[said].Replaces)
	require.True(t, all[forgets].HasForgotten && !all[forgets].Applied && !all[plain].HasForgotten)
	require.True(t, all[applied].HasForgotten && all[applied].Applied)
	last := int64(0)
	for _, i := range all {
		last = max(last, i.Stored)
	}
	require.Contains(t, stored(t, ctx, c, "acme", all[plain].Stored), plain)
	require.Empty(t, stored(t, ctx, c, "acme", last+1))
}

func pageTenants(t *testing.T, ctx context.Context, c store.Catalog) {
	for _, tenant := range []string{"acme", "acme-2", "a"} {
		id, doc := page(t, catalog.Page{}, tenant)
		require.NoError(t, c.Create(ctx, tenant, id, doc))
	}
	for _, tenant := range []string{"acme", "acme-2", "a"} {
		infos := stored(t, ctx, c, tenant, 0)
		require.Len(t, infos, 1)
		require.NoError(t, c.Read(ctx, tenant, slices.Collect(maps.Keys(infos)), func(id string, doc []byte) error {
			p, err := catalog.Decode(id, doc)
			require.NoError(t, err)
			require.Equal(t, tenant, p.Entries[0].Device)
			return nil
		}))
	}
	require.Empty(t, stored(t, ctx, c, "acm", 0))
}

func pageMany(t *testing.T, ctx context.Context, c store.Catalog) {
	var ids []string
	for i := range 120 {
		id, doc := page(t, catalog.Page{}, fmt.Sprintf("d%03d", i))
		require.NoError(t, c.Create(ctx, "acme", id, doc))
		ids = append(ids, id)
	}
	require.Len(t, stored(t, ctx, c, "acme", 0), 120)
	seen := make(map[string]bool)
	require.NoError(t, c.Read(ctx, "acme", ids[:100], func(id string, _ []byte) error {
		seen[id] = true
		return nil
	}))
	require.Len(t, seen, 100)
}

func pageDelete(t *testing.T, ctx context.Context, c store.Catalog) {
	id, doc := page(t, catalog.Page{}, "a")
	require.NoError(t, c.Delete(ctx, "acme", id), "nothing to delete")
	require.NoError(t, c.Create(ctx, "acme", id, doc))
	require.NoError(t, c.Create(ctx, "globex", id, doc))
	require.NoError(t, c.Delete(ctx, "acme", id))
	require.Empty(t, stored(t, ctx, c, "acme", 0))
	require.Len(t, stored(t, ctx, c, "globex", 0), 1)
}

func pageYield(t *testing.T, ctx context.Context, c store.Catalog) {
	var ids []string
	for _, device := range []string{"a", "b", "c"} {
		id, doc := page(t, catalog.Page{}, device)
		require.NoError(t, c.Create(ctx, "acme", id, doc))
		ids = append(ids, id)
	}
	stop, seen := errors.New("enough"), 0
	err := c.Read(ctx, "acme", ids, func(string, []byte) error {
		if seen++; seen == 2 {
			return stop
		}
		return nil
	})
	require.Equal(t, stop, err)
	require.Equal(t, 2, seen)
}
