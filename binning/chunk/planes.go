package chunk

// rawAbove is the share of a plane's bytes that zstd must be expected to leave for the plane to be kept plain: there it
// costs nothing to read and doesn't flatten the Huffman table of the others.
const rawAbove = 0.95

// writePlanes cuts r into planes of bytes, the lowest first. A mask byte marks the planes that are kept plain.
func (e *encoder) writePlanes(r []uint64, planes int) {
	if planes == 0 {
		return
	}
	mask := len(e.s.plain)
	e.s.plain = append(e.s.plain, 0)
	for k := range planes {
		at := len(e.s.packed)
		for _, x := range r {
			e.s.packed = append(e.s.packed, byte(x>>(8*k)))
		}
		if e.estimate(e.s.packed[at:]) > rawAbove*float64(len(r)) {
			e.s.plain[mask] |= 1 << k
			e.s.plain = append(e.s.plain, e.s.packed[at:]...)
			e.s.packed = e.s.packed[:at]
		}
	}
}

// fewBytes is the length up to which counting a plane's distinct bytes takes less time than a histogram of all 256.
const fewBytes = 256

// estimate returns what zstd's Huffman coder would make of a plane.
func (e *encoder) estimate(plane []byte) float64 {
	if len(plane) <= fewBytes {
		for _, b := range plane {
			e.few.add(b)
		}
		return e.few.bytes(len(plane))
	}
	var h histogram
	for _, b := range plane {
		h[b]++
	}
	return h.bytes(len(plane))
}

// sparseWins reports whether a bitmap and the other residuals take less than all residuals. zeros counts residuals of
// 0.
func sparseWins(r []uint64, zeros, planes int) bool {
	if 2*zeros < len(r) {
		return false
	}
	dense, sparse := 0.0, bitmapBytes(len(r), zeros)
	for k := range planes {
		var h histogram
		for _, x := range r {
			h[byte(x>>(8*k))]++
		}
		dense += h.bytes(len(r))
		h[0] -= uint32(zeros)
		sparse += h.bytes(len(r) - zeros)
	}
	return sparse+16 < dense
}
