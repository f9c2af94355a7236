package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/control"
	"binnacle/internal/retry"
)

// CatalogMergerConfig is what a Keeper needs. Catalog and Tenants have no default.
type CatalogMergerConfig struct {
	Catalog control.Catalog
	Tenants func(ctx context.Context) ([]string, error)
	Now     func() time.Time // time.Now
	Every   time.Duration    // between two rounds, 1 h
	Logger  *slog.Logger     // none
}

// CatalogMerger keeps the catalogs of tenants small: it merges their pages, and deletes those whose content is in
// others. It may die anywhere, and two of them do no harm: a page that says what
// another one says changes nothing.
type CatalogMerger struct {
	cfg CatalogMergerConfig

	// Owned by Run, or the caller of Round.
	distinct map[string]mergeEstimate
}

// mergeEstimate has how many devices a tenant had when all of its pages were read, and how many entries the pages had.
type mergeEstimate struct{ devices, entries int }

// NewCatalogMerger makes a Keeper.
func NewCatalogMerger(cfg CatalogMergerConfig) *CatalogMerger {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Every <= 0 {
		cfg.Every = time.Hour
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &CatalogMerger{cfg: cfg, distinct: make(map[string]mergeEstimate)}
}

// Run does a round now and then, until the context ends.
func (k *CatalogMerger) Run(ctx context.Context) error {
	for {
		if err := k.Round(ctx); err != nil && ctx.Err() == nil {
			k.cfg.Logger.Warn("some catalogs were not merged: the next round continues", "error", err)
		}
		if retry.Pause(ctx, k.cfg.Every) != nil {
			return nil
		}
	}
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
)

func (k *CatalogMerger) maintain(ctx context.Context, tenant string) error {
	infos, err := k.cfg.Catalog.Pages(ctx, tenant, 0)
	if err != nil {
		return err
	}
	settled := k.cfg.Now().Add(-settledAfter).Unix()
	replaced := make(map[string]bool)
	var doomed []control.PageInfo
	for _, i := range infos {
		for _, id := range i.Replaces {
			replaced[id] = true
		}
		if len(i.Replaces) > 0 && i.Stored < settled {
			doomed = append(doomed, i)
		}
	}
	if err := k.remove(ctx, tenant, infos, doomed); err != nil {
		return err
	}
	infos = slices.DeleteFunc(infos, func(i control.PageInfo) bool { return replaced[i.ID] || len(i.Replaces) > 0 })
	return k.merge(ctx, tenant, slices.DeleteFunc(infos, func(i control.PageInfo) bool { return i.Stored >= settled }))
}

// remove deletes pages that others replace, and then the pages that list them.
func (k *CatalogMerger) remove(ctx context.Context, tenant string, infos, doomed []control.PageInfo) error {
	there := make(map[string]bool, len(infos))
	for _, i := range infos {
		there[i.ID] = true
	}
	for _, d := range doomed {
		for _, id := range append(slices.Clone(d.Replaces), d.ID) {
			if !there[id] {
				continue
			}
			if err := k.cfg.Catalog.Delete(ctx, tenant, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge puts small pages together, or all of them where half of what they say is said twice, or something is to be
// forgotten.
func (k *CatalogMerger) merge(ctx context.Context, tenant string, infos []control.PageInfo) error {
	said, forget := 0, false
	var small []control.PageInfo
	for _, i := range infos {
		said += i.Devices
		forget = forget || i.HasForgotten && !i.Applied
		if i.Devices > 0 && i.Bytes < smallBytes && !i.HasForgotten {
			small = append(small, i)
		}
	}
	known := k.distinct[tenant]
	if !forget && said > known.entries+known.entries/4 && len(infos) > 1 {
		devices, err := k.count(ctx, pageSet{tenant, infos, infos, said})
		if err != nil {
			return err
		}
		known = mergeEstimate{devices, said}
		k.distinct[tenant] = known
	}
	switch {
	case forget || said > 2*known.devices+1000 && len(infos) > 1:
		delete(k.distinct, tenant)
		return k.replace(ctx, pageSet{tenant, infos, infos, said})
	case len(small) >= smallPages:
		slices.SortFunc(small, func(a, b control.PageInfo) int { return int(a.Stored - b.Stored) })
		small = small[:min(len(small), mostPages)]
		n := 0
		for _, i := range small {
			n += i.Devices
		}
		return k.replace(ctx, pageSet{tenant, infos, small, n})
	}
	return nil
}

// pageSet is some pages of a tenant, among all of its pages.
type pageSet struct {
	tenant    string
	all, some []control.PageInfo
	entries   int // of some
}

// count returns how many devices have an entry in some pages.
func (k *CatalogMerger) count(ctx context.Context, p pageSet) (devices int, err error) {
	err = k.each(ctx, p, func(x *catalog.Index) error {
		devices += x.Len()
		return nil
	})
	return devices, err
}

// replace stores pages that say what others say, and then one that says so. What any page of the tenant forgets is left
// out, and where all pages are replaced that is noted with what is to be forgotten of pages that were not seen.
func (k *CatalogMerger) replace(ctx context.Context, p pageSet) error {
	tenant, all, some := p.tenant, p.all, p.some
	done := catalog.Page{}
	for _, i := range some {
		done.Replaces, done.Updated = append(done.Replaces, i.ID), max(done.Updated, i.Updated)
	}
	slices.Sort(done.Replaces)
	var forgotten []catalog.Forgotten
	made := make(map[string]bool)
	err := k.each(ctx, p, func(x *catalog.Index) error {
		forgotten = x.Forgotten()
		entries := slices.Collect(x.Select(nil, 0, x.Blocks()).Each)
		slices.SortFunc(entries, func(a, b catalog.Entry) int { return strings.Compare(a.Device, b.Device) })
		pages, err := catalog.Pages(entries, done.Updated)
		for _, p := range pages {
			made[p.ID] = true
		}
		return errors.Join(err, k.create(ctx, tenant, pages))
	})
	if err != nil {
		return err
	}
	if len(some) == len(all) && len(forgotten) > 0 {
		id, err := k.createPage(ctx, tenant, catalog.Page{Forget: forgotten, Applied: true, Updated: done.Updated})
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
	k.cfg.Logger.Info("pages of a catalog merged", "tenant", tenant, "pages", len(some), "into", len(made))
	_, err = k.createPage(ctx, tenant, done)
	return err
}

// each calls use with an index of what some pages say, in parts of about passDevices devices: no device is in two.
func (k *CatalogMerger) each(ctx context.Context, p pageSet, use func(*catalog.Index) error) error {
	passes := uint64(p.entries/passDevices + 1)
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
		add := func(id string, doc []byte) error {
			page, err := catalog.Decode(id, doc)
			if err != nil {
				return fmt.Errorf("page %s: %w", id, err)
			}
			read[id] = true
			if !wanted[id] {
				page.Entries = nil
			}
			page.Entries = slices.DeleteFunc(page.Entries, func(e catalog.Entry) bool {
				return passes > 1 && catalog.Digest(e.Device)%passes != pass
			})
			x.Add(page) // what forgets comes first
			return nil
		}
		for _, list := range [][]string{forgets, ids} {
			for part := range slices.Chunk(list, 100) {
				if err := k.cfg.Catalog.Read(ctx, p.tenant, part, add); err != nil {
					return err
				}
			}
		}
		for id := range maps.Keys(wanted) {
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
		if err != nil && !errors.Is(err, control.ErrExists) {
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
