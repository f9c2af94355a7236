package heat

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"binnacle/sharding"
)

// Key is a first-level key of a container. With an empty Shard it is all keys of a slot that are not listed by name.
type Key struct {
	Container string
	Shard     string // first-level key, such as acme~1q
	Slot      sharding.Slot
}

// KeyOf returns the Key of a first-level key.
func KeyOf(container, shard string) Key { return Key{container, shard, sharding.SlotOf(shard)} }

// Rest returns the key of all keys in k's slot that have no cell.
func (k Key) Rest() Key { return Key{Container: k.Container, Slot: k.Slot} }

// Tenant returns the tenant of the key, "" for a key of several tenants.
func (k Key) Tenant() string {
	if i := strings.IndexAny(k.Shard, "~#"); i >= 0 {
		return k.Shard[:i]
	}
	return k.Shard
}

// Compare orders keys by container, name and slot.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Container, o.Container), strings.Compare(k.Shard, o.Shard),
		cmp.Compare(k.Slot, o.Slot))
}

// Cell counts the requests of a key in the last minutes of a frame.
type Cell struct {
	Key
	// Minutes is how many minutes before the frame's end the cell covers, evenly as far as is known; 0 is the whole frame.
	Minutes int
	Amount
}

// Sum returns one cell a key, in the order of keys, which cover whole frames.
func Sum(cells []Cell) []Cell {
	sums := make(map[Key]*Amount, len(cells))
	for i := range cells {
		a := sums[cells[i].Key]
		if a == nil {
			a = &Amount{}
			sums[cells[i].Key] = a
		}
		a.Add(&cells[i].Amount)
	}
	out := make([]Cell, 0, len(sums))
	for k, a := range sums {
		out = append(out, Cell{Key: k, Amount: *a})
	}
	sortCells(out)
	return out
}

func sortCells(cells []Cell) {
	slices.SortFunc(cells, func(a, b Cell) int {
		return cmp.Or(a.Key.Compare(b.Key), cmp.Compare(a.Minutes, b.Minutes))
	})
}

// Fold returns at most about most cells by name: the others of a slot become one cell without a name, of the last
// minute. It returns how many names it has left out. The sums by slot stay what they were.
func Fold(cells []Cell, most int) (kept []Cell, folded int) {
	if len(cells) <= most {
		return cells, 0
	}
	byWeight := slices.Clone(cells)
	slices.SortStableFunc(byWeight, func(a, b Cell) int { return cmp.Compare(b.weight(), a.weight()) })
	rest := map[Key]int{}
	for i, c := range byWeight {
		if i < most && c.Shard != "" {
			kept = append(kept, c)
			continue
		}
		if c.Shard != "" {
			folded++
		}
		if j, ok := rest[c.Rest()]; ok {
			kept[j].Add(&c.Amount)
			continue
		}
		rest[c.Rest()] = len(kept)
		kept = append(kept, Cell{Key: c.Rest(), Minutes: min(1, c.Minutes), Amount: c.Amount})
	}
	sortCells(kept)
	return kept, folded
}

// weight orders cells by how much they matter: a throttled key counts before others.
func (c *Cell) weight() float64 { return c.Total() + 1000*math.Min(float64(c.Throttled), 1e6) }
