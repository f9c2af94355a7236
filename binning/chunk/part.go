package chunk

import (
	"encoding/binary"
	"fmt"
	"slices"

	"binnacle/internal/telemetry"
)

// Blocks is blocks of one schema: how a head shows a bin without decoding it.
type Blocks struct {
	Schema *Schema
	Rows   [][]byte // the rows of one block each, as AppendRows or Part.Append wrote them
}

// Readings returns how many rows the blocks say that they have.
func (b *Blocks) Readings() (n int) {
	for _, data := range b.Rows {
		n += RowsOf(data)
	}
	return n
}

// Part is the columns of some metrics of the blocks of a schema.
type Part struct {
	SkipOffsets bool // AppendTo leaves the offsets of rows out

	schema  *Schema
	columns []bool // which ones; nil: all
	own     *Schema
}

// Part returns the columns of the metrics, all if metrics is nil.
func (s *Schema) Part(metrics []string) Part {
	p := Part{schema: s}
	if metrics != nil {
		w := wantedOf(metrics)
		p.columns = make([]bool, len(s.columns))
		for i := range s.columns {
			p.columns[i] = w.has(s.columns[i].metric)
		}
	}
	return p
}

func (p *Part) has(column int) bool { return p.columns == nil || p.columns[column] }

// Schema returns the schema of what Append appends.
func (p *Part) Schema() *Schema {
	if p.columns == nil {
		return p.schema
	}
	if p.own == nil {
		p.own = &Schema{sets: p.schema.sets}
		r := Run{Sets: p.schema.sets}
		for i, c := range p.schema.columns {
			if p.columns[i] {
				p.own.columns = append(p.own.columns, c)
				r.Columns = append(r.Columns, Column{Metric: c.metric, Kind: c.kind})
			}
		}
		p.own.bytes = AppendSchema(nil, &r)
	}
	return p.own
}

// Append appends the first rows of a block that were encoded in one, with the columns of the part alone, as they are;
// all rows have the given offset in place of their own. It returns the block's other rows, too. What are no rows of the
// schema gives ErrCorrupt, as far as that shows without decoding them.
func (p *Part) Append(dst, data []byte, offset int64) (out, rest []byte, err error) {
	rows, used := binary.Uvarint(data)
	if used <= 0 || rows == 0 || rows > MaxRows {
		return dst, nil, corrupt("a block of %d rows", rows)
	}
	dst = append(dst, data[:used]...)
	at := len(dst)
	dst = binary.AppendVarint(append(dst, 0, formOffset), offset)
	dst[at] = byte(len(dst) - at - 1)
	_, rest, err = cutPart(data[used:])
	wanted := rest // parts that follow each other are copied at once
	for i := -p.schema.heads(); i < len(p.schema.columns) && err == nil; i++ {
		before := len(wanted) - len(rest)
		if end := shortPart(rest); end > 0 {
			rest = rest[end:]
		} else {
			_, rest, err = cutPart(rest)
		}
		if i >= 0 && !p.has(i) {
			dst = append(dst, wanted[:before]...)
			wanted = rest
		}
	}
	return append(dst, wanted[:len(wanted)-len(rest)]...), rest, err
}

// heads returns how many parts of a block stand between the offsets and the columns: instants, label sets if there are
// several, patterns.
func (s *Schema) heads() int {
	if len(s.sets) > 1 {
		return 3
	}
	return 2
}

// Cut returns the rows of a block that were encoded first, in one, and its other rows.
func (s *Schema) Cut(data []byte) (first, rest []byte, err error) {
	_, used := binary.Uvarint(data)
	rest = data[max(used, 0):]
	for range 1 + s.heads() + len(s.columns) {
		if _, rest, err = cutPart(rest); err != nil {
			return nil, nil, err
		}
	}
	return data[:len(data)-len(rest)], rest, nil
}

// AppendTo decodes the rows of blocks behind a run, which has rows of other blocks of the same part or none. It makes
// room for so many rows, those of the blocks among them. After an error the run is of no use.
func (p *Part) AppendTo(r *Run, room int, blocks ...[]byte) error {
	d := takeDecoder()
	defer d.release()
	from := r.Rows()
	r.Sets = p.schema.sets
	for _, data := range blocks {
		d.openBlock(data)
		for more := true; more; more = len(d.s.plain) > 0 {
			if err := p.appendRows(r, d, room-(r.Rows()-from)); err != nil {
				return err
			}
		}
	}
	if err := r.checkRows(from); err != nil {
		return corrupt("%v", err)
	}
	return nil
}

// appendRows decodes rows that were encoded in one.
func (p *Part) appendRows(r *Run, d *decoder, room int) error {
	n, err := d.length(MaxRows)
	if err != nil || n == 0 {
		return corrupt("a block of %d rows", n)
	}
	from, more := r.Rows(), max(0, room-n)
	if p.SkipOffsets {
		_, err = d.cut()
	} else {
		r.Offsets, err = d.appendInts(r.Offsets, n, more)
	}
	if err == nil {
		r.Times, err = d.appendInts(r.Times, n, more)
	}
	if err == nil && !r.checkTimes(from, d.step) {
		err = corrupt("an instant out of bounds")
	}
	if err == nil && len(r.Sets) > 1 {
		err = d.appendPlaces(r, n)
	}
	if err == nil {
		err = d.readPart(func() error { return d.patterns.read(d, n) })
	}
	if err != nil {
		return err
	}
	if r.Columns == nil {
		r.Columns = p.newColumns()
	}
	next := 0
	for i := range p.schema.columns {
		if d.cells -= n; d.cells < 0 {
			return corrupt("more than %d cells", MaxCells)
		}
		if !p.has(i) {
			if _, err := d.cut(); err != nil {
				return err
			}
			continue
		}
		c := &r.Columns[next]
		if err := d.readPart(func() error { return d.appendColumn(c, appended{from, n, more}) }); err != nil {
			return fmt.Errorf("column %s: %w", c.Metric, err)
		}
		if err := (&Group{Columns: r.Columns}).checkOrder(next); err != nil {
			return corrupt("%v", err)
		}
		next++
	}
	return nil
}

// newColumns returns the columns of the part, empty.
func (p *Part) newColumns() []Column {
	var out []Column
	for i, c := range p.schema.columns {
		if p.has(i) {
			if out == nil {
				out = make([]Column, 0, len(p.schema.columns)-i)
			}
			out = append(out, Column{Metric: c.metric, Kind: c.kind})
		}
	}
	return out
}

// TimesOf returns the range of the instants of the first run of rows in a block, which may be all its rows.
func TimesOf(data []byte) (r telemetry.Range, err error) {
	d := takeDecoder()
	defer d.release()
	d.openBlock(data)
	n, err := d.length(MaxRows)
	if err == nil {
		_, err = d.cut() // the offsets
	}
	if err == nil {
		d.ints, err = d.appendInts(d.ints[:0], n, 0)
	}
	if err != nil || n == 0 {
		return r, corrupt("the instants of a block")
	}
	return telemetry.Range{From: slices.Min(d.ints), To: slices.Max(d.ints) + 1}, nil
}

// openBlock makes a block what d reads.
func (d *decoder) openBlock(b []byte) {
	d.brief, d.values, d.cells = true, MaxValues, MaxCells
	d.padded = append(d.padded[:0], b...)
	d.padded = append(d.padded, make([]byte, wordBytes)...)
	d.s = section{plain: d.padded[:len(b)]}
}

// cut takes the next part of a block.
func (d *decoder) cut() (part []byte, err error) {
	if end := shortPart(d.s.plain); end > 0 {
		part, d.s.plain = d.s.plain[1:end], d.s.plain[end:]
		return part, nil
	}
	part, d.s.plain, err = cutPart(d.s.plain)
	return part, err
}

// readPart reads the next part of a block, all of it.
func (d *decoder) readPart(read func() error) error {
	part, err := d.cut()
	if err != nil {
		return err
	}
	rest := d.s.plain
	d.s.plain = part
	if err = read(); err == nil {
		err = d.closePacket()
	}
	d.s.plain = rest
	return err
}

// appendInts appends a part of n integers, with room for more.
func (d *decoder) appendInts(v []int64, n, more int) ([]int64, error) {
	from := len(v)
	v = reserve(v, n, more)
	return v, d.readPart(func() error { return d.readBlockInts(v[from:]) })
}

// reserve returns v with n elements more, and room for yet more if it has to move.
func reserve[T any](v []T, n, more int) []T {
	if cap(v)-len(v) < n {
		v = slices.Grow(v, n+more)
	}
	return v[:len(v)+n]
}

func (d *decoder) appendPlaces(r *Run, n int) (err error) {
	if d.ints, err = d.appendInts(d.ints[:0], n, 0); err != nil {
		return err
	}
	for _, x := range d.ints {
		if uint64(x) >= uint64(len(r.Sets)) {
			return corrupt("label set %d of %d", x, len(r.Sets))
		}
		r.Labels = append(r.Labels, uint32(x))
	}
	return nil
}
