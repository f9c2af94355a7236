package engine

import (
	"bytes"
	"cmp"
	"errors"
	"iter"
	"math/big"
	"slices"
	"time"

	"binnacle/internal/lab/emulator/kv"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/refusal"
)

// replacement is a throughput that waits for splits.
type replacement struct {
	RUs float64 `json:"rus"`
	// Due is when the splits are done, in nanoseconds since 1970.
	Due int64 `json:"due"`
}

// splitFull splits a partition that holds too much, unless it has shrunk to one key since.
func (a *Account) splitFull(co *Container, p *partition) error {
	cut, err := a.median(co, p)
	if err != nil {
		return err
	}
	if cut == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.due = 0
		return nil
	}
	return a.split(co, p, cut, p.Budget)
}

// fits looks at a write that makes a physical partition hold more than it may. It begins a split, or
// refuses the write when all is of one partition key, which stays together. The partition is locked.
func (w *writing) fits(from kv.Reader, before, next counters) error {
	limit := w.account.cfg.Limits.PhysicalPartitionBytes
	p := w.partition
	if next.bytes <= limit || next.bytes <= before.bytes || p.due != 0 {
		return nil
	}
	if !w.divisible(from) {
		f := refusal.Forbidden(refusal.SubLogicalFull,
			"physical partition %s has reached its %d bytes and holds one partition key only, which cannot be split",
			p.ID, limit)
		f.Range = p.ID
		return f
	}
	p.due = w.call.Now.Add(w.account.cfg.SplitTakes).UnixNano()
	w.account.schedule(p.due)
	return nil
}

// divisible reports whether the partition holds two partition keys, the item's own key included.
func (w *writing) divisible(from kv.Reader) bool {
	low, high := w.container.bounds(w.partition.span)
	key := w.name[:prefixLen+levelLen*w.revision.Levels()]
	for _, walk := range []iter.Seq[*kv.Entry]{from.Ascend(low, high), from.Descend(low, high)} {
		for e := range walk {
			if !bytes.HasPrefix(e.Key(), key) {
				return true
			}
			break
		}
	}
	return false
}

// raise splits until a pending throughput has enough physical partitions, and sets it. splitting is
// held.
func (a *Account) raise(o owned, now time.Time) error {
	n := ru.Partitions(o.offer.Pending.RUs, true)
	sharing := []*Container{o.container}
	if o.container == nil {
		var err error
		if sharing, err = a.widen(o.database, n); err != nil {
			return err
		}
	}
	for _, co := range sharing {
		if err := a.spread(co, n); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o, err := a.offer(o.offer.ID)
	if err != nil {
		return nil // dropped since
	}
	next := *o.offer
	next.RUs, next.Pending = next.Pending.RUs, nil
	next.Highest = max(next.Highest, next.RUs)
	next.ETag, next.TS = newETag(now.Unix()), now.Unix()
	if err := a.putOffer(o, &next); err != nil {
		return err
	}
	o.offer = &next
	o.divide()
	return nil
}

// divide returns every share of a throughput the same budget. account.mu is held.
func (o owned) divide() {
	budgets := o.budgets()
	for _, b := range budgets {
		b.SetLimit(o.offer.RUs / float64(len(budgets)))
	}
}

// widen returns a database more shares of its throughput, and lists the containers that have them.
func (a *Account) widen(db *database, n int) ([]*Container, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := db.record
	if r.Partitions < n {
		r.Partitions = n
		if err := a.put(new(kv.Batch), databaseKey(r.ID), r); err != nil {
			return nil, err
		}
		db.record = r
		for len(db.budgets) < n {
			db.budgets = append(db.budgets, budget.New(r.Offer.RUs/float64(n), a.cfg.Rules))
		}
	}
	var out []*Container
	for _, co := range db.containers {
		if co.record.Offer == nil {
			out = append(out, co)
		}
	}
	return out, nil
}

// spread splits a container until it uses n shares of its throughput.
func (a *Account) spread(co *Container, n int) error {
	for {
		share := co.unused()
		if share >= n || co.deleted.Load() {
			return nil
		}
		p, cut, err := a.largest(co)
		if err != nil {
			return err
		}
		if err := a.split(co, p, cut, share); err != nil {
			return err
		}
	}
}

// unused returns the first share of the throughput that no partition spends.
func (c *Container) unused() int {
	used := map[int]bool{}
	for _, p := range c.parts() {
		used[p.Budget] = true
	}
	n := 0
	for used[n] {
		n++
	}
	return n
}

// largest returns the partition to split for throughput, and where: the one with the most data, then the
// one with the widest range. Which one the service takes is not documented.
func (a *Account) largest(co *Container) (*partition, []byte, error) {
	levels := len(co.current.Load().Keys)
	parts := slices.Clone(co.parts())
	bytesOf := map[*partition]int64{}
	for _, p := range parts {
		p.mu.Lock()
		bytesOf[p] = p.count.bytes
		p.mu.Unlock()
	}
	slices.SortStableFunc(parts, func(x, y *partition) int {
		return cmp.Or(cmp.Compare(bytesOf[y], bytesOf[x]), y.width(levels).Cmp(x.width(levels)))
	})
	for _, p := range parts {
		cut, err := a.cut(co, p)
		if !errors.Is(err, errUnsplittable) {
			return p, cut, err
		}
	}
	return nil, nil, errUnsplittable
}

func (p *partition) width(levels int) *big.Int {
	low, high := p.bounds(levels)
	return high.Sub(high, low)
}
