// Package merge makes answers of the pieces that package read hands on: rows in the order of time (Rows), one series
// after another (Series), statistics of each series (Statistics), and others. In all of them a series and instant
// counts once, with the value from the newest source (rule R5), and a chunk is decoded once, or not at all where its
// statistics may stand for its rows (rule R6). Presence leaves out values: it has the instants of readings.
//
// Each of them is a piece.Sink. They know nothing of heads, stores or keys.
package merge

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Config is what an answer is made of, whatever its shape.
type Config struct {
	Range   telemetry.Range
	Metrics []string // sorted and distinct; nil: all
	Memory  *piece.Memory
	Newest  bool // limits Series to the newest number of each series
}

// begin leaves out what is before an instant.
func (c *Config) begin(at int64) { c.Range.From = min(max(c.Range.From, at), c.Range.To) }

// decode returns the rows of a piece and releases it. The caller gives back the bytes of memory. Labels with an empty
// value, which readings no longer get but have been stored, are left out; groups may have equal labels then.
func (c *Config) decode(p *piece.Piece) (f chunk.Frame, bytes int64, err error) {
	defer p.Release()
	if f, err = p.Rows(); err != nil {
		return f, 0, err
	}
	f.Groups = nonEmptyLabels(f.Groups)
	for i := range f.Groups {
		bytes += piece.GroupBytes(&f.Groups[i])
	}
	return f, bytes, c.Memory.Take(bytes)
}

// newest returns rows of a piece, and all that have the newest value of a series in it. Otherwise it is as decode.
func (c *Config) newest(p *piece.Piece) (f chunk.Frame, bytes int64, err error) {
	if p.Chunk != nil && c.Range.Contains(p.To) {
		if f, ok := p.Chunk.LastRow(c.Metrics); ok {
			p.Release()
			return f, 0, nil
		}
	}
	return c.decode(p)
}

// nonEmptyLabels returns groups without labels that have an empty value. Of an instant that groups with equal labels
// have the first counts: that with the fewest such labels, since a chunk does not say which of its rows came later.
func nonEmptyLabels(groups []chunk.Group) []chunk.Group {
	some := func(g chunk.Group) bool { return len(g.Labels.NonEmpty()) < len(g.Labels) }
	if !slices.ContainsFunc(groups, some) {
		return groups
	}
	out := slices.Clone(groups)
	empty := func(g chunk.Group) int { return len(g.Labels) - len(g.Labels.NonEmpty()) }
	slices.SortStableFunc(out, func(a, b chunk.Group) int { return cmp.Compare(empty(a), empty(b)) })
	for i := range out {
		out[i].Labels = out[i].Labels.NonEmpty()
	}
	return out
}

// cell is one value and where it came from.
type cell struct {
	telemetry.Field
	source store.Source
	group  int // index in its piece; the lowest wins
}

// newest keeps the value of the highest source for each metric (rule R5), and sorts by metric.
func newest(rows []cell) []cell {
	slices.SortFunc(rows, func(a, b cell) int {
		return cmp.Or(strings.Compare(a.Metric, b.Metric), b.source.Compare(a.source),
			cmp.Compare(a.group, b.group))
	})
	return slices.CompactFunc(rows, func(a, b cell) bool { return a.Metric == b.Metric })
}

// cursor walks through the rows of one group of a frame, in the answer's direction, within a range.
type cursor struct {
	device string
	source store.Source
	group  *chunk.Group
	place  int // index of the group in its piece
	dir    piece.Order
	bytes  int64 // memory to give back at the end

	row     int // now here
	end     int // the row at which the cursor has ended
	columns []columnCursor
}

// columnCursor finds which of a column's values belongs to the cursor's row.
type columnCursor struct {
	*chunk.Column
	next int // among the present rows, the one at the cursor's row or the next one in its direction
}

// newCursor returns a cursor at the first row in r with a value of a wanted metric, or nil.
func (m *Rows) newCursor(p *piece.Piece, g *chunk.Group, place int) *cursor {
	r, dir := m.Range, m.Order
	from := sort.Search(len(g.Times), func(i int) bool { return g.Times[i] >= r.From })
	to := sort.Search(len(g.Times), func(i int) bool { return g.Times[i] >= r.To })
	if from >= to {
		return nil
	}
	c := &cursor{device: p.Device, source: p.Source, group: g, place: place, dir: dir, row: from, end: to}
	if dir == piece.Descending {
		c.row, c.end = to-1, from-1
	}
	for i := range g.Columns {
		col := &g.Columns[i]
		if !m.wanted(col.Metric) {
			continue
		}
		next := rank(col.Present, c.row)
		if dir == piece.Descending {
			next = rank(col.Present, c.row+1) - 1
		}
		c.columns = append(c.columns, columnCursor{col, next})
	}
	if !c.skipAbsent() {
		return nil
	}
	return c
}

// rank returns the number of present rows below row.
func rank(b chunk.Bitmap, row int) int {
	if b == nil {
		return row
	}
	n := 0
	for _, w := range b[:row/64] {
		n += bits.OnesCount64(w)
	}
	if rest := row % 64; rest != 0 {
		n += bits.OnesCount64(b[row/64] & (1<<rest - 1))
	}
	return n
}

func (c *cursor) time() int64 { return c.group.Times[c.row] }
func (c *cursor) pos() int64  { return c.dir.At(c.time()) }

// advance moves to the next row with a value. It returns false at the end.
func (c *cursor) advance() bool {
	c.step()
	return c.skipAbsent()
}

// skipAbsent moves on until the row has a value. It returns false at the end.
func (c *cursor) skipAbsent() bool {
	for c.row != c.end {
		for i := range c.columns {
			if c.columns[i].Present.Has(c.row) {
				return true
			}
		}
		c.step()
	}
	return false
}

func (c *cursor) step() {
	for i := range c.columns {
		if col := &c.columns[i]; col.Present.Has(c.row) {
			col.next += int(c.dir)
		}
	}
	c.row += int(c.dir)
}

// appendCells appends the row's values, by metric.
func (c *cursor) appendCells(out []cell) []cell {
	for i := range c.columns {
		if col := &c.columns[i]; col.Present.Has(c.row) {
			out = append(out, cell{telemetry.Field{Metric: col.Metric, Value: col.Value(col.next)}, c.source, c.place})
		}
	}
	return out
}
