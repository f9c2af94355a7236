package cosmosemu

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"binnacle/internal/cosmosemu/budget"
	"binnacle/internal/cosmosemu/refusal"
	"binnacle/internal/ru"
)

// replacement is a throughput that waits for splits.
type replacement struct {
	RUs float64 `json:"rus"`
	Due int64   `json:"due"` // when the splits are done: nanoseconds since 1970
}

// nothingDue is the time of catalog.due when no split is under way.
const nothingDue = math.MaxInt64

// schedule makes sure that complete looks again at that time.
func (c *catalog) schedule(at int64) {
	for {
		due := c.due.Load()
		if at >= due || c.due.CompareAndSwap(due, at) {
			return
		}
	}
}

// retryAfter is when a split that failed is tried again.
const retryAfter = time.Minute

// complete does the splits whose time has come. Every request calls it first: it costs one look while
// nothing is due.
func (c *catalog) complete(now time.Time) {
	if now.UnixNano() < c.due.Load() || !c.splitting.TryLock() {
		return
	}
	defer c.splitting.Unlock()
	c.due.Store(nothingDue) // what is scheduled from here on, or found below, lowers it again
	containers, offers := c.all()
	for _, co := range containers {
		for _, p := range co.parts() {
			c.attempt(now, p.dueAt(), func() error { return c.splitFull(co, p) })
		}
	}
	for _, o := range offers {
		if next := o.offer.Pending; next != nil {
			c.attempt(now, next.Due, func() error { return c.raise(o, now) })
		}
	}
}

// attempt does what is due, and schedules what is not or has failed. At 0 there is nothing to do.
func (c *catalog) attempt(now time.Time, at int64, do func() error) {
	switch {
	case at == 0:
	case at > now.UnixNano():
		c.schedule(at)
	default:
		if err := do(); err != nil {
			c.cfg.Logger.Error("split a physical partition", "error", err)
			c.schedule(now.Add(retryAfter).UnixNano())
		}
	}
}

// all lists the containers and offers.
func (c *catalog) all() (containers []*container, offers []owned) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, db := range c.databases {
		for _, co := range db.containers {
			containers = append(containers, co)
		}
	}
	return containers, c.offers()
}

func (p *partition) dueAt() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due
}

// splitFull splits a partition that holds too much, unless it has shrunk to one key since.
func (c *catalog) splitFull(co *container, p *partition) error {
	cut, err := c.median(co, p)
	if err != nil {
		return err
	}
	if cut == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.due = 0
		return nil
	}
	return c.split(co, p, cut)
}

// room looks at a write that makes a physical partition hold more than it may. It begins a split, or
// refuses the write when all is of one partition key, which stays together. The partition is locked.
func (w *write) room(from pebble.Reader, before, next counters) error {
	limit := w.server.cfg.Limits.PhysicalPartitionBytes
	p := w.partition
	if next.bytes <= limit || next.bytes <= before.bytes || p.due != 0 {
		return nil
	}
	divisible, err := p.divisible(from, w.name, levelLen*len(w.revision.Keys))
	if err != nil {
		return err
	}
	if !divisible {
		f := refusal.Forbidden(refusal.SubLogicalFull, "physical partition %s has reached its %d bytes and holds one partition key only, which cannot be split", p.id, limit)
		f.Range = p.id
		return f
	}
	p.due = w.now.Add(w.server.cfg.SplitTakes).UnixNano()
	w.server.catalog.schedule(p.due)
	return nil
}

// divisible tells whether a partition holds two partition keys, that of the item called name included.
func (p *partition) divisible(from pebble.Reader, name []byte, width int) (two bool, err error) {
	prefix := name[:prefixLen]
	opts := &pebble.IterOptions{LowerBound: append(bytes.Clone(prefix), p.low...), UpperBound: after(prefix)}
	if p.high != nil {
		opts.UpperBound = append(bytes.Clone(prefix), p.high...)
	}
	it, err := from.NewIter(opts)
	if err != nil {
		return false, fmt.Errorf("scan items: %w", err)
	}
	defer func() { err = firstError(err, it.Close()) }()
	key := name[:prefixLen+width]
	for _, move := range []func() bool{it.First, it.Last} {
		if move() && !bytes.HasPrefix(it.Key(), key) {
			return true, nil
		}
	}
	return false, it.Error()
}

// raise splits until a pending throughput has enough physical partitions, and sets it. splitting is
// held.
func (c *catalog) raise(o owned, now time.Time) error {
	n := ru.Partitions(o.offer.Pending.RUs, true)
	sharing := []*container{o.container}
	if o.container == nil {
		var err error
		if sharing, err = c.widen(o.database, n); err != nil {
			return err
		}
	}
	for _, co := range sharing {
		if err := c.spread(co, n); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o, err := c.offer(o.offer.ID)
	if err != nil {
		return nil // dropped meanwhile
	}
	next := *o.offer
	next.RUs, next.Pending = next.Pending.RUs, nil
	next.Highest = max(next.Highest, next.RUs)
	next.ETag, next.TS = newETag(), now.Unix()
	if err := c.putOffer(o, &next); err != nil {
		return err
	}
	o.offer = &next
	o.divide()
	return nil
}

// divide gives every share of a throughput the same budget. catalog.mu is held.
func (o owned) divide() {
	budgets := o.budgets()
	for _, b := range budgets {
		b.SetLimit(o.offer.RUs / float64(len(budgets)))
	}
}

// widen gives a database more shares of its throughput, and lists the containers that have them.
func (c *catalog) widen(db *database, n int) ([]*container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := db.record
	if r.Partitions < n {
		r.Partitions = n
		if err := c.put(c.store.db.NewBatch(), databaseKey(r.ID), r); err != nil {
			return nil, err
		}
		db.record = r
		for len(db.budgets) < n {
			db.budgets = append(db.budgets, budget.New(r.Offer.RUs/float64(n), c.cfg.rules()))
		}
	}
	var out []*container
	for _, co := range db.containers {
		if co.record.Offer == nil {
			out = append(out, co)
		}
	}
	return out, nil
}

// spread splits a container until it uses n shares of its throughput.
func (c *catalog) spread(co *container, n int) error {
	for {
		share := co.unused()
		if share >= n || co.deleted.Load() {
			return nil
		}
		p, cut, err := c.largest(co)
		if err != nil {
			return err
		}
		if err := c.splitFor(co, p, cut, share); err != nil {
			return err
		}
	}
}

// unused is the first share of the throughput that no partition spends.
func (c *container) unused() int {
	used := map[int]bool{}
	for _, p := range c.parts() {
		used[p.record.Budget] = true
	}
	n := 0
	for used[n] {
		n++
	}
	return n
}

func (c *catalog) splitFor(co *container, p *partition, cut []byte, share int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case co.deleted.Load():
		return nil
	case co.record.Offer == nil:
		return c.replace(co, p, cut, share, co.database.budgets[share])
	}
	if err := c.replace(co, p, cut, share, budget.New(0, c.cfg.rules())); err != nil {
		return err
	}
	owned{co.record.Offer, co.database, co}.divide()
	return nil
}

// largest is the partition to split for throughput, and where: the one with the most data, then the
// one with the widest range. Which one the service takes is not documented.
func (c *catalog) largest(co *container) (*partition, []byte, error) {
	levels := len(co.current.Load().Keys)
	parts := slices.Clone(co.parts())
	bytesOf := map[*partition]int64{}
	for _, p := range parts {
		p.mu.Lock()
		bytesOf[p] = p.count.bytes
		p.mu.Unlock()
	}
	slices.SortStableFunc(parts, func(a, b *partition) int {
		return cmp.Or(cmp.Compare(bytesOf[b], bytesOf[a]), b.width(levels).Cmp(a.width(levels)))
	})
	for _, p := range parts {
		cut, err := c.cut(co, p)
		if !errors.Is(err, ErrUnsplittable) {
			return p, cut, err
		}
	}
	return nil, nil, ErrUnsplittable
}

// width is the length of a partition's range.
func (p *partition) width(levels int) *big.Int {
	low, high := p.bounds(levels)
	return high.Sub(high, low)
}
