package storetest

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// Catalog is store.Catalog in memory. It fails the test when a caller breaks a rule of the contract.
// Its hook and its clock are set before it is used. See NewCatalog.
type Catalog struct {
	// Fault is asked before each operation, with the tenant and the page's id, if it is about one; nil, or an answer of
	// nil, lets it happen. It is called without a lock.
	Fault func(op, tenant, id string) *Fault
	// Now is the store's clock; nil is a clock that does not move.
	Now func() time.Time

	t testing.TB

	mu    sync.Mutex // guards below
	pages map[string]map[string]storedPage
	added int64 // pages, by Tell
}

type storedPage struct {
	doc    []byte
	page   catalog.Page
	stored int64
}

// NewCatalog makes an empty catalog.
func NewCatalog(t testing.TB) *Catalog {
	return &Catalog{t: t, pages: make(map[string]map[string]storedPage)}
}

// Create implements store.Catalog.
func (c *Catalog) Create(ctx context.Context, tenant, id string, doc []byte) error {
	if err := telemetry.CheckTenant(tenant); err != nil {
		c.t.Errorf("a page of the catalog: %v", err)
	}
	p, err := catalog.Decode(id, doc)
	if err != nil {
		c.t.Errorf("a page of the catalog of %s: %v", tenant, err)
	}
	for _, e := range p.Entries {
		if err := telemetry.CheckDevice(e.Device); err != nil {
			c.t.Errorf("a page of the catalog of %s: %v", tenant, err)
		}
	}
	f := c.fault(ctx, OpCreate, tenant, id)
	if f != nil && !f.Applied {
		return f.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pages[tenant] == nil {
		c.pages[tenant] = make(map[string]storedPage)
	}
	old, found := c.pages[tenant][id]
	if found && !bytes.Equal(old.doc, doc) {
		c.t.Errorf("page %s of the catalog of %s has two contents", id, tenant)
	}
	if !found {
		stored := int64(1_000_000)
		if c.Now != nil {
			stored = c.Now().Unix()
		}
		c.pages[tenant][id] = storedPage{bytes.Clone(doc), p, stored}
	}
	switch {
	case f != nil:
		return f.Err
	case found:
		return store.ErrExists
	}
	return nil
}

// Pages implements store.Catalog.
func (c *Catalog) Pages(ctx context.Context, tenant string, since int64) (out []store.PageInfo, err error) {
	if f := c.fault(ctx, OpList, tenant, ""); f != nil {
		return nil, f.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.pages[tenant])) {
		if p := c.pages[tenant][id]; p.stored >= since {
			out = append(out, store.PageInfo{ID: id, Stored: p.stored, Devices: len(p.page.Entries), Updated: p.page.Updated,
				Bytes: len(p.doc), HasForgotten: len(p.page.Forget) > 0, Applied: p.page.Applied, Replaces: p.page.Replaces,
				Account: p.page.Account})
		}
	}
	return out, nil
}

// Read implements store.Catalog.
func (c *Catalog) Read(ctx context.Context, tenant string, ids []string,
	yield func(id string, doc []byte) error) error {
	for _, id := range ids {
		if f := c.fault(ctx, OpRead, tenant, id); f != nil {
			return f.Err
		}
		c.mu.Lock()
		p, ok := c.pages[tenant][id]
		c.mu.Unlock()
		if !ok {
			continue
		}
		lent := bytes.Clone(p.doc)
		err := yield(id, lent)
		clear(lent) // the bytes are yield's only until it returns
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete implements store.Catalog.
func (c *Catalog) Delete(ctx context.Context, tenant, id string) error {
	f := c.fault(ctx, OpDelete, tenant, id)
	if f != nil && !f.Applied {
		return f.Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pages[tenant], id)
	if f != nil {
		return f.Err
	}
	return nil
}

// AddPage stores a page that says something of devices, later than all others.
func (c *Catalog) AddPage(tenant string, entries ...catalog.Entry) {
	c.t.Helper()
	c.mu.Lock()
	c.added++
	at := c.added
	c.mu.Unlock()
	for i := range entries {
		for k := range entries[i].Tags {
			entries[i].Tags[k].Updated = at
		}
		entries[i].Normalize()
	}
	id, doc, err := catalog.Encode(catalog.Page{Entries: entries, Updated: at})
	require.NoError(c.t, err)
	fault := c.Fault
	c.Fault = nil
	defer func() { c.Fault = fault }()
	require.NoError(c.t, c.Create(context.Background(), tenant, id, doc))
}

// All returns the pages of a tenant.
func (c *Catalog) All(tenant string) (out []catalog.Page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.pages[tenant])) {
		out = append(out, c.pages[tenant][id].page)
	}
	return out
}

// Index returns what the pages of a tenant say together.
func (c *Catalog) Index(tenant string) *catalog.Index {
	x := catalog.NewIndex()
	for pages := c.All(tenant); ; x = x.Emptied() {
		whole := true
		for _, p := range pages {
			whole = x.Add(p) && whole
		}
		if whole {
			return x
		}
	}
}

// Entry returns what the pages of a tenant say of a device.
func (c *Catalog) Entry(tenant, device string) (catalog.Entry, bool) {
	return c.Index(tenant).Entry(device)
}

func (c *Catalog) fault(ctx context.Context, op, tenant, id string) *Fault {
	if err := ctx.Err(); err != nil {
		return &Fault{Err: err}
	}
	store.Charge(ctx, 1, false)
	if c.Fault == nil {
		return nil
	}
	return c.Fault(op, tenant, id)
}

// Entry returns an entry with tags, and metrics of numbers.
func Entry(device string, tags map[string]string, metrics ...string) catalog.Entry {
	e := catalog.Entry{Device: device, First: 1, Last: 2}
	for name, value := range tags {
		e.Tags = append(e.Tags, catalog.Tag{Name: name, Value: value, Updated: 1})
	}
	for _, m := range metrics {
		e.Metrics = append(e.Metrics, catalog.Metric{Name: m, Kind: telemetry.Float})
	}
	e.Normalize()
	return e
}
