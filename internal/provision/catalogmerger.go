package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
)

// CatalogMergerConfig is what a CatalogMerger needs. Catalog and Tenants have no default.
type CatalogMergerConfig struct {
	Catalog store.Catalog
	Tenants func(ctx context.Context) ([]string, error)
	Now     func() time.Time // time.Now
	Every   time.Duration    `default:"1h"` // between two rounds
	Logger  *slog.Logger     // none
}

// CatalogMerger keeps the catalogs of tenants small: it merges their pages, and deletes pages that others repeat. It
// may die anywhere, and two of them do no harm: a page that repeats another page changes nothing.
type CatalogMerger struct {
	cfg CatalogMergerConfig

	// Owned by Run, or the caller of Round. By tenant and account.
	distinct map[[2]string]mergeEstimate
}

// mergeEstimate counts an account's devices when all of its pages were read, and the entries of those pages.
type mergeEstimate struct{ devices, entries int }

// NewCatalogMerger makes a CatalogMerger.
func NewCatalogMerger(cfg CatalogMergerConfig) *CatalogMerger {
	settings.Defaults(&cfg)
	return &CatalogMerger{cfg: cfg, distinct: make(map[[2]string]mergeEstimate)}
}

// Run does a round now and then, until the context ends.
func (k *CatalogMerger) Run(ctx context.Context) error {
	loop := retry.Loop{Every: k.cfg.Every, Log: k.cfg.Logger, Over: "catalogs are merged again",
		Failing: "some catalogs were not merged: the next round continues"}
	return loop.Run(ctx, k.Round)
}

// Round keeps the catalogs of all tenants once.
func (k *CatalogMerger) Round(ctx context.Context) error {
	tenants, err := k.cfg.Tenants(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, tenant := range tenants {
		if err := k.maintain(ctx, tenant); err != nil {
			errs = append(errs, fmt.Errorf("catalog of %s: %w", tenant, err))
		}
	}
	return errors.Join(errs...)
}

const (
	// settledAfter is the age at which every reader has a page, and everything that was stored before it. It must be
	// longer than a reader takes to read what it lacks.
	settledAfter = 10 * time.Minute
	// smallBytes is what the columns of a small page have at most, and smallPages how many of them are merged.
	smallBytes, smallPages, mostPages = 32 << 10, 16, 256
	// passDevices is how many devices are merged at a time.
	passDevices = 500_000
	// purgedAfter is the age of pages that Purge replaces, and goneAfter how long they stay then: the lead of an erasure
	// has room for both.
	purgedAfter, goneAfter = 4 * time.Minute, 7 * time.Minute
)

func (k *CatalogMerger) maintain(ctx context.Context, tenant string) error {
	infos, err := k.cfg.Catalog.Pages(ctx, tenant, 0)
	if err != nil {
		return err
	}
	current, err := k.current(ctx, tenant, infos, settledAfter)
	if err != nil {
		return err
	}
	p := pageSet{tenant: tenant, all: infos, some: k.olderThan(current, settledAfter)}
	if slices.ContainsFunc(p.some, func(i store.PageInfo) bool { return i.HasForgotten && !i.Applied }) {
		held, err := HoldForgotten(ctx, k.cfg.Catalog, tenant, infos)
		if err == nil {
			err = k.forget(ctx, p, held)
		}
		return err
	}
	for _, p := range p.byAccount() {
		if err := k.merge(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// olderThan returns the pages that were stored at least that long ago.
func (k *CatalogMerger) olderThan(infos []store.PageInfo, age time.Duration) (out []store.PageInfo) {
	settled := k.cfg.Now().Add(-age).Unix()
	for _, i := range infos {
		if i.Stored < settled {
			out = append(out, i)
		}
	}
	return out
}

// current returns the pages that are not replaced, and deletes pages that were replaced longer than an age ago.
func (k *CatalogMerger) current(ctx context.Context, tenant string, infos []store.PageInfo, age time.Duration) (
	[]store.PageInfo, error) {
	replaced := make(map[string]bool)
	for _, i := range infos {
		for _, id := range i.Replaces {
			replaced[id] = true
		}
	}
	for _, i := range k.olderThan(infos, age) {
		if len(i.Replaces) == 0 {
			continue
		}
		for _, id := range append(slices.Clone(i.Replaces), i.ID) { // the list goes last
			if err := k.cfg.Catalog.Delete(ctx, tenant, id); err != nil {
				return nil, err
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(infos), func(i store.PageInfo) bool {
		return replaced[i.ID] || len(i.Replaces) > 0
	}), nil
}

// Purge takes what a tenant's catalog has forgotten out of its pages sooner than rounds do, and reports whether no page
// had any of it. It reads the whole catalog.
func (k *CatalogMerger) Purge(ctx context.Context, tenant string) (isClean bool, err error) {
	infos, err := k.cfg.Catalog.Pages(ctx, tenant, 0)
	if err != nil {
		return false, err
	}
	current, err := k.current(ctx, tenant, infos, goneAfter)
	if err != nil {
		return false, err
	}
	if infos, err = k.cfg.Catalog.Pages(ctx, tenant, 0); err != nil {
		return false, err
	}
	held, err := HoldForgotten(ctx, k.cfg.Catalog, tenant, infos)
	if err != nil {
		return false, err
	}
	old := k.olderThan(current, purgedAfter)
	return len(held) == 0, k.forget(ctx, pageSet{tenant: tenant, all: infos, some: old}, held)
}

// HoldForgotten returns the ids of a tenant's pages with entries of devices that the catalog has forgotten since.
func HoldForgotten(ctx context.Context, c store.Catalog, tenant string, infos []store.PageInfo) (held []string,
	err error) {
	var forgets, ids []string
	for _, i := range infos {
		if i.HasForgotten {
			forgets = append(forgets, i.ID)
		}
		if i.Devices > 0 {
			ids = append(ids, i.ID)
		}
	}
	x, pages := catalog.NewIndex(), store.TenantPages{Catalog: c, Tenant: tenant}
	read := func(page catalog.Page) error {
		x.Add(catalog.Page{Forget: page.Forget})
		if slices.ContainsFunc(page.Entries, func(e catalog.Entry) bool {
			at, isForgotten := x.ForgottenUntil(e.Device, page.Account)
			return isForgotten && page.Updated <= at
		}) {
			held = append(held, page.ID)
		}
		return nil
	}
	for _, list := range [][]string{forgets, ids} {
		held = nil // all that is forgotten is known from the second list on
		if err := pages.Read(ctx, list, read); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// forget replaces those of some pages that have entries of forgotten devices by pages without these entries. Then it
// stores that none but young pages have any, and that pages which were not seen must forget the same.
func (k *CatalogMerger) forget(ctx context.Context, p pageSet, held []string) error {
	forgets, isNew := pageSet{tenant: p.tenant, all: p.all, isApplied: true}, false
	for _, i := range p.some {
		if i.HasForgotten {
			forgets.some, isNew = append(forgets.some, i), isNew || !i.Applied
		}
	}
	p.some = slices.DeleteFunc(p.some, func(i store.PageInfo) bool { return !slices.Contains(held, i.ID) })
	for _, p := range p.byAccount() {
		isNew = true
		if err := k.replace(ctx, p); err != nil {
			return err
		}
	}
	if !isNew {
		return nil
	}
	return k.replace(ctx, forgets)
}

// merge puts small pages of an account together, or all where half of their entries are repetitions.
func (k *CatalogMerger) merge(ctx context.Context, p pageSet) error {
	var small []store.PageInfo
	for _, i := range p.some {
		if i.Bytes < smallBytes {
			small = append(small, i)
		}
	}
	said, name := p.entries(), [2]string{p.tenant, p.account}
	known := k.distinct[name]
	if said > known.entries+known.entries/4 && len(p.some) > 1 {
		known = mergeEstimate{entries: said}
		err := k.each(ctx, p, func(x *catalog.Index) error {
			known.devices += x.Len()
			return nil
		})
		if err != nil {
			return err
		}
		k.distinct[name] = known
	}
	switch {
	case said > 2*known.devices+1000 && len(p.some) > 1:
		delete(k.distinct, name)
	case len(small) >= smallPages:
		slices.SortFunc(small, func(a, b store.PageInfo) int { return int(a.Stored - b.Stored) })
		p.some = small[:min(len(small), mostPages)]
	default:
		return nil
	}
	return k.replace(ctx, p)
}

// pageSet is some pages of a tenant. What any page of all forgets, a young or replaced one as well, counts in them: the
// pages that repeat their entries have a later time.
type pageSet struct {
	tenant    string
	all, some []store.PageInfo
	account   string // that of all pages in some
	isApplied bool   // pages that were not seen must forget the same
}

func (p pageSet) entries() (n int) {
	for _, i := range p.some {
		n += i.Devices
	}
	return n
}

// byAccount returns the pages of each account that have entries. They stay apart: an order of erasure that was copied
// from an account is about its pages alone.
func (p pageSet) byAccount() (out []pageSet) {
	for _, i := range p.some {
		at := slices.IndexFunc(out, func(o pageSet) bool { return o.account == i.Account })
		switch {
		case i.Devices == 0:
		case at < 0:
			out = append(out, pageSet{p.tenant, p.all, []store.PageInfo{i}, i.Account, false})
		default:
			out[at].some = append(out[at].some, i)
		}
	}
	return out
}

// replace stores pages that repeat other pages' entries, and then one that says so. What any page of the tenant
// forgets is left out.
func (k *CatalogMerger) replace(ctx context.Context, p pageSet) error {
	done := catalog.Page{}
	for _, i := range p.some {
		done.Replaces, done.Updated = append(done.Replaces, i.ID), max(done.Updated, i.Updated)
	}
	slices.Sort(done.Replaces)
	forgotten, made := []catalog.Forgotten(nil), make(map[string]bool)
	err := k.each(ctx, p, func(x *catalog.Index) error {
		if p.isApplied {
			forgotten = x.Forgotten()
		}
		entries := slices.Collect(x.Select(nil, 0, x.Blocks()).Each)
		slices.SortFunc(entries, func(a, b catalog.Entry) int { return strings.Compare(a.Device, b.Device) })
		pages, err := catalog.Pages(entries, done.Updated, p.account)
		for _, p := range pages {
			made[p.ID] = true
		}
		return errors.Join(err, k.create(ctx, p.tenant, pages))
	})
	if err != nil {
		return err
	}
	for some := range slices.Chunk(forgotten, catalog.MaxForgotten) {
		id, err := k.createPage(ctx, p.tenant, catalog.Page{Forget: some, Applied: true, Updated: done.Updated})
		if err != nil {
			return err
		}
		made[id] = true
	}
	// What came out as it was stays.
	done.Replaces = slices.DeleteFunc(done.Replaces, func(id string) bool { return made[id] })
	if len(done.Replaces) == 0 {
		return nil
	}
	k.cfg.Logger.Info("pages of a catalog merged", "tenant", p.tenant, "pages", len(p.some), "into", len(made))
	_, err = k.createPage(ctx, p.tenant, done)
	return err
}

// each calls use with an index of what some pages say, in parts of about passDevices devices: no device is in two.
func (k *CatalogMerger) each(ctx context.Context, p pageSet, use func(*catalog.Index) error) error {
	passes, pages := uint64(p.entries()/passDevices+1), store.TenantPages{Catalog: k.cfg.Catalog, Tenant: p.tenant}
	wanted := make(map[string]bool)
	var forgets, ids []string
	for _, i := range p.some {
		wanted[i.ID] = true
		ids = append(ids, i.ID)
	}
	for _, i := range p.all {
		if i.HasForgotten {
			forgets = append(forgets, i.ID)
		}
	}
	for pass := range passes {
		x, read := catalog.NewIndex(), make(map[string]bool)
		add := func(page catalog.Page) error {
			read[page.ID] = true
			if !wanted[page.ID] {
				page.Entries = nil
			}
			page.Entries = slices.DeleteFunc(page.Entries, func(e catalog.Entry) bool {
				return passes > 1 && catalog.Digest(e.Device)%passes != pass
			})
			x.Add(page) // pages that forget come first
			return nil
		}
		for _, list := range [][]string{forgets, ids} {
			if err := pages.Read(ctx, list, add); err != nil {
				return err
			}
		}
		for id := range wanted {
			if !read[id] {
				return fmt.Errorf("page %s is gone: another process merges", id)
			}
		}
		if err := use(x); err != nil {
			return err
		}
	}
	return nil
}

func (k *CatalogMerger) create(ctx context.Context, tenant string, pages []catalog.EncodedPage) error {
	for _, p := range pages {
		err := k.cfg.Catalog.Create(ctx, tenant, p.ID, p.Doc)
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return nil
}

func (k *CatalogMerger) createPage(ctx context.Context, tenant string, p catalog.Page) (id string, err error) {
	id, doc, err := catalog.Encode(p)
	if err != nil {
		return "", err
	}
	return id, k.create(ctx, tenant, []catalog.EncodedPage{{ID: id, Doc: doc}})
}
