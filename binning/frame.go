package binning

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

const kinds = int(telemetry.Text) // columns a metric can have: one per kind

// framer turns rows into columns.
type framer struct {
	*Rows
	order []int32 // indexes of rows: by label set, then instant, then offset
	rank  []int32 // of a label set in the order of label sets
	want  []bool  // by metric
	last  []int32 // by metric: index of the cell that wins in the row being merged, -1 none
	seen  []uint32
	cols  []int32 // by metric and kind: index of the group's column, -1 none
}

func newFramer(r *Rows, span telemetry.Range, metrics []string) *framer {
	f := &framer{Rows: r, want: make([]bool, len(r.metrics)), last: make([]int32, len(r.metrics)), cols: make([]int32, len(r.metrics)*kinds)}
	wanted := chunk.Wanted(metrics)
	for i, m := range r.metrics {
		f.want[i] = wanted(m)
		f.last[i] = -1
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
	for _, c := range f.cellsOf(i) {
		if f.want[c.metric] {
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
	slices.SortFunc(g.Columns, func(a, b chunk.Column) int {
		return cmp.Or(strings.Compare(a.Metric, b.Metric), cmp.Compare(a.Kind, b.Kind))
	})
	return g
}

// mergeInstant appends row number at of the group: of each metric the value that came last.
func (f *framer) mergeInstant(g *chunk.Group, at int, rows []int32) {
	f.seen = f.seen[:0]
	for _, r := range rows {
		begin := int32(f.begin(int(r)))
		for i, c := range f.cellsOf(int(r)) {
			if !f.want[c.metric] {
				continue
			}
			if f.last[c.metric] < 0 {
				f.seen = append(f.seen, c.metric)
			}
			f.last[c.metric] = begin + int32(i)
		}
	}
	for _, m := range f.seen {
		f.put(g, at, f.cells[f.last[m]])
		f.last[m] = -1
	}
}

func (f *framer) put(g *chunk.Group, at int, c cell) {
	slot := int(c.metric)*kinds + int(c.kind) - 1
	if f.cols[slot] < 0 {
		f.cols[slot] = int32(len(g.Columns))
		g.Columns = append(g.Columns, chunk.Column{Metric: f.metrics[c.metric], Kind: c.kind, Present: make(chunk.Bitmap, (len(g.Times)+63)/64)})
	}
	col := &g.Columns[f.cols[slot]]
	col.Present.Set(at)
	if c.kind == telemetry.Text {
		col.Texts = append(col.Texts, f.text(c))
		return
	}
	col.Bits = append(col.Bits, c.bits)
}
