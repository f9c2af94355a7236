package box_test

import (
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/catalog"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/tenantcopy"
	"binnacle/internal/tenant"
)

// ends is what a copy that ends must have.
type ends struct {
	*copier
	since   time.Time // all that was stored by then
	entries []catalog.Entry
	notes   []note
}

// endsWith returns what a copy must have that compares both accounts from now on.
func (b *box) endsWith(x *copier) *ends {
	e := &ends{copier: x, since: time.Now()}
	index := b.stores.Catalog.Index(x.tenant)
	for _, device := range index.Devices() {
		if entry, ok := index.Entry(device); ok {
			e.entries = append(e.entries, entry)
		}
	}
	e.notes = b.copies.notes[x.tenant]
	return e
}

// hasCopied holds what a copy promises that has ended: of all that the source had when it began, the account has the
// same, but nothing of what orders erase that were acknowledged when it looked last.
func (o *oracle) hasCopied(x *ends, r *tenantcopy.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from.mu.Lock()
	defer o.from.mu.Unlock()
	stored := map[chunkName]chunk.Header{}
	for _, d := range o.b.stores.Chunks.Documents() {
		if c, err := chunk.Parse(d.Doc); err != nil {
			o.b.fail("a copy can't be read: %v", err)
		} else if o.streams[c.Header.ID.Stream].isCopied {
			stored[nameOf(&c.Header)] = c.Header
		}
	}
	for name, h := range o.from.made {
		if of, _, _ := strings.Cut(h.TenantShard, "~"); of != x.tenant || h.at.After(x.since) {
			continue
		}
		is, ok := stored[name]
		mayHave, mayLack := o.mayHave(x, &h.Header)
		if !ok || is.ID.Stream != r.Streams[h.ID.Stream] || is.First != h.First || is.Through != h.Through ||
			is.After != h.After || !(is.Rows == h.Rows && mayHave || is.Rows == 0 && mayLack) {
			o.b.fail("%s has ended, and of chunk %s of %s, which the source had before, with %d rows, there is %+v", x.from.name,
				h.ID, h.Device, h.Rows, is)
			return
		}
	}
	for id, of := range o.from.orders {
		isThere := slices.ContainsFunc(slices.Collect(maps.Values(o.orders)), func(is *ordered) bool {
			return baseOf(is.id) == id && !is.acknowledged.IsZero()
		})
		if of.tenant == x.tenant && of.isKnownTo(x.from) && !isThere {
			o.b.fail("%s has ended, and erasure %s is not copied", x.from.name, id)
		}
	}
	for _, e := range x.entries {
		isErased := func(x *ordered) bool { return x.to == erasure.EveryDay && (x.device == "" || x.device == e.Device) }
		is, ok := o.b.stores.Catalog.Entry(x.tenant, e.Device)
		if !o.anyOrder(isErased) && (!ok || is.First > e.First || is.Last < e.Last) {
			o.b.fail("%s has ended, and the catalog has %+v of %s instead of %+v", x.from.name, is, e.Device, e)
		}
	}
	if !o.anyOrder(func(of *ordered) bool { return of.tenant == x.tenant && of.device == "" }) {
		o.hasNotes(x)
	}
}

// hasNotes holds that annotations were copied.
func (o *oracle) hasNotes(x *ends) {
	docs := o.b.stores.Docs
	all, err := tenant.NewAnnotations(docs, docs, func(string) erasure.List { return nil }).List(o.b.context(), x.tenant)
	for _, a := range x.notes {
		isHere := slices.ContainsFunc(all, func(y tenant.Annotation) bool { return y.ID == a.ID && y.Text == a.Text })
		if err != nil || !isHere && a.at.Before(x.since.Add(-maxLag)) {
			o.b.fail("%s has ended, and annotation %s is not copied: %v", x.from.name, a.Text, err)
		}
	}
}

// mayHave reports whether the copy of a chunk may have rows, and whether it may have none.
func (o *oracle) mayHave(x *ends, h *chunk.Header) (rows, none bool) {
	rows, none = true, h.Rows == 0
	look := func(of *oracle, at int32, a *actor) {
		for _, order := range of.orders {
			if through, known := order.positions[at]; known && through >= h.Through && order.matches(x.tenant, h) {
				rows, none = rows && !order.isKnownTo(a), true
			}
		}
	}
	look(o.from, h.ID.Partition, x.from)
	look(o, h.ID.Partition+copiedFrom, x.to)
	return rows || h.Rows == 0, none
}

// anyOrder reports whether any order of either account is such a one.
func (o *oracle) anyOrder(is func(*ordered) bool) bool {
	of := append(slices.Collect(maps.Values(o.orders)), slices.Collect(maps.Values(o.from.orders))...)
	return slices.ContainsFunc(of, is)
}

// matches reports whether an order is about the device and day of a chunk.
func (x *ordered) matches(tenant string, h *chunk.Header) bool {
	return x.tenant == tenant && (x.device == "" || x.device == h.Device) && h.ID.Day >= x.from && h.ID.Day < x.to
}

// isKnownTo reports whether an order was acknowledged when an actor looked at orders last, and each replica showed it.
func (x *ordered) isKnownTo(a *actor) bool {
	return !x.acknowledged.IsZero() && x.acknowledged.Before(a.looked.Add(-maxLag))
}
