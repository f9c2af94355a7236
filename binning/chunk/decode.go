package chunk

import (
	"encoding/base64"
	"fmt"
	"slices"

	"binnacle/internal/telemetry"

	"github.com/klauspost/compress/huff0"
)

// decoder is the scratch memory of one Frame, and what it may still decode.
type decoder struct {
	s section
	// values, cells and unpackable count down from MaxValues, MaxCells and maxUnpacked.
	values     int
	cells      int
	unpackable int

	brief bool // a block is read, not a document
	// patterns is that block's.
	patterns patterns

	huff      huff0.Scratch
	padded    []byte
	gaps      []uint64
	binary    []byte
	frame     []byte
	unpacked  []byte
	residuals []uint64
	ints      []int64
	step      int64 // between the integers that readBlockInts read last, 0 if they are not all at the same
	ticks     []int64
	list      []uint64
	bits      []uint64
	repeated  []any // columns of one value, which nobody changes
	index     indexed
}

// Frame decodes the columns of the metrics, all that were asked for if metrics is nil. Groups without a wanted column
// are left out. The frame is the caller's, but for its Labels, which it shares with the chunk. A damaged chunk gives
// ErrCorrupt.
func (c *Chunk) Frame(metrics []string) (Frame, error) {
	return c.decode(wantedOf(metrics), nil)
}

// LastRow returns the last row with the columns of the metrics, from statistics. It is not ok with several label sets
// or an empty label, nor where a column lacks a number in some row, has an int beyond 2^53, or ends with a zero: a
// store may lose its sign.
func (c *Chunk) LastRow(metrics []string) (f Frame, ok bool) {
	if len(c.labels) != 1 || c.HasEmptyLabels() {
		return f, false
	}
	w, g := wantedOf(metrics), Group{Labels: c.labels[0], Times: []int64{c.Header.To}}
	for i := range c.columns {
		s := &c.columns[i]
		if !w.has(s.name) {
			continue
		}
		x := &s.stats
		if x.Count != c.Header.Rows || x.Last.Kind() != s.kind || s.kind == telemetry.Float && x.Last.Float() == 0 ||
			s.kind == telemetry.Int && (x.Min.Int() < -maxExact || x.Max.Int() > maxExact) {
			return f, false
		}
		g.Columns = append(g.Columns, Column{Metric: s.name, Kind: s.kind, Bits: []uint64{x.Last.Bits()}})
	}
	return Frame{Groups: []Group{g}}, true
}

// Times decodes the instants of the rows, ascending, each once, and no column. A damaged chunk gives ErrCorrupt, as far
// as that shows in what it reads.
func (c *Chunk) Times() ([]int64, error) {
	if c.Header.IsErased() {
		return nil, nil
	}
	d := takeDecoder()
	defer d.release()
	if _, err := d.open(c.data); err != nil {
		return nil, err
	}
	groups, err := c.readGroups(d)
	if err != nil {
		return nil, err
	}
	return Frame{groups}.Times(), nil
}

// decode decodes the wanted columns. It calls note, unless that is nil, with each column and how it is kept.
func (c *Chunk) decode(w wanted, note func(column int, kept string)) (Frame, error) {
	if c.Header.IsErased() {
		return Frame{}, nil
	}
	d := takeDecoder()
	defer d.release()
	opened, err := d.open(c.data)
	if err != nil {
		return Frame{}, err
	}
	f := framing{Chunk: c, d: d, note: note, opened: opened}
	if f.groups, err = c.readGroups(d); err != nil {
		return Frame{}, err
	}
	f.makeRoom(w)
	if c.layout == listed {
		err = f.listed(w)
	} else {
		err = f.shared(w)
	}
	if err != nil {
		return Frame{}, err
	}
	return Frame{slices.DeleteFunc(f.groups, func(g Group) bool { return len(g.Columns) == 0 })}, nil
}

// framing is a chunk on its way into a frame.
type framing struct {
	*Chunk
	d      *decoder
	note   func(column int, kept string)
	opened codec // the open packet's
	groups []Group
}

// makeRoom gives all groups their columns' memory in one piece.
func (f *framing) makeRoom(w wanted) {
	counts, total := make([]int, len(f.groups)), 0
	for i := range f.columns {
		if s := &f.columns[i]; w.has(s.name) {
			counts[s.group]++
			total++
		}
	}
	all := make([]Column, total)
	for i, n := range counts {
		f.groups[i].Columns = all[:0:n]
		all = all[n:]
	}
}

// listed decodes columns that have a string each.
func (f *framing) listed(w wanted) (err error) {
	for i := range f.columns {
		s := &f.columns[i]
		if !w.has(s.name) {
			continue
		}
		if f.opened, err = f.d.open(s.data); err == nil {
			err = f.column(i)
		}
		if err == nil {
			err = f.d.closePacket()
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", s.name, err)
		}
	}
	return nil
}

// shared decodes columns that share strings. It opens only the strings of wanted columns.
func (f *framing) shared(w wanted) (err error) {
	for i := range f.Chunk.shared {
		s := &f.Chunk.shared[i]
		some := slices.ContainsFunc(s.holds, func(h held) bool { return h.column >= 0 && w.has(f.columns[h.column].name) })
		if s.data != nil {
			if !some {
				continue
			}
			if f.opened, err = f.d.open(s.data); err != nil {
				return err
			}
		}
		for _, h := range s.holds {
			if h.column >= 0 && w.has(f.columns[h.column].name) {
				err = f.column(int(h.column))
			} else {
				err = f.d.skipColumn(len(f.groups[h.group].Times))
			}
			if err != nil {
				return err
			}
		}
		if err := f.d.closePacket(); err != nil {
			return err
		}
	}
	return nil
}

// column reads column i from the open packet and holds it against its statistics and its neighbours.
func (f *framing) column(i int) error {
	s := &f.columns[i]
	g := &f.groups[s.group]
	rows := len(g.Times)
	if f.note != nil {
		f.note(i, f.d.describe(f.opened))
	}
	if f.d.cells -= rows; f.d.cells < 0 {
		return corrupt("more than %d cells", MaxCells)
	}
	g.Columns = append(g.Columns, Column{Metric: s.name, Kind: s.kind})
	col := &g.Columns[len(g.Columns)-1]
	if err := f.d.readColumn(col, rows); err != nil {
		return err
	}
	if col.Len() != s.stats.Values() {
		return corrupt("%d values, but statistics of %d", col.Len(), s.stats.Values())
	}
	if err := g.checkOrder(len(g.Columns) - 1); err != nil {
		return corrupt("%v", err)
	}
	return nil
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
	if from, to, _ := (Frame{groups}).Bounds(); left != 0 || from != c.Header.From || to != c.Header.To {
		return nil, corrupt("rows from %d to %d, %d of %d missing", from, to, left, c.Header.Rows)
	}
	if c.layout == small {
		return groups, nil
	}
	return groups, d.closePacket()
}

// open decodes a packet's base64 and makes its section the one that d reads.
func (d *decoder) open(text []byte) (codec, error) {
	n := base64.StdEncoding.DecodedLen(len(text))
	if cap(d.binary) < n {
		d.binary = make([]byte, n+n/4)
	}
	n, err := base64.StdEncoding.Decode(d.binary[:n], text)
	if err != nil {
		return 0, corrupt("%v", err)
	}
	return d.openPacket(d.binary[:n])
}
