package engine

import (
	"bytes"
	"slices"

	"binnacle/internal/lab/emulator/sql"
)

// firsts keeps the first of what is added, by an order. Its memory is bounded by how many are wanted, not by how many
// there are.
type firsts struct {
	want    int
	compare func(a, b candidate) int
	kept    []candidate
	seen    int
}

// candidate is an item noted for its place in an order.
type candidate struct {
	values []sql.Value // of the ORDER BY properties
	made   uint64
	name   []byte // key without prefix
	head   []byte // encoded header
}

// add notes a candidate. It copies what the candidate refers to.
func (f *firsts) add(c candidate) {
	f.seen++
	c.values, c.name, c.head = slices.Clone(c.values), bytes.Clone(c.name), bytes.Clone(c.head)
	for i, v := range c.values {
		c.values[i] = v.Clone()
	}
	f.kept = append(f.kept, c)
	if len(f.kept) >= 2*f.want+16 {
		f.trim()
	}
}

func (f *firsts) trim() {
	slices.SortFunc(f.kept, f.compare)
	f.kept = f.kept[:min(len(f.kept), f.want)]
}
