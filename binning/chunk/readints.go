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
	if d.brief {
		buf = slices.Grow(buf[:0], n)[:n]
		return buf, d.readBlockInts(buf)
	}
	s, err := d.streamHead(n)
	if err != nil {
		return nil, err
	}
	return d.readStream(buf, n, s)
}

// constant reports whether all values are first[0].
func (s *stream) constant() bool { return s.form == formOffset && s.planes == 0 }

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
	u, rest := s.begin(buf)
	if s.sparse || s.planes == 0 || s.count == 0 {
		r, err := d.readResiduals(s.count, s.planes, s.sparse)
		if err == nil {
			u.undo(rest, r)
		}
		return buf, err
	}
	p, err := d.takePlanes(s.count, s.planes)
	if err != nil {
		return nil, err
	}
	// In runs that stay in the processor's first cache between one pass and the next.
	var run [512]uint64
	for len(rest) > 0 {
		r := run[:min(len(run), len(rest))]
		p.next(r)
		u.undo(rest[:len(r)], r)
		rest = rest[len(r):]
	}
	return buf, nil
}

// stream is the head of an integer stream.
type stream struct {
	form   byte
	sparse bool
	planes int
	count  int // residuals
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
	rest := d.s.plain
	for i := range firsts {
		x, used := binary.Varint(rest)
		if used <= 0 {
			return s, corrupt("a varint")
		}
		s.first[i], rest = x, rest[used:]
	}
	d.s.plain = rest
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

// undoing turns residuals back into values, a run after the other.
type undoing struct {
	form      byte
	at, delta int64
	gcd       int64
}

// begin fills in what the head has of the values; the rest of them is of the residuals.
func (s *stream) begin(v []int64) (u undoing, rest []int64) {
	u = undoing{form: s.form, at: s.first[0], gcd: int64(s.gcd)}
	firsts := len(v) - s.count
	if firsts > 0 {
		v[0] = u.at
	}
	if firsts > 1 {
		u.delta = s.first[1]
		u.at += u.delta
		v[1] = u.at
	}
	return u, v[firsts:]
}

// undo turns residuals into as many values.
func (u *undoing) undo(v []int64, r []uint64) {
	v = v[:len(r)]
	gcd := u.gcd
	switch u.form {
	case formOffset:
		for i, x := range r {
			v[i] = u.at + int64(x)*gcd
		}
	case formPlain:
		for i, x := range r {
			v[i] = unzigzag(x) * gcd
		}
	case formDelta:
		at := u.at
		for i, x := range r {
			at += unzigzag(x) * gcd
			v[i] = at
		}
		u.at = at
	case formDelta2:
		at, delta := u.at, u.delta
		for i, x := range r {
			delta += unzigzag(x) * gcd
			at += delta
			v[i] = at
		}
		u.at, u.delta = at, delta
	}
}

// readResiduals reads count residuals in that many planes; the result is valid until the next call.
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

func (d *decoder) readPlanes(r []uint64, planes int) error {
	p, err := d.takePlanes(len(r), planes)
	if err == nil {
		p.next(r)
	}
	return err
}

// planes is numbers as planes of bytes, the lowest first.
type planes struct {
	n  int
	of [8][]byte
}

func (d *decoder) takePlanes(count, n int) (p planes, err error) {
	mask, err := d.byte()
	if err != nil {
		return p, err
	}
	p.n = n
	for k := range n {
		take := d.takePacked
		if mask>>k&1 != 0 {
			take = d.takePlain
		}
		if p.of[k], err = take(count); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *planes) next(r []uint64) {
	lowest := p.of[0][:len(r)]
	for i, b := range lowest {
		r[i] = uint64(b)
	}
	for k := 1; k < p.n; k++ {
		plane := p.of[k][:len(r)]
		for i, b := range plane {
			r[i] |= uint64(b) << (8 * k)
		}
		p.of[k] = p.of[k][len(r):]
	}
	p.of[0] = p.of[0][len(r):]
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
	p := d.s.plain
	if len(p) == 0 {
		return 0, corrupt("1 byte wanted where none is left")
	}
	d.s.plain = p[1:]
	return p[0], nil
}

func (d *decoder) uvarint() (uint64, error) {
	x, n := binary.Uvarint(d.s.plain)
	if n <= 0 {
		return 0, corrupt("a varint")
	}
	d.s.plain = d.s.plain[n:]
	return x, nil
}

// length reads a varint that counts something. It refuses more than limit.
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
