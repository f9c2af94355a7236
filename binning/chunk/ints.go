package chunk

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// An integer stream is a run of int64 of a length that both sides know. One form is chosen by estimated bits; its
// residuals are divided by their gcd and cut into byte planes, as few as the largest needs. All arithmetic wraps, so
// every int64 survives every form.
const (
	formOffset = 0 // v - least, unsigned
	formPlain  = 1 // v, zigzag
	formDelta  = 2 // v - previous v, zigzag; the first v apart
	formDelta2 = 3 // the difference of deltas, zigzag; the first v and the first delta apart

	formMask  = 0x03
	flagZeros = 0x04 // a bitmap marks the residuals that are not 0, and only those follow
	flagGCD   = 0x08 // the residuals' gcd follows
	// The upper four bits are the number of planes, 0 to 8: none means that all residuals are 0.
	planesShift = 4
)

// intPlan is how an integer stream is going to be written.
type intPlan struct {
	form  byte
	least int64   // formOffset
	span  uint64  // largest minus smallest value
	bits  float64 // estimate of the whole
	codes         // in a block, unless the residuals have a divisor
}

// planInts chooses the form of v. It estimates each by the entropy of the residuals' bit lengths plus the bits below
// the leading one, which takes one pass and no tables; if brief, by what codes take.
func planInts(v []int64, brief bool) intPlan {
	if len(v) == 0 {
		return intPlan{form: formPlain}
	}
	least, most := v[0], v[0]
	for _, x := range v[1:] {
		least, most = min(least, x), max(most, x)
	}
	p := intPlan{form: formOffset, least: least, span: uint64(most) - uint64(least)}
	if p.span == 0 {
		return p
	}
	var all [4]lengths // there are at least two values, since they differ
	var offsets, plains, delta2s uint64
	for _, x := range v[:2] {
		offsets |= all[formOffset].count(uint64(x) - uint64(least))
		plains |= all[formPlain].count(zigzag(x))
	}
	last, delta := v[1], v[1]-v[0]
	deltas := all[formDelta].count(zigzag(delta))
	for _, x := range v[2:] {
		before := delta
		last, delta = x, x-last
		offsets |= all[formOffset].count(uint64(x) - uint64(least))
		plains |= all[formPlain].count(zigzag(x))
		deltas |= all[formDelta].count(zigzag(delta))
		delta2s |= all[formDelta2].count(zigzag(delta - before))
	}
	all[formOffset].all, all[formPlain].all, all[formDelta].all, all[formDelta2].all = offsets, plains, deltas, delta2s
	p.bits = math.Inf(1)
	for form := range all {
		n := max(0, len(v)-max(0, form-formPlain))
		if !brief {
			if b := all[form].entropy(uint32(n)); b < p.bits {
				p.form, p.bits = byte(form), b
			}
		} else if c, size := all[form].choose(n); float64(size+firstBits(form, v, least)) < p.bits {
			p.form, p.bits, p.codes = byte(form), float64(size+firstBits(form, v, least)), c
		}
	}
	return p
}

// firstBits returns how many bits the first values of a form take in a block.
func firstBits(form int, v []int64, least int64) int {
	switch form {
	case formPlain:
		return 0
	case formOffset:
		return varintBits(least)
	case formDelta2:
		if len(v) > 1 {
			return varintBits(v[0]) + varintBits(v[1]-v[0])
		}
	}
	return varintBits(v[0])
}

func varintBits(x int64) int { return 8 * ((bits.Len64(zigzag(x)|1) + 6) / 7) }

// entropy estimates the bits of residuals, total in all.
func (l *lengths) entropy(total uint32) float64 {
	b := nLog2n(total)
	for k, c := range l.of[:bits.Len64(l.all)+1] {
		if c > 0 {
			b += float64(c)*float64(max(k-1, 0)) - nLog2n(c)
		}
	}
	return b
}

// writeInts appends v to the section in the form of p, which planInts made of v.
func (e *encoder) writeInts(v []int64, p intPlan) {
	if len(v) == 0 {
		return
	}
	r := slices.Grow(e.residuals[:0], len(v))
	var first []int64
	switch p.form {
	case formOffset:
		first = []int64{p.least}
		for _, x := range v {
			r = append(r, uint64(x)-uint64(p.least))
		}
	case formPlain:
		for _, x := range v {
			r = append(r, zigzag(x))
		}
	case formDelta:
		first = v[:1]
		for i := 1; i < len(v); i++ {
			r = append(r, zigzag(v[i]-v[i-1]))
		}
	case formDelta2:
		first = v[:1]
		if len(v) > 1 {
			first = []int64{v[0], v[1] - v[0]}
		}
		for i := 2; i < len(v); i++ {
			r = append(r, zigzag(v[i]-v[i-1]-(v[i-1]-v[i-2])))
		}
	}
	e.residuals = r
	if e.brief {
		e.writeBlockInts(p, first, r)
	} else {
		e.writeResiduals(p.form, first, r)
	}
}

func (e *encoder) writeResiduals(form byte, first []int64, r []uint64) {
	gcd, largest, zeros := divisor(form, r), uint64(0), 0
	head := form
	if gcd > 1 {
		head |= flagGCD
	}
	for i, x := range r {
		if gcd > 1 {
			x = divide(form, x, gcd)
			r[i] = x
		}
		if x == 0 {
			zeros++
		}
		largest |= x
	}
	planes := (bits.Len64(largest) + 7) / 8
	head |= byte(planes << planesShift)
	sparse := planes > 0 && zeros > 0 && sparseWins(r, zeros, planes)
	if sparse {
		head |= flagZeros
	}
	e.s.plain = append(e.s.plain, head)
	for _, x := range first {
		e.s.plain = binary.AppendVarint(e.s.plain, x)
	}
	if gcd > 1 {
		e.s.plain = binary.AppendUvarint(e.s.plain, gcd)
	}
	if sparse {
		r = e.splitZeros(r)
	}
	e.writePlanes(r, planes)
}

// splitZeros writes the bitmap of the residuals that are not 0 and keeps only those, in place.
func (e *encoder) splitZeros(r []uint64) []uint64 {
	at := len(e.s.packed)
	e.s.packed = append(e.s.packed, make([]byte, (len(r)+7)/8)...)
	set := e.s.packed[at:]
	kept := r[:0]
	for i, x := range r {
		if x != 0 {
			set[i/8] |= 1 << (i % 8)
			kept = append(kept, x)
		}
	}
	return kept
}

// divisor returns the gcd of the residuals' magnitudes, at least 1.
func divisor(form byte, r []uint64) (gcd uint64) {
	for _, x := range r {
		for m := magnitude(form, x); m != 0; {
			gcd, m = m, gcd%m
		}
		if gcd == 1 {
			return 1
		}
	}
	if gcd == 0 || gcd > math.MaxInt64 {
		return 1
	}
	return gcd
}

func magnitude(form byte, r uint64) uint64 {
	if form == formOffset {
		return r
	}
	if d := unzigzag(r); d < 0 {
		return -uint64(d)
	}
	return r / 2
}

func divide(form byte, r, gcd uint64) uint64 {
	if form == formOffset {
		return r / gcd
	}
	return zigzag(unzigzag(r) / int64(gcd))
}

func zigzag(x int64) uint64   { return uint64(x)<<1 ^ uint64(x>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
