package engine

import (
	"slices"

	"binnacle/internal/lab/emulator/kv"
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
	// values holds the ORDER BY properties of the item.
	values []sql.Value
	made   uint64
	item   *kv.Entry
	// at is the result of name for a candidate without an item.
	at []byte
}

// name returns the key of the item, without the prefix.
func (c *candidate) name() []byte {
	if c.item == nil {
		return c.at
	}
	return c.item.Key()[prefixLen:]
}

// add notes a candidate. It copies its values.
func (f *firsts) add(c candidate) {
	f.seen++
	c.values = slices.Clone(c.values)
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
