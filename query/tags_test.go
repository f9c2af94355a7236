package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// tagged is a world with devices m000, m001, … of acme, and what is read of its catalog.
type tagged struct {
	*query.Querier
	world *querytest.World
	mu    sync.Mutex // guards below
	lists int
	pages int // that were read
}

func newTagged(t *testing.T, devices int, change func(*query.Config)) *tagged {
	w := querytest.New(t, noon)
	w.Tenant("acme")
	cfg := query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Now: func() time.Time { return w.Now }}
	if change != nil {
		change(&cfg)
	}
	q, err := query.New(cfg)
	require.NoError(t, err)
	out := &tagged{Querier: q, world: w}
	var entries []catalog.Entry
	for i := range devices {
		entries = append(entries, storetest.Entry(fmt.Sprintf("m%03d", i), map[string]string{"site": "hall"}, "temp"))
	}
	w.Catalog.AddPage("acme", entries...)
	w.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
		out.mu.Lock()
		defer out.mu.Unlock()
		switch op {
		case storetest.OpList:
			out.lists++
		case storetest.OpRead:
			out.pages++
		}
		return nil
	}
	return out
}

// tag puts a device to a site.
func (g *tagged) tag(device, site string) {
	g.world.Catalog.AddPage("acme", storetest.Entry(device, map[string]string{"site": site}))
}

// updatesCounted counts how often heads are asked for updates of the catalog.
type updatesCounted struct {
	answering
	asked int
}

// answering is store.Heads, under a name that its own method does not have.
type answering interface{ store.Heads }

func (u *updatesCounted) CatalogUpdates(ctx context.Context, tenant string) (store.HeadUpdates, error) {
	u.asked++
	return u.answering.CatalogUpdates(ctx, tenant)
}

// An empty answer about names that were known before asks neither heads nor the store why it is empty: a client that
// asks until a reading is there must not wait for lists of all devices. A name that was not known is looked for each
// time.
func TestEmptyAnswerAsksNobodyWhy(t *testing.T) {
	heads := &updatesCounted{}
	g := newTagged(t, 3, func(c *query.Config) {
		heads.answering = c.Heads
		c.Heads = heads
	})
	hints := func(device, metric string) []string {
		out, err := g.Hints(t.Context(), query.Request{Tenant: "acme", Devices: []string{device}, Metrics: []string{metric}})
		require.NoError(t, err)
		return out
	}
	require.Empty(t, hints("m001", "temp"))
	asked, lists := heads.asked, g.lists
	for range 5 {
		g.world.Heads.SetUpdates("acme", storetest.Entry("new", nil, "hum"))
		g.world.Now = g.world.Now.Add(time.Minute)
		require.Empty(t, hints("m002", "temp"))
	}
	require.Equal(t, asked, heads.asked)
	require.Equal(t, lists, g.lists)
	require.Empty(t, hints("new", "hum"))
	require.Equal(t, asked+1, heads.asked)
	require.Empty(t, hints("new", "hum"), "it is among what was known last")
	require.Equal(t, asked+1, heads.asked)
	for n := range 3 {
		require.Len(t, hints("gone", "temp"), 1)
		require.Equal(t, asked+2+n, heads.asked)
	}
	g.world.Heads.SetUpdates("acme", storetest.Entry("gone", nil, "temp"))
	require.Empty(t, hints("gone", "temp"))
}

// site is where an answer that begins now has a device.
func site(t *testing.T, tags *query.Tags, device string) string {
	l, err := tags.Of(t.Context(), device)
	require.NoError(t, err)
	v, _ := l.Get("site")
	return v
}

// The catalog is read once for the answers of a while, and then what was stored since. What heads have learnt is known
// at once.
func TestCatalogIsCached(t *testing.T) {
	g := newTagged(t, 3, nil)
	require.Equal(t, "hall", site(t, g.Tags("acme"), "m001"))
	g.tag("m001", "yard")
	for range 5 {
		tags := g.Tags("acme")
		require.Equal(t, "hall", site(t, tags, "m001"))
		require.Empty(t, site(t, tags, "none"))
	}
	require.Equal(t, 1, g.lists)
	require.Equal(t, 1, g.pages)
	g.world.Now = noon.Add(61 * time.Second)
	require.Equal(t, "yard", site(t, g.Tags("acme"), "m001"))
	require.Equal(t, 2, g.lists)
	require.Equal(t, 2, g.pages, "pages that are known are not read again")

	g.world.Heads.SetUpdates("acme", storetest.Entry("new", map[string]string{"site": "shed"}),
		storetest.Entry("m001", map[string]string{"site": "dock"}))
	tags := g.Tags("acme")
	require.Equal(t, "shed", site(t, tags, "new"))
	require.Equal(t, "dock", site(t, tags, "m001"), "what a head has seen is newer")
	require.Equal(t, "hall", site(t, tags, "m002"))
	g.tag("new", "shed")
	g.tag("m001", "dock")
	g.world.Heads.SetUpdates("acme") // they were written
	tags = g.Tags("acme")
	require.Equal(t, "shed", site(t, tags, "new"), "the version has the catalog read again")
	require.Equal(t, "dock", site(t, tags, "m001"))
	lists := g.lists
	require.Equal(t, "dock", site(t, g.Tags("acme"), "m001"))
	require.Equal(t, lists, g.lists)
}

// An answer has of one device always the same, also when it is asked for before and after something was learnt.
func TestTagsAreStableWithinAnswer(t *testing.T) {
	g := newTagged(t, 3, nil)
	tags := g.Tags("acme")
	require.Equal(t, "hall", site(t, tags, "m001"))
	g.world.Heads.SetUpdates("acme", storetest.Entry("m001", map[string]string{"site": "dock"}),
		storetest.Entry("late", map[string]string{"site": "shed"}))
	require.Equal(t, "hall", site(t, tags, "m001"))
	require.Equal(t, "shed", site(t, tags, "late"), "a device that is not known is looked for again")
	require.Equal(t, "hall", site(t, tags, "m001"))
}

// Answers that begin while the catalog is read wait for it. If the reading query fails or ends, another one reads.
func TestCatalogReadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTagged(t, 3, func(c *query.Config) { c.Now = time.Now })
		count := g.world.Catalog.Fault
		broken := errors.New("throttled")
		g.world.Catalog.Fault = func(op, tenant, device string) *storetest.Fault {
			time.Sleep(time.Second)
			if count(op, tenant, device); g.lists == 1 {
				return &storetest.Fault{Err: broken}
			}
			return nil
		}
		failed := make(chan error, 21)
		expect := func(ctx context.Context) {
			_, err := g.Known(ctx, "acme")
			failed <- err
		}
		go expect(t.Context())
		synctest.Wait() // until it reads
		for range 19 {
			go expect(t.Context())
		}
		gone, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		go expect(gone)
		var errs []error
		for range 21 {
			if err := <-failed; err != nil {
				errs = append(errs, err)
			}
		}
		require.Len(t, errs, 2)
		require.ErrorIs(t, errs[0], context.DeadlineExceeded)
		require.ErrorIs(t, errs[1], query.ErrUnavailable)
		require.ErrorIs(t, errs[1], broken)
		require.Equal(t, 2, g.lists)
	})
}

// What has no room is not kept, but for the catalog that was used last.
func TestCatalogCacheEvicts(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		lists int
	}{{1, 6}, {1 << 30, 2}} {
		g := newTagged(t, 50, func(cfg *query.Config) { cfg.TagsBytes = c.bytes })
		g.world.Catalog.Fault = nil
		g.world.Catalog.AddPage("globex", storetest.Entry("m001", nil))
		g.world.Catalog.Fault = func(op, _, _ string) *storetest.Fault {
			if op == storetest.OpList {
				g.lists++
			}
			return nil
		}
		for range 3 {
			require.Equal(t, "hall", site(t, g.Tags("acme"), "m001"))
			require.Equal(t, "hall", site(t, g.Tags("acme"), "m002"))
			l, err := g.Tags("globex").Of(t.Context(), "m001")
			require.NoError(t, err)
			require.Equal(t, telemetry.Labels{}, append(telemetry.Labels{}, l...), "tenants have their own")
		}
		require.Equal(t, c.lists, g.lists)
	}
}

// Heads that do not answer leave a gap, which lists tell of, and all that is known besides.
func TestHeadErrorMakesCatalogIncomplete(t *testing.T) {
	g := newTagged(t, 3, nil)
	g.world.Heads.Fail(errors.New("connection refused"))
	found, list, err := g.Devices(t.Context(), query.Search{Tenant: "acme", Limit: 2})
	require.NoError(t, err)
	require.Len(t, found, 2)
	require.True(t, list.Truncated)
	require.Equal(t, []string{"new devices may be missing: not all ingesters answer and are caught up"}, list.Incomplete)
	k, err := g.Known(t.Context(), "acme")
	require.NoError(t, err)
	require.True(t, k.Changed(t.Context()), "nobody knows")
	g.world.Heads.Fail(nil)
	_, list, err = g.Devices(t.Context(), query.Search{Tenant: "acme", Limit: 2})
	require.NoError(t, err)
	require.Empty(t, list.Incomplete)
}

// Of many names that the catalog has never seen the first ones have a hint: each is compared with those that it has.
func TestHintsAreFew(t *testing.T) {
	g := newTagged(t, 3, nil)
	known, err := g.Known(t.Context(), "acme")
	require.NoError(t, err)
	many := slices.Repeat([]string{"none", strings.Repeat("x", 10_000)}, 5000)
	for _, of := range []query.Wanted{{Devices: many}, {Metrics: many}, {Labels: many}} {
		hints := known.Hints(of)
		require.Len(t, hints, 10)
		require.Less(t, len(strings.Join(hints, "")), 3000)
	}
}

// A tenant that nobody has registered has no readings, and the answer says that its name may be wrong.
func TestUnknownTenantHasAHint(t *testing.T) {
	g := newTagged(t, 3, nil)
	for _, devices := range [][]string{nil, {"m001"}} {
		hints, err := g.Hints(t.Context(), query.Request{Tenant: "acmee", Devices: devices})
		require.NoError(t, err)
		require.Equal(t, []string{`no tenant "acmee": its first reading or an operator registers it`}, hints)
	}
	require.Equal(t, 0, g.lists, "made-up names cost nothing")
}

// A search ends with its context, however long its conditions take for the names that are left.
func TestSearchEndsWithItsContext(t *testing.T) {
	g := newTagged(t, 3, nil)
	for _, of := range []catalog.Property{catalog.OfDevice, catalog.OfMetric} {
		for name, search := range map[string]func(context.Context, query.Search) error{
			"devices":     func(ctx context.Context, s query.Search) error { _, _, err := g.Devices(ctx, s); return err },
			"facets":      func(ctx context.Context, s query.Search) error { _, _, _, err := g.Facets(ctx, s, nil); return err },
			"cardinality": func(ctx context.Context, s query.Search) error { _, err := g.Cardinality(ctx, s); return err },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			asked := 0
			slow := catalog.Matcher{Of: of, Match: func(string) bool {
				asked++
				cancel()
				return false
			}}
			err := search(ctx, query.Search{Tenant: "acme", Matchers: []catalog.Matcher{slow, slow}, Limit: 10})
			require.ErrorIs(t, err, context.Canceled, name)
			require.Equal(t, 1, asked, name)
		}
	}
}
