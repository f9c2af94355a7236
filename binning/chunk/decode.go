package chunk

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// decoder is the scratch memory of one Frame, and what it may still decode.
type decoder struct {
	s          section
	values     int // of MaxValues
	cells      int // of MaxCells
	unpackable int // of maxUnpacked

	zstd      *zstd.Decoder
	huff      huff0.Scratch
	binary    []byte
	frame     []byte
	unpacked  []byte
	residuals []uint64
	ints      []int64
	ticks     []int64
	list      []uint64
}

// Frame decodes the columns of the metrics, all if metrics is nil. Groups without a wanted column are left out. The frame
// is the caller's, but for its Labels, which it shares with the chunk. A damaged chunk gives ErrCorrupt.
func (c *Chunk) Frame(metrics []string) (Frame, error) {
	return c.decode(Wanted(metrics), nil)
}

// Wanted reports whether a metric is among some, or any if metrics is nil: in sorted order, at the cost of a binary search.
func Wanted(metrics []string) func(metric string) bool {
	if metrics == nil {
		return func(string) bool { return true }
	}
	if !slices.IsSorted(metrics) {
		metrics = slices.Sorted(slices.Values(metrics))
	}
	return func(metric string) bool {
		_, found := slices.BinarySearch(metrics, metric)
		return found
	}
}

// decode decodes what is wanted; note, unless it is nil, is told of each column how it is kept.
func (c *Chunk) decode(wanted func(metric string) bool, note func(column int, kept string)) (Frame, error) {
	d := decoders.Get().(*decoder)
	defer d.release()
	d.values, d.cells, d.unpackable = MaxValues, MaxCells, maxUnpacked
	opened, err := d.open(c.data)
	if err != nil {
		return Frame{}, err
	}
	groups, err := c.readGroups(d)
	if err != nil {
		return Frame{}, err
	}
	for i := range c.columns {
		s := &c.columns[i]
		want := wanted(s.name)
		if !want && !c.small {
			continue
		}
		if !c.small {
			if opened, err = d.open(s.data); err != nil {
				return Frame{}, fmt.Errorf("column %s: %w", s.name, err)
			}
		}
		if note != nil {
			note(i, d.describe(opened))
		}
		g := &groups[s.group]
		col, err := c.readColumn(d, s, len(g.Times))
		if err != nil {
			return Frame{}, fmt.Errorf("column %s: %w", s.name, err)
		}
		if !want {
			continue
		}
		g.Columns = append(g.Columns, col)
		if err := g.checkOrder(len(g.Columns) - 1); err != nil {
			return Frame{}, corrupt("%v", err)
		}
	}
	if c.small {
		if err := d.closeBlock(); err != nil {
			return Frame{}, err
		}
	}
	return Frame{slices.DeleteFunc(groups, func(g Group) bool { return len(g.Columns) == 0 })}, nil
}

// readColumn reads a column of so many rows from the open block and holds it against its statistics.
func (c *Chunk) readColumn(d *decoder, s *storedColumn, rows int) (Column, error) {
	col := Column{Metric: s.name, Kind: s.kind}
	if d.cells -= rows; d.cells < 0 {
		return col, corrupt("more than %d cells", MaxCells)
	}
	if err := d.readColumn(&col, rows); err != nil {
		return col, err
	}
	if col.Len() != s.stats.Values() {
		return col, corrupt("%d values, but statistics of %d", col.Len(), s.stats.Values())
	}
	if c.small {
		return col, nil
	}
	return col, d.closeBlock()
}

// readGroups reads the instants of all groups and holds them against the header.
func (c *Chunk) readGroups(d *decoder) ([]Group, error) {
	groups := make([]Group, len(c.labels))
	left := c.Header.Rows
	for i := range groups {
		times, err := d.readTimes(left, c.Header.ID.Day)
		if err != nil {
			return nil, err
		}
		left -= len(times)
		groups[i] = Group{Labels: c.labels[i], Times: times}
	}
	if from, to := (Frame{groups}).bounds(); left != 0 || from != c.Header.From || to != c.Header.To {
		return nil, corrupt("rows from %d to %d, %d of %d missing", from, to, left, c.Header.Rows)
	}
	if c.small {
		return groups, nil
	}
	return groups, d.closeBlock()
}

// open decodes a block's base64 and makes its section the one that d reads.
func (d *decoder) open(text []byte) (codec, error) {
	n := base64.StdEncoding.DecodedLen(len(text))
	if cap(d.binary) < n {
		d.binary = make([]byte, n+n/4)
	}
	n, err := base64.StdEncoding.Decode(d.binary[:n], text)
	if err != nil {
		return 0, corrupt("%v", err)
	}
	return d.openBlock(d.binary[:n])
}
