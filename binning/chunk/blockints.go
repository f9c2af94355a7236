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

// writeBlockInts appends an integer stream as blocks have it.
func (e *encoder) writeBlockInts(form byte, first []int64, residuals []uint64) {
	gcd, _, _ := divisor(form, residuals)
	var l lengths
	for i, x := range residuals {
		if gcd > 1 {
			x = divide(form, x, gcd)
			residuals[i] = x
		}
		l.add(x)
	}
	head := form
	if gcd > 1 {
		head |= flagGCD
	}
	code, size := l.code(len(residuals))
	gaps := l.gaps(len(residuals)) < size
	if gaps {
		head |= flagGaps
	}
	if l.all != 0 {
		head |= flagResiduals
	}
	b := append(e.s.plain, head)
	for _, x := range first {
		b = binary.AppendVarint(b, x)
	}
	if gcd > 1 {
		b = binary.AppendUvarint(b, gcd)
	}
	switch {
	case l.all == 0:
	case gaps:
		e.zeros = slices.Grow(e.zeros[:0], len(residuals))
		b = appendGaps(b, residuals, e.zeros)
	default:
		b = appendCodes(b, code, residuals)
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
	if s.planes == 0 {
		s.fill(v)
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

// fill fills v with a stream that has no residual but 0: equal values, or steps.
func (s *stream) fill(v []int64) {
	at, step := s.first[0], int64(0)
	if s.form == formDelta2 {
		step = s.first[1]
	}
	for i := range v {
		v[i] = at
		at += step
	}
}
