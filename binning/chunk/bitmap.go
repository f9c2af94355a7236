package chunk

import (
	"math"
	"math/bits"
)

// Bitmap is a set of row numbers: bit i%64 of word i/64. The nil Bitmap holds every row.
type Bitmap []uint64

// NewBitmap returns an empty set with room for n rows.
func NewBitmap(n int) Bitmap { return make(Bitmap, (n+63)/64) }

// Has reports whether row i >= 0 is in the set. Rows beyond a non-nil set's words are not.
func (b Bitmap) Has(i int) bool {
	if b == nil {
		return true
	}
	w := i >> 6
	return w < len(b) && b[w]>>(i&63)&1 != 0
}

// Set adds row i, which must lie in the room that NewBitmap made.
func (b Bitmap) Set(i int) { b[i>>6] |= 1 << (i & 63) }

// setAll adds the rows from i on and below j.
func (b Bitmap) setAll(i, j int) {
	for ; i < j && i&63 != 0; i++ {
		b.Set(i)
	}
	for ; i+64 <= j; i += 64 {
		b[i>>6] = math.MaxUint64
	}
	for ; i < j; i++ {
		b.Set(i)
	}
}

func (b Bitmap) grown(n int) Bitmap {
	for len(b) < (n+63)/64 {
		b = append(b, 0)
	}
	return b
}

// Count returns the number of rows in a set that is not nil.
func (b Bitmap) Count() int {
	n := 0
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

// fits reports whether b has exactly the words for n rows, and no row beyond them.
func (b Bitmap) fits(n int) bool {
	return len(b) == (n+63)/64 && (n&63 == 0 || b[len(b)-1]>>(n&63) == 0)
}

// overlaps reports whether two sets of n > 0 rows have one in common.
func (b Bitmap) overlaps(c Bitmap) bool {
	switch {
	case b == nil && c == nil:
		return true
	case b == nil:
		return c.Count() > 0
	case c == nil:
		return b.Count() > 0
	}
	for i := range min(len(b), len(c)) {
		if b[i]&c[i] != 0 {
			return true
		}
	}
	return false
}
