package chunk

import (
	"encoding/binary"
	"slices"
)

// readInts reads an integer stream of n values into buf, which it returns, grown where it must.
func (d *decoder) readInts(buf []int64, n int) ([]int64, error) {
	buf = slices.Grow(buf[:0], n)[:n]
	if n == 0 {
		return buf, nil
	}
	head, err := d.byte()
	if err != nil {
		return nil, err
	}
	form, planes := head&formMask, int(head>>planesShift)
	if planes > 8 {
		return nil, corrupt("%d planes", planes)
	}
	var first [2]int64
	firsts := [4]int{formOffset: 1, formDelta: 1, formDelta2: min(n, 2)}[form]
	for i := range firsts {
		if first[i], err = d.varint(); err != nil {
			return nil, err
		}
	}
	gcd := uint64(1)
	if head&flagGCD != 0 {
		if gcd, err = d.uvarint(); err != nil {
			return nil, err
		}
	}
	count := n
	if form == formDelta || form == formDelta2 {
		count -= firsts
	}
	r, err := d.readResiduals(count, planes, head&flagZeros != 0)
	if err != nil {
		return nil, err
	}
	undo(form, buf, r, first, int64(gcd))
	return buf, nil
}

// undo turns residuals back into values.
func undo(form byte, v []int64, r []uint64, first [2]int64, gcd int64) {
	switch form {
	case formOffset:
		for i, x := range r {
			v[i] = first[0] + int64(x)*gcd
		}
	case formPlain:
		for i, x := range r {
			v[i] = unzigzag(x) * gcd
		}
	case formDelta:
		at := first[0]
		v[0] = at
		for i, x := range r {
			at += unzigzag(x) * gcd
			v[i+1] = at
		}
	case formDelta2:
		at, delta := first[0], first[1]
		v[0] = at
		if len(v) == 1 {
			return
		}
		at += delta
		v[1] = at
		for i, x := range r {
			delta += unzigzag(x) * gcd
			at += delta
			v[i+2] = at
		}
	}
}

// readResiduals reads count residuals of so many planes; the result is valid until the next call.
func (d *decoder) readResiduals(count, planes int, sparse bool) ([]uint64, error) {
	r := slices.Grow(d.residuals[:0], count)[:count]
	d.residuals = r
	if planes == 0 || count == 0 {
		clear(r)
		return r, nil
	}
	if !sparse {
		return r, d.readPlanes(r, planes)
	}
	set, err := d.takePacked((count + 7) / 8)
	if err != nil {
		return nil, err
	}
	kept := onesIn(set, count)
	if kept < 0 {
		return nil, corrupt("a bitmap goes on after its rows")
	}
	if err := d.readPlanes(r[:kept], planes); err != nil {
		return nil, err
	}
	// From the back, because what is kept is never behind its place.
	for i := count - 1; i >= 0; i-- {
		if set[i/8]>>(i%8)&1 == 0 {
			r[i] = 0
			continue
		}
		kept--
		r[i] = r[kept]
	}
	return r, nil
}

// readPlanes fills r from planes of bytes.
func (d *decoder) readPlanes(r []uint64, planes int) error {
	mask, err := d.byte()
	if err != nil {
		return err
	}
	for k := range planes {
		take := d.takePacked
		if mask>>k&1 != 0 {
			take = d.takePlain
		}
		p, err := take(len(r))
		if err != nil {
			return err
		}
		if k == 0 {
			for i, b := range p {
				r[i] = uint64(b)
			}
			continue
		}
		for i, b := range p {
			r[i] |= uint64(b) << (8 * k)
		}
	}
	return nil
}

func (d *decoder) takePlain(n int) ([]byte, error)  { return take(&d.s.plain, n) }
func (d *decoder) takePacked(n int) ([]byte, error) { return take(&d.s.packed, n) }

func take(from *[]byte, n int) ([]byte, error) {
	if n > len(*from) {
		return nil, corrupt("%d bytes wanted where %d are left", n, len(*from))
	}
	b := (*from)[:n]
	*from = (*from)[n:]
	return b, nil
}

func (d *decoder) byte() (byte, error) {
	b, err := d.takePlain(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

func (d *decoder) uvarint() (uint64, error) {
	x, n := binary.Uvarint(d.s.plain)
	if n <= 0 {
		return 0, corrupt("a varint")
	}
	d.s.plain = d.s.plain[n:]
	return x, nil
}

func (d *decoder) varint() (int64, error) {
	u, err := d.uvarint()
	return unzigzag(u), err
}

// length reads a varint that counts something of which there are at most limit.
func (d *decoder) length(limit int) (int, error) {
	n, err := d.uvarint()
	if err != nil {
		return 0, err
	}
	if n > uint64(limit) {
		return 0, corrupt("a length of %d where at most %d can be", n, limit)
	}
	return int(n), nil
}
