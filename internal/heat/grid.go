package heat

import "slices"

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
