package ingest

import (
	"context"
	"errors"
	"time"

	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/write"
	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/store"
)

// catalogCopyAge is the greatest age of the copy of a tenant's catalog that decides what is new: an older one is
// refreshed first, since others may have written the same.
const catalogCopyAge = time.Minute

// updateCatalog writes to the catalog what was seen and is missing there, in as few pages as possible. Other ingesters
// may write of the same devices at the same time: readers merge pages.
func (e *Executor) updateCatalog(ctx context.Context, j *write.CatalogUpdate) error {
	now := e.now()
	erased := e.stores.Directory.Snapshot().Erasures(j.Tenant).CatalogSince()
	known, err := e.devices.Get(ctx, j.Tenant, erased) // with an older copy everything is written again
	if err != nil {
		return err
	}
	news, updated := missingEntries(known, j, now)
	if since := now.Add(-catalogCopyAge); len(news) > 0 && !known.ReadAt().After(since) {
		if known, err = e.devices.Get(ctx, j.Tenant, since); err != nil {
			return err
		}
		news, updated = missingEntries(known, j, now)
	}
	pages, err := catalog.Pages(news, updated)
	if err != nil {
		return err
	}
	for _, p := range pages {
		err := e.stores.Catalog.Create(ctx, j.Tenant, p.ID, p.Doc)
		if err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
		if err := known.Add(ctx, catalog.Page{ID: p.ID, Entries: p.Entries, Updated: updated}); err != nil {
			return err
		}
	}
	j.Visible = make([]catalogupdates.Times, len(j.Entries))
	known.Use(func(x *catalog.Index) {
		for i := range j.Entries {
			if e, ok := x.Entry(j.Entries[i].Device); ok {
				j.Visible[i] = catalogupdates.Times{First: e.First, Last: e.Last}
			}
		}
	})
	return nil
}

// missingEntries returns what a copy of the catalog lacks of what was seen, and the time of the update, which is later
// than all that the copy has.
func missingEntries(
	known *catalogcache.Copy, j *write.CatalogUpdate, now time.Time,
) (news []catalog.Entry, updated int64) {
	known.Use(func(x *catalog.Index) {
		updated = max(now.UnixMilli(), x.Updated()+1)
		for i, seen := range j.Entries {
			if one, ok := x.Diff(seen, updated, j.Times[i]); ok {
				news = append(news, one)
			}
		}
	})
	return news, updated
}
