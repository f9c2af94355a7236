package engine

import (
	"cmp"
	"context"
	"math"
	"time"

	"binnacle/internal/lab/emulator/kv"
)

// sweepBatch is how many expired items are removed under one lock.
const sweepBatch = 128

// Sweep removes the items that have expired, and returns how many.
func (a *Account) Sweep(ctx context.Context, now time.Time) (removed int, err error) {
	for _, co := range a.containers() {
		if co.current.Load().TTL == 0 || co.earliest.Load() > now.Unix() {
			continue // nothing can have expired
		}
		n, err := co.sweep(ctx, now)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// sweep walks all headers of a container. On the way it learns when the next item expires: until then a sweep
// has nothing to do. A write from now on lowers that time, see container.expires.
func (c *Container) sweep(ctx context.Context, now time.Time) (int, error) {
	c.earliest.Store(never)
	removed, err := c.walkExpired(ctx, now)
	if err != nil {
		c.earliest.Store(0)
	}
	return removed, err
}

func (c *Container) walkExpired(ctx context.Context, now time.Time) (removed int, err error) {
	var names [][]byte
	flush := func() error {
		n, err := c.removeExpired(names, now)
		removed += n
		names = names[:0]
		return err
	}
	ttl := c.current.Load().TTL
	err = c.headers(span{}, func(item []byte, h *header) (bool, error) {
		if at := h.expiry(ttl); at > now.Unix() {
			c.expires(at)
		} else {
			names = append(names, append(appendPrefix(nil, spaceItem, c.number), item...))
		}
		if len(names) < sweepBatch {
			return true, ctx.Err()
		}
		return true, cmp.Or(flush(), ctx.Err())
	})
	err = cmp.Or(err, flush())
	return removed, err
}

// removeExpired removes items that are still expired once their partition is locked.
func (c *Container) removeExpired(names [][]byte, now time.Time) (removed int, err error) {
	for len(names) > 0 && err == nil {
		p := c.lock(names[0][prefixLen:])
		n := 1
		for n < len(names) && p.holds(names[n][prefixLen:]) {
			n++
		}
		var gone int
		gone, err = c.removeFrom(p, names[:n], now)
		p.mu.Unlock()
		removed += gone
		names = names[n:]
	}
	return removed, err
}

// removeFrom removes what has expired of these items. The partition is locked.
func (c *Container) removeFrom(p *partition, names [][]byte, now time.Time) (int, error) {
	if c.deleted.Load() {
		return 0, nil
	}
	next := p.count
	b := new(kv.Batch)
	rev := c.current.Load()
	ttl := rev.TTL
	removedBytes := map[string]int64{}
	for _, name := range names {
		var head header
		stored, alive, err := readHeader(c.account.store, name, &head, ttl, now)
		if err != nil {
			return 0, err
		}
		if !stored || alive {
			continue
		}
		next.items--
		next.bytes -= int64(head.size)
		removedBytes[string(weightName(nil, name, rev.Levels()))] += int64(head.size)
		if err := release(rev.Unique, b, c.account.store, name, rev.Levels()); err != nil {
			return 0, err
		}
		p.unlogged(b, nil, name, head.lsn)
		b.Delete(name)
	}
	removed := int(p.count.items - next.items)
	if removed == 0 {
		return 0, nil
	}
	b.Set(p.counter, next.append(nil))
	if err := lighter(b, c.account.store, removedBytes); err != nil {
		return 0, err
	}
	c.account.store.Commit(b)
	p.counted(next)
	return removed, nil
}

// nothingDue is the time of Account.due when no split is under way.
const nothingDue = math.MaxInt64

// schedule makes sure that complete looks again at that time.
func (a *Account) schedule(at int64) {
	for {
		due := a.due.Load()
		if at >= due || a.due.CompareAndSwap(due, at) {
			return
		}
	}
}

// retryAfter is when a split that failed is tried again.
const retryAfter = time.Minute

// Complete does the splits that are due. Every request calls it first: it costs one look-up while nothing is due.
func (a *Account) Complete(now time.Time) {
	if now.UnixNano() < a.due.Load() || !a.splitting.TryLock() {
		return
	}
	defer a.splitting.Unlock()
	a.due.Store(nothingDue) // a split that is scheduled from here on, or found below, lowers it again
	for _, co := range a.containers() {
		for _, p := range co.parts() {
			a.attempt(now, p.dueAt(), func() error { return a.splitFull(co, p) })
		}
	}
	a.mu.RLock()
	offers := a.offers()
	a.mu.RUnlock()
	for _, o := range offers {
		if next := o.offer.Pending; next != nil {
			a.attempt(now, next.Due, func() error { return a.raise(o, now) })
		}
	}
}

// attempt does what is due, and schedules what is not or has failed. At 0 there is nothing to do.
func (a *Account) attempt(now time.Time, at int64, do func() error) {
	switch {
	case at == 0:
	case at > now.UnixNano():
		a.schedule(at)
	default:
		if err := do(); err != nil {
			a.cfg.Logger.Error("split a physical partition", "error", err)
			a.schedule(now.Add(retryAfter).UnixNano())
		}
	}
}

func (p *partition) dueAt() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due
}
