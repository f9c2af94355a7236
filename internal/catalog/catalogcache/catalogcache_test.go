package catalogcache_test

import (
	"errors"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// A copy of what is the account's own has nothing that was copied from another one.
func TestOwnEntries(t *testing.T) {
	pages := storetest.NewCatalog(t)
	pages.AddPage("acme", catalog.Entry{Device: "ant", First: 5, Last: 5})
	id, doc, err := catalog.Encode(catalog.Page{Account: "EAST",
		Entries: []catalog.Entry{{Device: "ant", First: 1, Last: 9}, {Device: "bee"}}})
	require.NoError(t, err)
	require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	for isOwn, want := range map[bool]catalog.Entry{true: {First: 5, Last: 5}, false: {First: 1, Last: 9}} {
		cfg := catalogcache.Config{Catalog: pages}
		if isOwn {
			cfg.Of = new(string)
		}
		held, err := catalogcache.New(cfg).Get(t.Context(), "acme", time.Time{})
		require.NoError(t, err)
		held.Use(func(x *catalog.Index) {
			ant, _ := x.Entry("ant")
			require.Equal(t, []int64{want.First, want.Last}, []int64{ant.First, ant.Last})
			_, isKnown := x.Entry("bee")
			require.Equal(t, !isOwn, isKnown)
		})
	}
}

// While a catalog that has forgotten a device is read again from the beginning, and where that read fails, others who
// are content with what was read before have all of it.
func TestCopyWhileItIsReadAnew(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pages := storetest.NewCatalog(t)
	pages.AddPage("acme", catalog.Entry{Device: "ant"}, catalog.Entry{Device: "bee"})
	pages.AddPage("acme", catalog.Entry{Device: "cat"})
	cache := catalogcache.New(catalogcache.Config{Catalog: pages, Now: func() time.Time { return now }})
	devices := func(since time.Time) (n int) {
		held, err := cache.Get(t.Context(), "acme", since)
		require.NoError(t, err)
		held.Use(func(x *catalog.Index) { n = x.Len() })
		return n
	}
	before := now.Add(-time.Second)
	require.Equal(t, 3, devices(before))

	id, doc, err := catalog.Encode(catalog.Page{Forget: []catalog.Forgotten{{Device: catalog.Digest("cat"), Until: 9}},
		Updated: 9})
	require.NoError(t, err)
	require.NoError(t, pages.Create(t.Context(), "acme", id, doc))
	now = now.Add(time.Minute)
	reads := 0
	pages.Fault = func(op, _, _ string) *storetest.Fault {
		if op != storetest.OpRead {
			return nil
		}
		require.Equal(t, 3, devices(before), "before read %d", reads)
		// The first two reads answer the page that forgets and one of three other pages.
		if reads++; reads == 3 {
			return &storetest.Fault{Err: errors.New("busy")}
		}
		return nil
	}
	_, err = cache.Get(t.Context(), "acme", now.Add(-time.Second))
	require.ErrorContains(t, err, "busy")
	require.Equal(t, 3, devices(before))
	require.Equal(t, 2, devices(now.Add(-time.Second)), "the next read goes on")
	require.Equal(t, 5, reads)
}
