package chunk

import (
	"encoding/binary"
	"slices"
)

// Flags in the head of an integer stream of a block, in addition to its form and flagGCD.
const (
	flagGaps      = flagZeros // only the residuals other than 0 are kept, and where they are
	flagResiduals = 0x10      // some residual is not 0
)

// codes is how a block has numbers: the code, flagResiduals and flagGaps.
type codes struct{ code, flags byte }

// choose returns how n numbers take the fewest bits, and about how many these are.
func (l *lengths) choose(n int) (c codes, size int) {
	if c.code, size = l.code(n); l.all != 0 {
		c.flags = flagResiduals
	}
	if gaps := l.gaps(n); gaps < size {
		c.flags, size = flagResiduals|flagGaps, gaps
	}
	return c, size
}

// writeBlockInts appends an integer stream as blocks have it. Its residuals are those of the plan's form.
func (e *encoder) writeBlockInts(p intPlan, first []int64, residuals []uint64) {
	c, gcd := p.codes, divisor(p.form, residuals)
	if gcd > 1 {
		var l lengths
		for i, x := range residuals {
			residuals[i] = divide(p.form, x, gcd)
			l.add(residuals[i])
		}
		c, _ = l.choose(len(residuals))
		c.flags |= flagGCD
	}
	b := append(e.s.plain, p.form|c.flags)
	for _, x := range first {
		b = binary.AppendVarint(b, x)
	}
	if gcd > 1 {
		b = binary.AppendUvarint(b, gcd)
	}
	switch {
	case c.flags&flagResiduals == 0:
	case c.flags&flagGaps != 0:
		e.zeros = slices.Grow(e.zeros[:0], len(residuals))
		b = appendGaps(b, residuals, e.zeros)
	default:
		b = appendCodes(b, c.code, residuals)
	}
	e.s.plain = b
}

// readBlockInts fills v, which is not empty, with an integer stream of a block.
func (d *decoder) readBlockInts(v []int64) error {
	s, err := d.streamHead(len(v))
	if err != nil {
		return err
	}
	if s.planes > 1 {
		return corrupt("an integer stream with unknown flags")
	}
	if d.step = 0; s.planes == 0 {
		d.step = s.fill(v)
		return nil
	}
	u, rest := s.begin(v)
	r := slices.Grow(d.residuals[:0], len(rest))[:len(rest)]
	d.residuals = r
	if s.sparse {
		err = d.readGaps(r)
	} else {
		err = d.readCodes(r)
	}
	if err == nil {
		u.undo(rest, r)
	}
	return err
}

// fill fills v with a stream that has no residual but 0: equal values, or steps of the number that it returns.
func (s *stream) fill(v []int64) (step int64) {
	at := s.first[0]
	if s.form == formDelta2 {
		step = s.first[1]
	}
	for i := range v {
		v[i] = at
		at += step
	}
	return step
}
