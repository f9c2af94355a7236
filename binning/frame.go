package binning

import (
	"cmp"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

const kinds = int(telemetry.Text) // columns a metric can have: one per kind

// framer turns rows into columns. It numbers the metrics of these rows from 0.
type framer struct {
	*Rows
	order []int32 // indexes of rows: by label set, then instant, then offset
	// rank has, for each label set, its index in sorted order.
	rank []int32
	// names, want and won are indexed by metric; won marks metrics that have a winner.
	names []string
	want  []bool
	// local is the metric at each place in lists.
	local []uint32
	// winner is, for each metric, the cell that wins in the row being merged.
	winner []cell
	seen   []uint32 // metrics that have a winner
	won    []bool
	// cols is the index of the group's column for each metric and kind, -1 for none.
	cols []int32
}

// cell is a value, with its metric by framer's numbers.
type cell struct {
	bits   uint64
	metric uint32
	kind   telemetry.Kind
}

func newFramer(r *Rows, span telemetry.Range, metrics []string) *framer {
	f := &framer{Rows: r}
	f.number()
	f.want, f.won, f.winner = make([]bool, len(f.names)), make([]bool, len(f.names)), make([]cell, len(f.names))
	f.cols = make([]int32, len(f.names)*kinds)
	wanted := chunk.Wanted(metrics)
	for i, m := range f.names {
		f.want[i] = wanted(m)
	}
	f.rankLabels()
	for i := range r.rows {
		if span.Contains(r.rows[i].time) && f.wanted(i) {
			f.order = append(f.order, int32(i))
		}
	}
	slices.SortStableFunc(f.order, func(a, b int32) int {
		x, y := &r.rows[a], &r.rows[b]
		if x.labels != y.labels {
			return cmp.Compare(f.rank[x.labels], f.rank[y.labels])
		}
		return cmp.Compare(x.time, y.time)
	})
	return f
}

// number gives the metrics of the rows numbers from 0.
func (f *framer) number() {
	numbers := make(map[uint32]uint32, 16)
	f.local = make([]uint32, len(f.lists))
	for i, c := range f.lists {
		n, ok := numbers[c.metric()]
		if !ok {
			n = uint32(len(f.names))
			numbers[c.metric()] = n
			f.names = append(f.names, f.metrics[c.metric()])
		}
		f.local[i] = n
	}
}

func (f *framer) rankLabels() {
	sorted := make([]int32, len(f.labels))
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortFunc(sorted, func(a, b int32) int { return f.labels[a].Compare(f.labels[b]) })
	f.rank = make([]int32, len(sorted))
	for rank, i := range sorted {
		f.rank[i] = int32(rank)
	}
}

func (f *framer) wanted(i int) bool {
	for k := range f.list(i) {
		if f.want[f.local[f.rows[i].list+uint32(k)]] {
			return true
		}
	}
	return false
}

func (f *framer) frame() chunk.Frame {
	var out chunk.Frame
	for i := 0; i < len(f.order); {
		j, labels := i, f.rows[f.order[i]].labels
		for j < len(f.order) && f.rows[f.order[j]].labels == labels {
			j++
		}
		out.Groups = append(out.Groups, f.group(f.labels[labels], f.order[i:j]))
		i = j
	}
	return out
}

// group merges the rows of one label set, which are in the order of instants.
func (f *framer) group(labels telemetry.Labels, rows []int32) chunk.Group {
	g := chunk.Group{Labels: labels}
	for i, r := range rows {
		if i == 0 || f.rows[r].time != f.rows[rows[i-1]].time {
			g.Times = append(g.Times, f.rows[r].time)
		}
	}
	for i := range f.cols {
		f.cols[i] = -1
	}
	at := -1
	for i := 0; i < len(rows); {
		j := i
		for j < len(rows) && f.rows[rows[j]].time == f.rows[rows[i]].time {
			j++
		}
		at++
		f.mergeInstant(&g, at, rows[i:j])
		i = j
	}
	for i := range g.Columns {
		if g.Columns[i].Present.Count() == len(g.Times) {
			g.Columns[i].Present = nil
		}
	}
	slices.SortFunc(g.Columns, compareColumns)
	return g
}

// mergeInstant fills a row of the group: with each metric's last value in the rows of one instant.
func (f *framer) mergeInstant(g *chunk.Group, row int, rows []int32) {
	f.seen = f.seen[:0]
	for _, r := range rows {
		bits, local := f.bits(int(r)), f.local[f.rows[r].list:]
		for i, c := range f.list(int(r)) {
			m := local[i]
			if !f.want[m] {
				continue
			}
			if !f.won[m] {
				f.won[m] = true
				f.seen = append(f.seen, m)
			}
			f.winner[m] = cell{bits[i], m, c.kind()}
		}
	}
	for _, m := range f.seen {
		f.put(g, row, f.winner[m])
		f.won[m] = false
	}
}

func (f *framer) put(g *chunk.Group, at int, c cell) {
	slot := int(c.metric)*kinds + int(c.kind) - 1
	if f.cols[slot] < 0 {
		f.cols[slot] = int32(len(g.Columns))
		present := make(chunk.Bitmap, (len(g.Times)+63)/64)
		g.Columns = append(g.Columns, chunk.Column{Metric: f.names[c.metric], Kind: c.kind, Present: present})
	}
	f.appendValue(&g.Columns[f.cols[slot]], at, c.bits)
}
