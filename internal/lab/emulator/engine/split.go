package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
	"binnacle/internal/lab/emulator/refusal"
)

// errUnsplittable is the error of a split of a range of keys that has no room for a boundary.
var errUnsplittable = errors.New("the range cannot be divided")

// Split splits one physical partition in two, at once: at the median of its stored bytes, or in the middle
// of its range when it holds fewer than two partition keys.
func (c *Container) Split(rangeID string) error {
	a := c.account
	a.splitting.Lock()
	defer a.splitting.Unlock()
	p := rangeByID(c.parts(), rangeID)
	if p == nil {
		return refusal.RangeGone(rangeID)
	}
	cut, err := a.cut(c, p)
	if err != nil {
		return err
	}
	return a.split(c, p, cut, p.Budget)
}

// cut returns where a partition is split for throughput: at the median of its data, or in the middle of
// its range when the data says nothing.
func (a *Account) cut(co *Container, p *partition) ([]byte, error) {
	at, err := a.median(co, p)
	if at != nil || err != nil {
		return at, err
	}
	return p.middle(len(co.current.Load().Keys))
}

// median returns the boundary between two stored partition keys that divides a partition's bytes most
// evenly; nil when there are fewer than two keys.
func (a *Account) median(co *Container, p *partition) (cut []byte, err error) {
	p.mu.Lock()
	total := p.count.bytes
	p.mu.Unlock()
	width := levelLen * len(co.current.Load().Keys)
	var last []byte
	var before, best int64
	err = co.headers(p.span, func(item []byte, h *header) (bool, error) {
		if key := item[:width]; !bytes.Equal(key, last) {
			if off := abs(total - 2*before); last != nil && (cut == nil || off < best) {
				cut, best = boundary(last, key), off
			}
			if cut != nil && 2*before >= total {
				return false, nil
			}
			last = append(last[:0], key...)
		}
		before += int64(h.size)
		return true, nil
	})
	return cut, err
}

func abs(n int64) int64 { return max(n, -n) }

// boundary returns the shortest beginning of a key, in whole levels, that differs from the one before it.
func boundary(before, key []byte) []byte {
	n := levelLen
	for bytes.Equal(before[:n], key[:n]) {
		n += levelLen
	}
	return bytes.Clone(key[:n])
}

// spaceEnd is the end of the space of one level: 2^126.
const spaceEnd = 0x40

// middle halves the range of a partition, at a level as high as there is room.
func (p *partition) middle(levels int) ([]byte, error) {
	a, b := p.bounds(levels)
	low := a.FillBytes(make([]byte, levels*levelLen))
	mid := b.Rsh(b.Add(a, b), 1).FillBytes(make([]byte, len(low)))
	for n := levelLen; n <= len(low); n += levelLen {
		if bytes.Compare(mid[:n], low) > 0 {
			return mid[:n], nil
		}
	}
	return nil, errUnsplittable
}

// bounds returns the ends of a partition's range as numbers.
func (p *partition) bounds(levels int) (low, high *big.Int) {
	a, b := make([]byte, levels*levelLen), make([]byte, levels*levelLen)
	copy(a, p.low)
	if copy(b, p.high) == 0 {
		b[0] = spaceEnd
	}
	return new(big.Int).SetBytes(a), new(big.Int).SetBytes(b)
}

// split replaces a partition by two and divides the throughput again. In a shared database the right half draws
// on the given share. The caller holds splitting. split leaves alone a container that has been dropped since.
func (a *Account) split(co *Container, p *partition, cut []byte, share int) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case co.deleted.Load():
		return nil
	case co.record.Offer == nil:
		return a.replace(co, p, cut, share, co.database.budgets[share])
	}
	if err := a.replace(co, p, cut, co.unused(), budget.New(0, a.cfg.Rules)); err != nil {
		return err
	}
	owned{co.record.Offer, co.database, co}.divide()
	return nil
}

// replace puts two partitions in the place of one, durably. The left one keeps its budget, debt
// included; the right one gets the given. Items and logs stay where they are. a.mu is held. Writers of
// the partition wait while the items of the left half are counted.
func (a *Account) replace(co *Container, p *partition, cut []byte, share int, right *budget.Budget) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := counters{lsn: p.count.lsn, modified: p.count.modified}
	err := co.headers(span{p.low, cut}, func(_ []byte, h *header) (bool, error) {
		left.items++
		left.bytes += int64(h.size)
		return true, nil
	})
	if err != nil {
		return err
	}
	records := co.children(p, strings.ToUpper(hex.EncodeToString(cut)), share)
	l, err := newPartition(co.number, records[0], p.budget)
	if err != nil {
		return err
	}
	r, err := newPartition(co.number, records[1], right)
	if err != nil {
		return err
	}
	l.sequence = p.sequence
	if co.record.Offer == nil {
		r.sequence = p.sequence
	} else {
		l.sequence = &sequence{}
	}
	l.counted(left)
	r.counted(counters{p.count.lsn, p.count.items - left.items, p.count.bytes - left.bytes, p.count.modified})
	record := co.record
	record.Offer = a.Capacity.served(record.Offer, len(record.Partitions)+1)
	record.Partitions = replaceOne(record.Partitions, func(x rangeRecord) bool { return x.ID == p.ID }, records[:]...)
	b := new(kv.Batch)
	b.Set(l.counter, l.count.append(nil))
	b.Set(r.counter, r.count.append(nil))
	b.Delete(p.counter)
	if err := a.put(b, containerKey(co.database.id, record.Definition.ID), record); err != nil {
		return err
	}
	parts := replaceOne(co.parts(), func(x *partition) bool { return x == p }, l, r)
	co.record = record
	co.layout.Store(&parts)
	p.gone = true
	return nil
}

// replaceOne returns a copy of a list with one element replaced.
func replaceOne[T any](list []T, is func(T) bool, by ...T) []T {
	i := slices.IndexFunc(list, is)
	return slices.Concat(list[:i], by, list[i+1:])
}

// children returns the records of the two partitions that take the place of one. p is locked, and
// account.mu held.
func (c *Container) children(p *partition, cut string, share int) [2]rangeRecord {
	next, since := 0, 1
	for _, r := range c.record.Partitions {
		since = max(since, r.Since+1)
		next = max(next, idNumber(r.ID)+1)
		for _, a := range r.Parents {
			next = max(next, idNumber(a.ID)+1)
		}
	}
	parents := append(slices.Clone(p.Parents), ancestor{ID: p.ID, LSN: p.count.lsn})
	return [2]rangeRecord{
		{ID: strconv.Itoa(next), Min: p.Min, Max: cut, Parents: parents, Since: since, Budget: p.Budget},
		{ID: strconv.Itoa(next + 1), Min: cut, Max: p.Max, Parents: parents, Since: since, Budget: share},
	}
}

func idNumber(id string) int {
	n, err := strconv.Atoi(id)
	if err != nil {
		panic("engine: a partition key range with the id " + id) // newPartition has read it
	}
	return n
}
