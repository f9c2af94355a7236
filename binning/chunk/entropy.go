package chunk

import (
	"math"
)

// nLog2nTable holds n*log2(n) for the counts of ordinary chunks.
var nLog2nTable = func() (t [2048]float64) {
	for n := 2; n < len(t); n++ {
		t[n] = float64(n) * math.Log2(float64(n))
	}
	return t
}()

func nLog2n(n uint32) float64 {
	if n < uint32(len(nLog2nTable)) {
		return nLog2nTable[n]
	}
	return float64(n) * math.Log2(float64(n))
}

// histogram counts the bytes of a plane.
type histogram [256]uint32

// bytes estimates what zstd's Huffman coder makes of n bytes so distributed: at least a bit for each, and about half a
// byte of table per distinct one.
func (h *histogram) bytes(n int) float64 {
	total := nLog2n(uint32(n))
	perSymbol := 0.0
	if n > 0 {
		perSymbol = total / float64(n)
	}
	sum, distinct := 0.0, 0
	for _, c := range h {
		if c > 0 {
			distinct++
			sum += max(float64(c), float64(c)*perSymbol-nLog2n(c))
		}
	}
	if distinct <= 1 {
		return 0
	}
	return sum/8 + float64(distinct)/2
}

// bitmapBytes estimates what remains of a bitmap of n rows with k set.
func bitmapBytes(n, k int) float64 {
	return (nLog2n(uint32(n)) - nLog2n(uint32(k)) - nLog2n(uint32(n-k))) / 8
}

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
		if estimate(e.s.packed[at:]) > rawAbove*float64(len(r)) {
			e.s.plain[mask] |= 1 << k
			e.s.plain = append(e.s.plain, e.s.packed[at:]...)
			e.s.packed = e.s.packed[:at]
		}
	}
}

// estimate returns what zstd's Huffman coder would make of a plane.
func estimate(plane []byte) float64 {
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
