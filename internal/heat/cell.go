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

// Grid is the heat of one container: rows are keys, columns are equal steps of time.
type Grid struct {
	Container string
	From      int64 // ms, of the first column
	Step      int64 // ms
	Columns   int
	// Rows are in the order of keys.
	Rows   []Row
	Folded int     // keys, at most in any frame, that lie in rows without a name
	Lost   float64 // RU that no row has
}

// Row is the heat of a key.
type Row struct {
	Key
	// Amounts has one element for each column.
	Amounts []Amount
}

// Span is an interval of time and the steps in it, in ms. From is a multiple of Step.
type Span struct{ From, To, Step int64 }

// NewGrid returns the grid of a container of frames that do not cover anything twice. A cell that covers several
// columns is spread evenly.
func NewGrid(container string, span Span, frames []Frame) Grid {
	g := Grid{Container: container, From: span.From, Step: span.Step,
		Columns: int((span.To - span.From + span.Step - 1) / span.Step)}
	rows := map[Key][]Amount{}
	for _, f := range frames {
		g.Folded, g.Lost = max(g.Folded, f.Folded), g.Lost+f.Lost
		for i := range f.Cells {
			c := &f.Cells[i]
			if c.Container != container {
				continue
			}
			row := rows[c.Key]
			if row == nil {
				row = make([]Amount, g.Columns)
				rows[c.Key] = row
			}
			from := f.From
			if c.Minutes > 0 {
				from = max(from, f.To-int64(c.Minutes)*Minute)
			}
			g.spread(row, &c.Amount, Span{From: from, To: f.To})
		}
	}
	for k, amounts := range rows {
		g.Rows = append(g.Rows, Row{k, amounts})
	}
	slices.SortFunc(g.Rows, func(a, b Row) int { return a.Compare(b.Key) })
	return g
}

func (g *Grid) spread(row []Amount, a *Amount, over Span) {
	from, to := over.From, over.To
	until := func(whole, at int64) int64 { return int64(float64(at-from) / float64(to-from) * float64(whole)) }
	for col := max(0, (from-g.From)/g.Step); col < int64(g.Columns); col++ {
		start, end := max(from, g.From+col*g.Step), min(to, g.From+(col+1)*g.Step)
		if start >= end {
			if start >= to {
				return
			}
			continue
		}
		for k, r := range a.RUs {
			row[col].RUs[k] += r * float64(end-start) / float64(to-from)
		}
		row[col].Bytes += until(a.Bytes, end) - until(a.Bytes, start)
		row[col].Throttled += until(a.Throttled, end) - until(a.Throttled, start)
	}
}

// Total returns the sum of a row.
func (r *Row) Total() (sum Amount) {
	for i := range r.Amounts {
		sum.Add(&r.Amounts[i])
	}
	return sum
}
