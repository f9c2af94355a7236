package chunk

import (
	"math/bits"
	"slices"

	"binnacle/internal/telemetry"
)

// dictionary lists the distinct numbers of a column once, and gives each value by its index in that list.
type dictionary struct {
	// distinct ascends in the order of the kind.
	distinct []uint64
	// index has an index in distinct for each value.
	index []int64

	table  []slot // open addressing; a slot is taken if its round is the current one
	round  uint32
	order  []uint32
	ranks  []uint32
	sorted []uint64
}

type slot struct {
	key   uint64
	id    uint32
	round uint32
}

const (
	// leastRows is the column length below which a dictionary isn't tried.
	leastRows = 32
	// probes is the number of values looked at to see whether anything repeats at all.
	probes = 64
)

// build fills in d for v; false if most of v or more are distinct, or too little repeats to be worth a try.
func (d *dictionary) build(kind telemetry.Kind, v []uint64, most int) bool {
	if len(v) < leastRows {
		return false
	}
	if len(v) > 2*probes && !d.repeats(v) {
		return false
	}
	d.reset(len(v))
	d.index = slices.Grow(d.index[:0], len(v))[:len(v)]
	for i, b := range v {
		id := d.add(b)
		if int(id) >= most {
			return false
		}
		d.index[i] = int64(id)
	}
	d.sort(kind)
	return true
}

// repeats reports whether a few values spread over v include one value twice.
func (d *dictionary) repeats(v []uint64) bool {
	d.reset(probes)
	for i := range probes {
		d.add(v[i*len(v)/probes])
	}
	return len(d.distinct) < probes
}

// reset empties d and makes room for n distinct numbers.
func (d *dictionary) reset(n int) {
	d.distinct = d.distinct[:0]
	size := 2 << bits.Len(uint(n))
	if cap(d.table) < size {
		d.table, d.round = make([]slot, size), 0
	}
	d.table = d.table[:size]
	if d.round++; d.round == 0 {
		clear(d.table[:cap(d.table)])
		d.round = 1
	}
}

// add returns the number under which b is known, a new one if it is new.
func (d *dictionary) add(b uint64) uint32 {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: the product's top bits spread (Knuth 6.4)
	mask := uint64(len(d.table) - 1)
	for at := b * golden >> (64 - bits.Len64(mask)); ; at = (at + 1) & mask {
		s := &d.table[at]
		if s.round != d.round {
			*s = slot{b, uint32(len(d.distinct)), d.round}
			d.distinct = append(d.distinct, b)
			return s.id
		}
		if s.key == b {
			return s.id
		}
	}
}

// sort puts the distinct numbers in order and renumbers the index.
func (d *dictionary) sort(kind telemetry.Kind) {
	n := len(d.distinct)
	d.order = slices.Grow(d.order[:0], n)[:n]
	d.ranks = slices.Grow(d.ranks[:0], n)[:n]
	d.sorted = slices.Grow(d.sorted[:0], n)[:n]
	for i := range d.order {
		d.order[i] = uint32(i)
	}
	byFloat := kind == telemetry.Float
	slices.SortFunc(d.order, func(a, b uint32) int {
		x, y := d.distinct[a], d.distinct[b]
		if byFloat {
			x, y = uint64(ord(x)), uint64(ord(y))
		}
		if int64(x) < int64(y) {
			return -1
		}
		return 1
	})
	for rank, id := range d.order {
		d.ranks[id] = uint32(rank)
		d.sorted[rank] = d.distinct[id]
	}
	d.distinct, d.sorted = d.sorted, d.distinct
	for i, id := range d.index {
		d.index[i] = int64(d.ranks[id])
	}
}
