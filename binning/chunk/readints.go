package chunk

import (
	"encoding/binary"
	"slices"
)

// readInts reads an integer stream of n values into buf, which it returns, grown where it must.
func (d *decoder) readInts(buf []int64, n int) ([]int64, error) {
	if n == 0 {
		return buf[:0], nil
	}
	s, err := d.streamHead(n)
	if err != nil {
		return nil, err
	}
	return d.readStream(buf, n, s)
}

// constant reports whether all values are first[0].
func (s *stream) constant() bool { return s.form == formOffset && s.planes == 0 }

// fill makes buf n times v.
func fill(buf []int64, n int, v int64) []int64 {
	buf = slices.Grow(buf[:0], n)[:n]
	for i := range buf {
		buf[i] = v
	}
	return buf
}

// readStream reads what follows the head of a stream of n values into buf, which it returns, grown where it must.
func (d *decoder) readStream(buf []int64, n int, s stream) ([]int64, error) {
	if s.constant() {
		return fill(buf, n, s.first[0]), nil
	}
	buf = slices.Grow(buf[:0], n)[:n]
	r, err := d.readResiduals(s.count, s.planes, s.sparse)
	if err != nil {
		return nil, err
	}
	undo(s.form, buf, r, s.first, int64(s.gcd))
	return buf, nil
}

// stream is the head of an integer stream.
type stream struct {
	form   byte
	sparse bool
	planes int
	count  int // of residuals
	first  [2]int64
	gcd    uint64
}

// streamHead reads the head of an integer stream of n > 0 values.
func (d *decoder) streamHead(n int) (s stream, err error) {
	head, err := d.byte()
	if err != nil {
		return s, err
	}
	s = stream{form: head & formMask, sparse: head&flagZeros != 0, planes: int(head >> planesShift), count: n, gcd: 1}
	if s.planes > 8 {
		return s, corrupt("%d planes", s.planes)
	}
	firsts := [4]int{formOffset: 1, formDelta: 1, formDelta2: min(n, 2)}[s.form]
	for i := range firsts {
		if s.first[i], err = d.varint(); err != nil {
			return s, err
		}
	}
	if head&flagGCD != 0 {
		if s.gcd, err = d.uvarint(); err != nil {
			return s, err
		}
	}
	if s.form == formDelta || s.form == formDelta2 {
		s.count -= firsts
	}
	return s, nil
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
