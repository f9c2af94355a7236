package provision_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/provision"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

// mergerRig is a catalog of acme, its clock, and a keeper.
type mergerRig struct {
	*provision.CatalogMerger
	catalog *storetest.Catalog
	now     time.Time
}

func newMergerRig(t *testing.T) *mergerRig {
	k := &mergerRig{catalog: storetest.NewCatalog(t), now: time.UnixMilli(1795183200000)}
	k.catalog.Now = func() time.Time { return k.now }
	k.CatalogMerger = provision.NewCatalogMerger(provision.CatalogMergerConfig{Catalog: k.catalog,
		Tenants: func(context.Context) ([]string, error) { return []string{"acme"}, nil },
		Now:     func() time.Time { return k.now }})
	return k
}

// entries is what the catalog says of each device.
func (k *mergerRig) entries() map[string]catalog.Entry {
	out := make(map[string]catalog.Entry)
	x := k.catalog.Index("acme")
	x.Select(nil, 0, x.Blocks()).Each(func(e catalog.Entry) bool {
		out[e.Device] = e
		return true
	})
	return out
}

// devices is how many devices pages say something of, each time that they do.
func (k *mergerRig) counts() (pages, devices int) {
	for _, p := range k.catalog.All("acme") {
		pages++
		devices += len(p.Entries)
	}
	return pages, devices
}

// add stores a page for each of some devices.
func (k *mergerRig) add(from, to int, site string) {
	for i := from; i < to; i++ {
		k.catalog.AddPage("acme", storetest.Entry(fmt.Sprintf("d%05d", i), map[string]string{"site": site}, "m"))
	}
}

// Small pages are merged, and deleted when every reader knows of the pages that say the same.
func TestSmallPagesAreMerged(t *testing.T) {
	k := newMergerRig(t)
	k.add(0, 40, "hall")
	want := k.entries()
	require.NoError(t, k.Round(t.Context()))
	pages, _ := k.counts()
	require.Equal(t, 40, pages, "they are too young")
	k.now = k.now.Add(11 * time.Minute)
	require.NoError(t, k.Round(t.Context()))
	pages, _ = k.counts()
	require.Equal(t, 42, pages, "one that says all, and one that says so")
	require.Equal(t, want, k.entries())
	k.now = k.now.Add(11 * time.Minute)
	require.NoError(t, k.Round(t.Context()))
	pages, devices := k.counts()
	require.Equal(t, [2]int{1, 40}, [2]int{pages, devices})
	require.Equal(t, want, k.entries())
	for range 3 {
		k.now = k.now.Add(time.Hour)
		before := k.catalog.All("acme")
		require.NoError(t, k.Round(t.Context()))
		require.Equal(t, before, k.catalog.All("acme"), "there is nothing to do")
	}
}

// What is said twice is said once when it is half of all.
func TestDuplicateEntriesAreMerged(t *testing.T) {
	k := newMergerRig(t)
	tell := func(site string) {
		var all []catalog.Entry
		for i := range 3000 {
			all = append(all, storetest.Entry(fmt.Sprintf("d%05d", i), map[string]string{"site": site}, "m"))
		}
		for part := range slices.Chunk(all, 1000) {
			k.catalog.AddPage("acme", part...)
		}
	}
	for n := range 3 {
		tell(fmt.Sprint(n))
	}
	want := k.entries()
	for range 3 {
		k.now = k.now.Add(time.Hour)
		require.NoError(t, k.Round(t.Context()))
	}
	_, devices := k.counts()
	require.Equal(t, 3000, devices)
	require.Equal(t, want, k.entries())
	require.Equal(t, "2", want["d00007"].Tags[0].Value)
}

// A device that is forgotten goes out of all pages, and does not come back with one that is merged later.
func TestForgottenDevicesAreRemoved(t *testing.T) {
	k := newMergerRig(t)
	k.add(0, 20, "hall")
	added := k.catalog.Index("acme").Updated()
	id, doc, err := catalog.Encode(catalog.Page{Updated: added + 1,
		Forget: []catalog.Forgotten{{Device: catalog.Digest("d00007"), Until: added + 1}}})
	require.NoError(t, err)
	require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
	for n := range 6 {
		k.now = k.now.Add(time.Hour)
		k.add(100+20*n, 120+20*n, "yard")
		require.NoError(t, k.Round(t.Context()))
		require.NotContains(t, k.entries(), "d00007")
	}
	for _, p := range k.catalog.All("acme") {
		require.False(t, slices.ContainsFunc(p.Entries, func(e catalog.Entry) bool { return e.Device == "d00007" }))
	}
	require.Len(t, k.entries(), 19+120)
}

// Purge takes a forgotten device out of the pages that have it, and leaves the others as they are; it is clean when the
// pages that it replaced are gone. What an ingester writes that did not know goes too.
func TestPurgeRemovesForgottenDevices(t *testing.T) {
	k := newMergerRig(t)
	k.add(0, 20, "hall")
	until := k.catalog.Index("acme").Updated() + 1
	k.catalog.AddPage("acme", storetest.Entry("d00007", nil, "late"))
	late := k.catalog.Index("acme").Updated()
	id, doc, err := catalog.Encode(catalog.Page{Updated: late,
		Forget: []catalog.Forgotten{{Device: catalog.Digest("d00007"), Until: max(until, late)}}})
	require.NoError(t, err)
	require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
	before := k.catalog.All("acme")
	holds := func() (n int) {
		for _, p := range k.catalog.All("acme") {
			if slices.ContainsFunc(p.Entries, func(e catalog.Entry) bool { return e.Device == "d00007" }) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, holds())
	k.now = k.now.Add(5 * time.Minute)
	isClean, err := k.Purge(t.Context(), "acme")
	require.NoError(t, err)
	require.False(t, isClean, "replaced pages stay for readers that have just listed them")
	k.now = k.now.Add(8 * time.Minute)
	isClean, err = k.Purge(t.Context(), "acme")
	require.NoError(t, err)
	require.True(t, isClean)
	require.Zero(t, holds())
	require.Len(t, k.entries(), 19)
	stay := slices.DeleteFunc(k.catalog.All("acme"), func(p catalog.Page) bool {
		return !slices.ContainsFunc(before, func(b catalog.Page) bool { return b.ID == p.ID })
	})
	require.Len(t, stay, 19, "pages without the device stay")
}

// A device stays forgotten where pages with its entries are replaced while the page that forgets it is young, or was
// replaced itself (rule E-R10). The pages that repeat others have a later time.
func TestForgottenByAReplacedPage(t *testing.T) {
	k := newMergerRig(t)
	k.add(0, 3, "hall")
	until := k.catalog.Index("acme").Updated() + 1000
	forget := func(device string, until int64) {
		id, doc, err := catalog.Encode(catalog.Page{Updated: until,
			Forget: []catalog.Forgotten{{Device: catalog.Digest(device), Until: until}}})
		require.NoError(t, err)
		require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
	}
	forget("d00001", until)
	k.now = k.now.Add(150 * time.Second)
	k.add(1, 2, "of an ingester that did not know")
	forget("d00002", until+1)
	for range 6 {
		k.now = k.now.Add(150 * time.Second)
		_, err := k.Purge(t.Context(), "acme")
		require.NoError(t, err)
		require.Equal(t, []string{"d00000"}, slices.Collect(maps.Keys(k.entries())))
	}
}

// Rules T4 and E-R10: what was copied is merged apart, so that an order of its source, which comes later than newer
// entries of the account's own, has it forgotten, and nothing of them.
func TestCopiedPagesStayApart(t *testing.T) {
	k := newMergerRig(t)
	copied := func(from, to int) {
		for i := from; i < to; i++ {
			id, doc, err := catalog.Encode(catalog.Page{Account: "EAST", Updated: 1, Entries: []catalog.Entry{
				storetest.Entry(fmt.Sprintf("d%05d", i), nil, "copied")}})
			require.NoError(t, err)
			require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
		}
	}
	copied(0, 20)
	k.add(10, 30, "hall")
	for range 2 {
		k.now = k.now.Add(time.Hour)
		require.NoError(t, k.Round(t.Context()))
	}
	pages, devices := k.counts()
	require.Equal(t, [2]int{2, 40}, [2]int{pages, devices})
	id, doc, err := catalog.Encode(catalog.Page{Updated: 2, Forget: []catalog.Forgotten{
		{Device: catalog.Digest("d00005"), Account: "EAST", Until: 2},
		{Device: catalog.Digest("d00015"), Account: "EAST", Until: 2}}})
	require.NoError(t, err)
	require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
	for range 3 {
		require.NotContains(t, k.entries(), "d00005")
		require.Len(t, k.entries(), 29)
		own, among := k.entries()["d00015"], k.entries()["d00014"]
		require.Equal(t, [][]string{{"m"}, {"copied", "m"}}, [][]string{own.MetricNames(), among.MetricNames()})
		k.now = k.now.Add(time.Hour)
		require.NoError(t, k.Round(t.Context()))
	}
	_, devices = k.counts()
	require.Equal(t, 38, devices)
}

// A page that forgets fits a document however many devices a tenant had that was erased as a whole.
func TestManyForgottenDevices(t *testing.T) {
	k := newMergerRig(t)
	const many = 25_000
	for from := range many / 1000 {
		page := catalog.Page{Updated: 5}
		for i := range 1000 {
			page.Forget = append(page.Forget, catalog.Forgotten{Device: uint64(from*1000 + i), Until: 5})
		}
		id, doc, err := catalog.Encode(page)
		require.NoError(t, err)
		require.NoError(t, k.catalog.Create(t.Context(), "acme", id, doc))
	}
	for range 3 {
		k.now = k.now.Add(time.Hour)
		_, err := k.Purge(t.Context(), "acme")
		require.NoError(t, err)
	}
	all := k.catalog.All("acme")
	require.Len(t, all, 3)
	for _, p := range all {
		require.True(t, p.Applied)
		require.LessOrEqual(t, len(p.Forget), catalog.MaxForgotten)
	}
	require.Len(t, k.catalog.Index("acme").Forgotten(), many)
}
