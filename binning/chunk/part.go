package chunk

import (
	"encoding/binary"
	"slices"
)

// Blocks is blocks of one schema: how a head shows a bin without decoding it.
type Blocks struct {
	Schema *Schema
	Rows   [][]byte // of each block, as AppendRows or AppendColumns wrote them
}

// Of returns the schema of the rows that AppendColumns makes of those of this one: with the columns of the metrics
// alone, itself if metrics is nil.
func (s *Schema) Of(metrics []string) *Schema {
	if metrics == nil {
		return s
	}
	w := wantedOf(metrics)
	part := &Schema{sets: s.sets}
	r := Run{Sets: s.sets}
	for _, c := range s.columns {
		if w.has(c.metric) {
			part.columns = append(part.columns, c)
			r.Columns = append(r.Columns, Column{Metric: c.metric, Kind: c.kind})
		}
	}
	part.bytes = AppendSchema(nil, &r)
	return part
}

// AppendColumns appends the rows of a block of this schema with the columns of the metrics alone, all if metrics is
// nil: rows of a block of the schema that Of gives. They are copied, unpacked and not decoded, and all have the given
// offset in place of their own. What are no rows of the schema gives ErrCorrupt, as far as that shows in what is read.
func (s *Schema) AppendColumns(dst, data []byte, metrics []string, offset int64) ([]byte, error) {
	d := takeDecoder()
	defer d.release()
	if _, err := d.openPacket(data); err != nil {
		return dst, err
	}
	whole := d.s
	n, err := d.length(MaxRows)
	if err != nil || n == 0 {
		return dst, corrupt("a block of %d rows", n)
	}
	if err := d.skipInts(n); err != nil {
		return dst, err
	}
	p := parts{from: whole}
	p.begin(d)
	if err := d.skipInts(n); err != nil {
		return dst, err
	}
	if len(s.sets) > 1 {
		if err := d.skipInts(n); err != nil {
			return dst, err
		}
	}
	p.end(d)
	w := wantedOf(metrics)
	last := len(s.columns) - 1
	for last >= 0 && !w.has(s.columns[last].metric) {
		last--
	}
	for i := range s.columns[:last+1] {
		has := w.has(s.columns[i].metric)
		if has {
			p.begin(d)
		}
		if err := d.skipColumn(n); err != nil {
			return dst, err
		}
		if has {
			p.end(d)
		}
	}
	return p.append(dst, n, offset), nil
}

// parts is what is taken of a section: pieces of its plain and of its packed part.
type parts struct {
	from   section
	at     [2]int    // where the piece that is open begins
	pieces [][4]int  // plain from and to, packed from and to
	room   [8][4]int // for most
}

func (p *parts) place(d *decoder) (plain, packed int) {
	return len(p.from.plain) - len(d.s.plain), len(p.from.packed) - len(d.s.packed)
}

func (p *parts) begin(d *decoder) {
	if p.pieces == nil {
		p.pieces = p.room[:0]
	}
	p.at[0], p.at[1] = p.place(d)
}

func (p *parts) end(d *decoder) {
	plain, packed := p.place(d)
	if n := len(p.pieces); n > 0 && p.pieces[n-1][1] == p.at[0] && p.pieces[n-1][3] == p.at[1] {
		p.pieces[n-1][1], p.pieces[n-1][3] = plain, packed
		return
	}
	p.pieces = append(p.pieces, [4]int{p.at[0], plain, p.at[1], packed})
}

// append appends a packet of n rows of one offset and the pieces, not packed.
func (p *parts) append(dst []byte, n int, offset int64) []byte {
	var head [2*binary.MaxVarintLen64 + 1]byte
	plain := binary.AppendUvarint(head[:0], uint64(n))
	plain = binary.AppendUvarint(append(plain, formOffset), zigzag(offset))
	size, all := len(plain), 0
	for _, x := range p.pieces {
		size += x[1] - x[0]
		all += x[3] - x[2]
	}
	dst = slices.Grow(dst, 1+binary.MaxVarintLen64+size+all)
	dst = append(binary.AppendUvarint(append(dst, byte(stored)), uint64(size)), plain...)
	for _, x := range p.pieces {
		dst = append(dst, p.from.plain[x[0]:x[1]]...)
	}
	for _, x := range p.pieces {
		dst = append(dst, p.from.packed[x[2]:x[3]]...)
	}
	return dst
}
