package chunk

import (
	"slices"
)

// patterns is which columns the rows of a block have values in: rows with values in the same columns are of one
// pattern. A column then has a flag for each pattern, instead of one for each row, that is set if it has a value.
// Devices that send several kinds of message have a pattern for each.
type patterns struct {
	// byRow has the pattern of each row. Patterns are numbered from 0, in the order of their first rows.
	byRow []int64
	n     int
	// next is scratch: the new number of a pattern with and without a value in the next column, 0 for none.
	next []int64
}

func (p *patterns) find(r *Run) {
	p.byRow = slices.Grow(p.byRow[:0], r.Rows())[:r.Rows()]
	clear(p.byRow)
	p.n = 1
	for i := range r.Columns {
		if present := r.Columns[i].Present; present != nil && p.n < r.Rows() {
			p.split(present)
		}
	}
}

func (p *patterns) split(present Bitmap) {
	p.next = slices.Grow(p.next[:0], 2*p.n)[:2*p.n]
	clear(p.next)
	n := 0
	for row, of := range p.byRow {
		at := 2 * of
		if present.Has(row) {
			at++
		}
		if p.next[at] == 0 {
			n++
			p.next[at] = int64(n)
		}
		p.byRow[row] = p.next[at] - 1
	}
	p.n = n
}

// bytes returns how many bytes a bit for each pattern takes.
func (p *patterns) bytes() int { return (p.n + 7) / 8 }

func (p *patterns) appendPresent(dst []byte, present Bitmap) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, p.bytes())...)
	for row, of := range p.byRow {
		if present.Has(row) {
			dst[at+int(of)/8] |= 1 << (of % 8)
		}
	}
	return dst
}

func (p *patterns) read(d *decoder, rows int) (err error) {
	if p.n = 1; len(d.s.plain) == 0 {
		return nil
	}
	if p.byRow, err = d.readInts(p.byRow, rows); err != nil {
		return err
	}
	for _, of := range p.byRow {
		if of < 0 || of > int64(p.n) {
			return corrupt("pattern %d follows %d", of, p.n)
		}
		p.n = max(p.n, int(of)+1)
	}
	return nil
}
