// Package catalogcache holds copies of the catalogs of tenants and keeps them fresh.
package catalogcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/settings"
	"binnacle/internal/store"

	"golang.org/x/sync/semaphore"
)

// Cache holds copies of the catalogs of tenants, each an index of all its pages, and reads into them what was
// stored since. It is safe for any number of callers and starts nothing that outlives a call.
type Cache struct {
	cfg Config

	mu     sync.Mutex // guards below
	copies map[string]*Copy
	clock  int64
}

// Copy is a tenant's catalog as it was when it was read last. It changes while other callers read it again.
type Copy struct {
	reading *semaphore.Weighted // one read of the store at a time

	mu    sync.RWMutex // guards below; only the holder of reading changes them
	index *catalog.Index
	// at is when the last complete read began; zero before the first one.
	at time.Time

	version uint64 // changes with index

	// The holder of reading owns anew, pages and stored; mu does not guard them. anew replaces index once it has all
	// pages. It is nil while no read has to begin again.
	anew *catalog.Index
	// pages holds the ids of the pages that anew has, or that index has while anew is nil.
	pages  map[string]bool
	stored int64 // the newest second at which a page was stored, by the store's clock

	// Cache.mu guards these.
	lastUsed int64
	bytes    int64
}

// Config is what a Cache needs. Catalog has no default.
type Config struct {
	Catalog store.Catalog
	// Of leaves out all entries but those copied from an account, empty: the account's own (rule T6). Nil leaves out none.
	Of *string
	// Bytes bounds the memory of all copies except the one that was used last.
	Bytes int64 `type:"mib" default:"256"`
	Now   func() time.Time
}

// New makes a Cache that has read nothing.
func New(cfg Config) *Cache {
	settings.Defaults(&cfg)
	return &Cache{cfg: cfg, copies: make(map[string]*Copy)}
}

// pageMargin is the time before the newest page from which on pages are read again, in seconds: what was stored earlier
// may have been seen later, where a replica lags or the clocks of the service differ.
const pageMargin = 5 * 60

// Get returns the catalog of a tenant as the store had it after an instant, or later. A copy that was read since is
// used again.
func (d *Cache) Get(ctx context.Context, tenant string, since time.Time) (*Copy, error) {
	c := d.entry(tenant)
	if c.ReadAt().After(since) {
		return c, nil
	}
	if err := d.refresh(ctx, tenant, c, since); err != nil {
		return nil, err
	}
	d.evict(c)
	return c, nil
}

// ReadAt returns when the read began that the copy shows; zero before the first one.
func (c *Copy) ReadAt() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at
}

// versions is the last version of any copy.
var versions atomic.Uint64

// Version returns a number that no other copy has, and that is another one after each change.
func (c *Copy) Version() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.version
}

// set puts an index into the copy. The caller holds mu.
func (c *Copy) set(x *catalog.Index) {
	c.index, c.version = x, versions.Add(1)
}

// add adds a page that was read. The caller holds reading.
func (c *Copy) add(p catalog.Page) bool {
	if c.anew != nil {
		return c.anew.Add(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.index)
	return c.index.Add(p)
}

// Use calls use with the index, which must not be kept. use must not wait for anything.
func (c *Copy) Use(use func(*catalog.Index)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	use(c.index)
}

// Add makes a page that was just stored part of the copy.
func (c *Copy) Add(ctx context.Context, p catalog.Page) error {
	if err := c.reading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.reading.Release(1)
	if c.anew != nil {
		c.anew.Add(p)
	}
	c.pages[p.ID] = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(c.index)
	c.index.Add(p)
	return nil
}

func (d *Cache) entry(tenant string) *Copy {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.copies[tenant]
	if c == nil {
		c = &Copy{reading: semaphore.NewWeighted(1), index: catalog.NewIndex(), pages: make(map[string]bool)}
		d.copies[tenant] = c
	}
	d.clock++
	c.lastUsed = d.clock
	return c
}

// evict records how much memory a copy holds, and drops the least recently used other copies while all of them hold too
// much. Callers that have one may go on with it.
func (d *Cache) evict(c *Copy) {
	var held int64
	c.Use(func(x *catalog.Index) { held = x.Bytes() })
	d.mu.Lock()
	defer d.mu.Unlock()
	c.bytes = held
	total := int64(0)
	for _, o := range d.copies {
		total += o.bytes
	}
	for total > d.cfg.Bytes {
		oldest := ""
		for name, o := range d.copies {
			if o != c && o.bytes > 0 && (oldest == "" || o.lastUsed < d.copies[oldest].lastUsed) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		total -= d.copies[oldest].bytes
		delete(d.copies, oldest)
	}
}

func (d *Cache) refresh(ctx context.Context, tenant string, c *Copy, since time.Time) error {
	if err := c.reading.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.reading.Release(1)
	if c.ReadAt().After(since) { // while this caller waited
		return nil
	}
	began := d.cfg.Now()
	if err := d.read(ctx, tenant, c); err != nil {
		return fmt.Errorf("read the catalog of %s: %w", tenant, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = began
	if c.anew != nil {
		c.set(c.anew)
		c.anew = nil
	}
	return nil
}

// read makes the pages part of a copy that it has not yet. A read that fails continues where it was when it is tried
// again. What has to be read from the beginning is read beside the index: others use that meanwhile.
func (d *Cache) read(ctx context.Context, tenant string, c *Copy) error {
	for {
		infos, err := d.cfg.Catalog.Pages(ctx, tenant, max(0, c.stored-pageMargin))
		if err != nil {
			return err
		}
		whole, err := d.readPages(ctx, tenant, c, infos)
		if err != nil {
			return err
		}
		if whole {
			for _, i := range infos {
				c.stored = max(c.stored, i.Stored)
			}
			return nil
		}
		c.anew = cmp.Or(c.anew, c.index).Emptied()
		c.pages, c.stored = make(map[string]bool), 0
	}
}

// errForgets says that a page takes out something that was read before it.
var errForgets = errors.New("a page forgets")

// readPages reads the pages that the copy lacks; whole is false when all must be read again.
func (d *Cache) readPages(ctx context.Context, tenant string, c *Copy, infos []store.PageInfo) (whole bool,
	err error) {
	var missing []string
	for _, i := range infos {
		if !c.pages[i.ID] {
			missing = append(missing, i.ID)
		}
	}
	err = store.TenantPages{Catalog: d.cfg.Catalog, Tenant: tenant}.Read(ctx, missing, func(p catalog.Page) error {
		if d.cfg.Of != nil && p.Account != *d.cfg.Of {
			p.Entries = nil
		}
		added := c.add(p)
		if c.pages[p.ID] = true; !added {
			return errForgets
		}
		return nil
	})
	if errors.Is(err, errForgets) {
		return false, nil
	}
	return err == nil, err
}
