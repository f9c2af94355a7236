package tenantcopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
)

// copyAnnotations stores the source's annotations that the target lacks there, without what orders of erasure hide.
func (c *Copier) copyAnnotations(ctx context.Context) error {
	if c.cfg.Device != "" {
		return nil // they are the tenant's
	}
	v, err := c.look(ctx, false)
	if err != nil {
		return err
	}
	all, err := tenant.NewAnnotations(c.cfg.From.Documents, c.cfg.From.OfTenants, v.from.Erasures).List(ctx, c.cfg.Tenant)
	if err != nil {
		return err
	}
	return tenant.NewAnnotations(c.cfg.To.Documents, c.cfg.To.OfTenants, v.to.Erasures).Merge(ctx, c.cfg.Tenant, all)
}

// copyCatalog stores at the target what the source's catalog says of the devices that are copied (rule T6). A page is
// named by its content, so that a repeat changes nothing.
func (c *Copier) copyCatalog(ctx context.Context) error {
	v, err := c.look(ctx, false)
	if err != nil {
		return err
	}
	known, err := catalogcache.New(catalogcache.Config{Catalog: c.cfg.From.Catalog}).Get(ctx, c.cfg.Tenant,
		time.Time{})
	if err != nil {
		return err
	}
	var pages []catalog.EncodedPage
	devices := 0
	known.Use(func(x *catalog.Index) {
		var entries []catalog.Entry
		for _, device := range x.Devices() {
			if c.cfg.Device != "" && device != c.cfg.Device || c.forgottenAtTarget(&v, device) {
				continue
			}
			if e, ok := x.Entry(device); ok {
				entries = append(entries, e)
			}
		}
		devices = len(entries)
		// That is later than all that the source has forgotten of these devices.
		pages, err = catalog.Pages(entries, x.Updated())
	})
	if err != nil {
		return err
	}
	for _, p := range pages {
		if err := c.cfg.To.Catalog.Create(ctx, c.cfg.Tenant, p.ID, p.Doc); err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("copy the catalog of %s: %w", c.cfg.Tenant, err)
		}
	}
	c.mu.Lock()
	c.result.Devices = devices
	c.mu.Unlock()
	return nil
}
