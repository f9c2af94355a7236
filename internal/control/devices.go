package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"binnacle/internal/catalog"
)

// Devices holds copies of the catalogs of tenants, each an index of all that its pages say, and reads into them what
// was stored since. It is safe for any number of callers and starts nothing that outlives a call.
type Devices struct {
	cfg DevicesConfig

	mu     sync.Mutex // guards below
	copies map[string]*Copy
	uses   int64
}

// Copy is a tenant's catalog as it was when it was read last. It goes on changing while others read it anew.
type Copy struct {
	reading semaphore // one read of the store at a time

	mu    sync.RWMutex // guards the index and at; only who reads the store changes them
	index *catalog.Index
	at    time.Time // when the last read began that came to its end; zero before the first one

	// Who reads the store owns these.
	pages  map[string]bool // that the index has
	stored int64           // the newest second at which a page was stored, by the store's clock

	// Devices guards these.
	used int64
	held int64
}

// DevicesConfig is what Devices needs. Catalog has no default.
type DevicesConfig struct {
	Catalog Catalog
	Bytes   int64 // that all copies may take, but for the one that was used last; 256 MiB
	Now     func() time.Time
}

// NewDevices makes a Devices that has read nothing.
func NewDevices(cfg DevicesConfig) *Devices {
	if cfg.Bytes <= 0 {
		cfg.Bytes = 256 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Devices{cfg: cfg, copies: make(map[string]*Copy)}
}

const (
	// pageMargin is what is read again before the newest page, in seconds: what was stored earlier may have been seen
	// later, where a replica lags or the clocks of the service differ.
	pageMargin = 5 * 60
	// readAtOnce is how many pages are asked for in one query.
	readAtOnce = 100
)

// Copy is the catalog of a tenant as it was in the store after an instant, or later: what was read since is used again.
func (d *Devices) Copy(ctx context.Context, tenant string, since time.Time) (*Copy, error) {
	c := d.enter(tenant)
	if c.At().After(since) {
		return c, nil
	}
	if err := d.refresh(ctx, tenant, c, since); err != nil {
		return nil, err
	}
	d.weigh(c)
	return c, nil
}

// At is when the read began that the copy is of; zero before the first one.
func (c *Copy) At() time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at
}

// Use calls use with the index, which must not be kept. use must not wait for anything.
func (c *Copy) Use(use func(*catalog.Index)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	use(c.index)
}

// Tell makes a page that was just stored part of the copy.
func (c *Copy) Tell(ctx context.Context, p catalog.Page) error {
	release, err := c.reading.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index.Add(p)
	c.pages[p.ID] = true
	return nil
}

// enter is a tenant's copy.
func (d *Devices) enter(tenant string) *Copy {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.copies[tenant]
	if c == nil {
		c = &Copy{reading: newSemaphore(), index: catalog.NewIndex(), pages: make(map[string]bool)}
		d.copies[tenant] = c
	}
	d.uses++
	c.used = d.uses
	return c
}

// weigh takes what a copy holds now, and drops others, those that were used longest ago first, as long as all take too
// much. Who uses one goes on with it.
func (d *Devices) weigh(c *Copy) {
	var held int64
	c.Use(func(x *catalog.Index) { held = x.Bytes() })
	d.mu.Lock()
	defer d.mu.Unlock()
	c.held = held
	total := int64(0)
	for _, o := range d.copies {
		total += o.held
	}
	for total > d.cfg.Bytes {
		oldest := ""
		for name, o := range d.copies {
			if o != c && o.held > 0 && (oldest == "" || o.used < d.copies[oldest].used) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		total -= d.copies[oldest].held
		delete(d.copies, oldest)
	}
}

// refresh reads what was stored since the last read.
func (d *Devices) refresh(ctx context.Context, tenant string, c *Copy, since time.Time) error {
	release, err := c.reading.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if c.At().After(since) { // while this caller waited
		return nil
	}
	began := d.cfg.Now()
	if err := d.read(ctx, tenant, c); err != nil {
		return fmt.Errorf("read the catalog of %s: %w", tenant, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = began
	return nil
}

// read makes the pages part of a copy that it has not yet. A read that fails goes on where it was when it is tried
// again.
func (d *Devices) read(ctx context.Context, tenant string, c *Copy) error {
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
		c.mu.Lock()
		c.index = c.index.Anew()
		c.mu.Unlock()
		c.pages, c.stored = make(map[string]bool), 0
	}
}

// errForgets says that a page takes out something that was read before it.
var errForgets = errors.New("a page forgets")

// readPages reads those pages that the copy lacks; whole is false when all have to be read anew.
func (d *Devices) readPages(ctx context.Context, tenant string, c *Copy, infos []PageInfo) (whole bool, err error) {
	var missing []string
	for _, i := range infos {
		if !c.pages[i.ID] {
			missing = append(missing, i.ID)
		}
	}
	for ids := range slices.Chunk(missing, readAtOnce) {
		err := d.cfg.Catalog.Read(ctx, tenant, ids, func(id string, doc []byte) error {
			p, err := catalog.Decode(id, doc)
			if err != nil {
				return fmt.Errorf("page %s: %w", id, err)
			}
			c.mu.Lock()
			added := c.index.Add(p)
			c.mu.Unlock()
			if c.pages[id] = true; !added {
				return errForgets
			}
			return nil
		})
		if errors.Is(err, errForgets) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}
