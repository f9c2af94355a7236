package tenantcopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/retry"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/tenant"
)

// freshFor is how old the orders may be under which a chunk is copied.
const freshFor = 5 * time.Second

// look returns the control documents of both sides, at most freshFor old, or with anew as of now. Orders of the
// source are at the target then (rule T4).
func (c *Copier) look(ctx context.Context, anew bool) (v facts, err error) {
	c.mu.Lock()
	v = c.facts
	c.mu.Unlock()
	if !anew && !v.at.IsZero() && c.cfg.Now().Sub(v.at) < freshFor {
		return v, nil
	}
	err = c.persist(ctx, func(ctx context.Context) error {
		v = facts{at: c.cfg.Now()}
		if err := c.mapStreams(ctx); err != nil {
			return err
		}
		if v.from, err = c.cfg.From.Directory.Refresh(ctx); err != nil {
			return err
		}
		if v.to, err = c.cfg.To.Directory.Refresh(ctx); err != nil {
			return err
		}
		if err := errors.Join(c.cfg.From.Directory.CheckClock(), c.cfg.To.Directory.CheckClock()); err != nil {
			return fmt.Errorf("%w: %w", errFinal, err)
		}
		return c.sendOrders(ctx, &v)
	})
	if err != nil {
		return v, err
	}
	var known bool
	if v.source, known = v.from.Tenant(c.cfg.Tenant); !known {
		return v, fmt.Errorf("%w: tenant %s: %w", errFinal, c.cfg.Tenant, tenant.ErrNoTenant)
	}
	if v.target, v.isThere = v.to.Tenant(c.cfg.Tenant); !v.isThere && !c.cfg.DryRun {
		return v, fmt.Errorf("tenant %s is not known at the target any more", c.cfg.Tenant)
	}
	c.mu.Lock()
	c.facts = v
	c.mu.Unlock()
	return v, nil
}

// settled returns the control documents of both sides when neither has an order that is announced alone: its operator
// acknowledges the order soon, or a sweep of that side makes the order of a dead one void.
func (c *Copier) settled(ctx context.Context) (v facts, err error) {
	for err == nil {
		if v, err = c.look(ctx, true); err != nil {
			break
		}
		all := slices.Concat(v.from.Erasures(c.cfg.Tenant), v.to.Erasures(c.cfg.Tenant))
		open := slices.IndexFunc(all, func(o *erasure.Order) bool { return !o.IsAcknowledged() })
		if open < 0 {
			break
		}
		c.cfg.Logger.Info("the copy waits for an order that is announced", "tenant", c.cfg.Tenant, "erasure", all[open].ID)
		err = retry.Pause(ctx, freshFor)
	}
	return v, err
}

// sendOrders stores at the target the orders of the source that it lacks.
func (c *Copier) sendOrders(ctx context.Context, v *facts) error {
	if c.cfg.DryRun {
		return nil
	}
	isThere := func(o *erasure.Order) bool { return !o.IsAcknowledged() || isStored(v.to, c.atTarget(o)) }
	lacking := slices.DeleteFunc(slices.Clone(v.from.Erasures(c.cfg.Tenant)), isThere)
	for _, o := range lacking {
		if err := c.sendOrder(ctx, o); err != nil {
			return err
		}
	}
	pauses := (retry.Policy{First: 50 * time.Millisecond, Max: time.Second}).Begin()
	for ; len(lacking) > 0; lacking = slices.DeleteFunc(lacking, isThere) {
		err := pauses.Wait(ctx)
		if err == nil {
			v.to, err = c.cfg.To.Directory.Refresh(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isStored(to *control.Snapshot, of *erasure.Order) bool {
	return slices.ContainsFunc(to.Erasures(of.Tenant), func(o *erasure.Order) bool {
		id, _, _ := strings.Cut(o.ID, copySuffix)
		return o.IsAcknowledged() && id == of.ID
	})
}

// copySuffix separates the id of an order and a number, where the order was copied once more.
const copySuffix = ".again"

// atTarget returns an order of the source as the target has it: under its id, which names the source if that has the
// order from another account, since the target may have it from there too.
func (c *Copier) atTarget(o *erasure.Order) *erasure.Order {
	to := *o
	if to.ID, _, _ = strings.Cut(o.ID, copySuffix); o.Account != "" {
		to.ID += "." + c.account
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if to.Account = ""; c.isNamed { // an earlier release has copied what does not name the source
		to.Account = erasure.Via(c.account, o.Account)
	}
	return &to
}

// sendOrder stores an order of the source at the target, under its id and time, with the positions of the streams that
// were copied. It covers nothing that is stored of the target's own: in its streams, and in the catalog and annotations
// as far as what was copied names the source. An order that is so old may be made void before it is acknowledged; then
// it is stored once more.
func (c *Copier) sendOrder(ctx context.Context, o *erasure.Order) error {
	to := c.atTarget(o)
	id := to.ID
	for n := 1; ; n++ {
		if err := c.cfg.To.Orders.Restore(ctx, to); err != nil {
			return err
		}
		positions, err := c.positions(ctx, o)
		if err == nil {
			err = c.cfg.To.Orders.Settle(ctx, c.cfg.To.Catalog, to.Acknowledged(positions))
		}
		if !errors.Is(err, erasure.ErrVoid) {
			return err
		}
		to.ID = fmt.Sprintf("%s%s%d", id, copySuffix, n)
	}
}

// positions returns the positions of an order at the target. It is called when the order is announced there: ingesters
// that begin a stream later know the order (rule E-R5).
func (c *Copier) positions(ctx context.Context, o *erasure.Order) (out []erasure.Position, err error) {
	for _, p := range o.Positions() {
		at, known := c.streamAt(p.Stream)
		if !known {
			return nil, fmt.Errorf("order %s is about stream %d, which the source does not list", o.ID, p.Stream)
		}
		out = append(out, erasure.Position{Stream: at, Partition: p.Partition, Through: p.Through})
	}
	all, err := stream.NewStreams(c.cfg.To.Documents).All(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if _, isCopied := c.streamOf(s.Number); !isCopied {
			out = append(out, erasure.Position{Stream: s.Number, Partition: erasure.EveryPartition, Through: -1})
		}
	}
	return out, nil
}

// order returns the id of an order of either side that erases a chunk of the source, empty for none.
func (c *Copier) order(v *facts, e *entry) string {
	at, _ := c.streamAt(e.ID.Stream)
	for _, o := range v.to.Erasures(c.cfg.Tenant).Of(e.Device, e.ID.Day) {
		if e.Through <= o.Through(at, e.ID.Partition) {
			return o.ID
		}
	}
	for _, o := range v.from.Erasures(c.cfg.Tenant).Of(e.Device, e.ID.Day) { // a dry run stores none at the target
		if e.Through <= o.Through(e.ID.Stream, e.ID.Partition) {
			return o.ID
		}
	}
	return ""
}

// ttl returns the time to live of a copy: the rest at the source, and no longer than either side keeps the day: the
// source hides at once what lives for some minutes longer there. It reports false for a chunk that one of them hides or
// is about to (rule T5).
func (c *Copier) ttl(v *facts, e *entry) (ttl int, ok bool) {
	now, day, ms := c.cfg.From.Now(), e.ID.Day, c.cfg.To.Now().UnixMilli()
	if v.source.ExpiredOf(e.Device, day, now.UnixMilli()) || v.isThere && v.target.ExpiredOf(e.Device, day, ms) {
		return 0, false
	}
	all := []int{v.source.TTLOf(e.Device, day, now.UnixMilli())}
	if v.isThere {
		all = append(all, v.target.TTLOf(e.Device, day, ms))
	}
	if e.TTL > 0 {
		left := e.TTL - int(now.Unix()-e.Stored)
		if left <= 0 {
			return 0, false
		}
		all = append(all, left)
	}
	for _, one := range all { // 0 never ends
		if ttl == 0 || one > 0 && one < ttl {
			ttl = one
		}
	}
	return ttl, true
}

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
	to := tenant.NewAnnotations(c.cfg.To.Documents, c.cfg.To.OfTenants, v.to.Erasures)
	return to.Merge(ctx, c.cfg.Tenant, c.account, all)
}

// copyCatalog stores at the target what the source's catalog says of the devices that are copied, with the times of
// their chunks (rule T6), unless an order has come since these were counted: what they have may be erased. It keeps
// apart what the source has from different accounts, as orders do. A page is named by its content, so that a repeat
// changes nothing.
func (c *Copier) copyCatalog(ctx context.Context, counted facts) error {
	infos, err := c.cfg.From.Catalog.Pages(ctx, c.cfg.Tenant, 0)
	known := make(map[string]*catalogcache.Copy) // by account
	for _, i := range infos {
		if err == nil && known[i.Account] == nil {
			of := catalogcache.Config{Catalog: c.cfg.From.Catalog, Of: &i.Account}
			known[i.Account], err = catalogcache.New(of).Get(ctx, c.cfg.Tenant, time.Time{})
		}
	}
	if err != nil {
		return err
	}
	v, err := c.look(ctx, true)
	if err != nil || c.orders(v) != c.orders(counted) {
		return err
	}
	devices := 0
	for account, from := range known {
		var pages []catalog.EncodedPage
		from.Use(func(x *catalog.Index) {
			entries := c.entries(&v, x, account)
			devices += len(entries)
			// That is later than all that the source has forgotten of these devices.
			pages, err = catalog.Pages(entries, x.Updated(), erasure.Via(c.account, account))
		})
		if err != nil {
			return err
		}
		for _, p := range pages {
			err := c.cfg.To.Catalog.Create(ctx, c.cfg.Tenant, p.ID, p.Doc)
			if err != nil && !errors.Is(err, store.ErrExists) {
				return fmt.Errorf("copy the catalog of %s: %w", c.cfg.Tenant, err)
			}
		}
	}
	c.mu.Lock()
	c.result.Devices = devices
	c.mu.Unlock()
	return nil
}

// entries returns what the target gets of entries that the source has from an account.
func (c *Copier) entries(v *facts, x *catalog.Index, account string) (out []catalog.Entry) {
	last, _, _ := strings.Cut(account, "/")
	own := slices.DeleteFunc(slices.Clone(v.to.Erasures(c.cfg.Tenant)), func(o *erasure.Order) bool {
		id, _, _ := strings.Cut(o.ID, copySuffix)
		isCopy := func(of *erasure.Order) bool { return c.atTarget(of).ID == id }
		return !o.IsAbout("") || !o.IsWhole() || slices.ContainsFunc(v.from.Erasures(c.cfg.Tenant), isCopy)
	})
	for _, device := range x.Devices() { // without those that an order of the target's own has forgotten
		if c.cfg.Device != "" && device != c.cfg.Device || len(own.Of(device, 0)) > 0 {
			continue
		}
		e, _ := x.Entry(device)
		if of, isCopied := c.times[deviceOf{device, last}]; isCopied {
			e.Span(of.From, of.To)
		}
		for k := range e.Tags { // the log of the target's own counts before the source's
			if from := &e.Tags[k].Source; from.Stream > 0 {
				from.Stream, from.Partition = 0, int32(from.Stream)
			}
		}
		out = append(out, e)
	}
	return out
}
