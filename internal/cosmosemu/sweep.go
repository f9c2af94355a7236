package cosmosemu

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// sweepBatch is how many expired items are removed under one lock.
const sweepBatch = 128

// Sweep removes the items that have expired by the Server's clock, and tells how many. It charges
// nothing, as the service does with what a container leaves unused. Run calls it; a test with a clock
// of its own may too.
func (s *Server) Sweep(ctx context.Context) (removed int, err error) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.closed {
		return 0, ErrClosed
	}
	now := s.cfg.Now()
	s.catalog.complete(now)
	for _, co := range s.catalog.perishable(now) {
		n, err := s.sweepContainer(ctx, co, now)
		removed += n
		if err != nil {
			return removed, fmt.Errorf("cosmosemu: remove expired items: %w", err)
		}
	}
	return removed, nil
}

// perishable lists the containers in which something may have expired.
func (c *catalog) perishable(now time.Time) []*container {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var out []*container
	for _, db := range c.databases {
		for _, co := range db.containers {
			if co.current.Load().TTL != 0 && co.earliest.Load() <= now.Unix() {
				out = append(out, co)
			}
		}
	}
	return out
}

// sweepContainer walks all headers of a container. It learns meanwhile when the next item expires:
// until then there is nothing to do. A write from now on says so itself, see container.expires.
func (s *Server) sweepContainer(ctx context.Context, co *container, now time.Time) (int, error) {
	co.earliest.Store(never)
	removed, err := s.walkExpired(ctx, co, now)
	if err != nil {
		co.earliest.Store(0)
	}
	return removed, err
}

func (s *Server) walkExpired(ctx context.Context, co *container, now time.Time) (removed int, err error) {
	prefix := appendPrefix(nil, spaceHeader, co.number)
	it, err := s.store.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	if err != nil {
		return 0, err
	}
	defer func() { err = firstError(err, it.Close()) }()
	var names [][]byte
	flush := func() error {
		n, err := s.removeExpired(co, names, now)
		removed += n
		names = names[:0]
		return err
	}
	ttl := co.current.Load().TTL
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		v, err := it.ValueAndErr()
		if err != nil {
			return removed, err
		}
		var head header
		if err := head.decode(v); err != nil {
			return removed, err
		}
		if at := head.expiry(ttl); at > now.Unix() {
			co.expires(at)
			continue
		}
		if names = append(names, bytes.Clone(it.Key())); len(names) == sweepBatch {
			if err := flush(); err != nil {
				return removed, err
			}
		}
	}
	return removed, flush()
}

// removeExpired removes items that are still expired once their partition is locked.
func (s *Server) removeExpired(co *container, names [][]byte, now time.Time) (int, error) {
	removed := 0
	for len(names) > 0 {
		k, n, err := s.removeFirst(co, names, now)
		removed += k
		if err != nil {
			return removed, err
		}
		names = names[n:]
	}
	return removed, nil
}

// removeFirst removes those at the beginning of names that lie in one partition, and tells how many it
// has removed and how many it has looked at.
func (s *Server) removeFirst(co *container, names [][]byte, now time.Time) (removed, seen int, err error) {
	p := co.lock(names[0][prefixLen:])
	defer p.mu.Unlock()
	for seen < len(names) && p.holds(names[seen][prefixLen:]) {
		seen++
	}
	removed, err = s.removeFrom(co, p, names[:seen], now)
	return removed, seen, err
}

// removeFrom removes what has expired of these items. The partition is locked.
func (s *Server) removeFrom(co *container, p *partition, names [][]byte, now time.Time) (int, error) {
	if co.deleted.Load() {
		return 0, nil
	}
	next := p.count
	b := s.store.db.NewBatch()
	rev := co.current.Load()
	ttl := rev.TTL
	lighter := map[string]int64{}
	for _, name := range names {
		var head header
		stored, alive, err := readHeader(s.store.db, name, &head, ttl, now)
		if err != nil {
			return 0, err
		}
		if !stored || alive {
			continue
		}
		next.items--
		next.bytes -= int64(head.size)
		lighter[string(weightName(nil, name, rev.Levels()))] += int64(head.size)
		if err := release(rev.Unique, b, s.store.db, name, rev.Levels()); err != nil {
			return 0, err
		}
		_, logErr := p.unlogged(b, nil, name, head.lsn)
		if err := firstError(logErr, b.Delete(name, nil), b.Delete(bodyName(nil, name), nil)); err != nil {
			return 0, err
		}
	}
	removed := int(p.count.items - next.items)
	if removed == 0 {
		return 0, b.Close()
	}
	if err := firstError(b.Set(p.counter, next.append(nil), nil), p.lighter(b, s.store.db, lighter)); err != nil {
		return 0, err
	}
	if err := s.store.commit(b); err != nil {
		return 0, err
	}
	p.counted(next)
	return removed, nil
}
