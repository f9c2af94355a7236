package journal

import "math/bits"

// liveOffsets is the set of offsets of the journal that have a block with rows in no acknowledged chunk: the lowest is
// a commit's From (rule J3). It takes a bit for each offset between the lowest and the highest. The zero value is
// empty.
type liveOffsets struct {
	base  int64    // offset of the first bit, a multiple of 64
	words []uint64 // the first word is not 0
}

// add adds an offset, which is not lower than the lowest one by much: the space between them is taken.
func (l *liveOffsets) add(offset int64) {
	word := offset &^ 63
	if len(l.words) == 0 {
		l.base = word
	}
	if word < l.base {
		grown := make([]uint64, int(l.base-word)/64+len(l.words))
		copy(grown[(l.base-word)/64:], l.words)
		l.base, l.words = word, grown
	}
	i := int((word - l.base) / 64)
	for len(l.words) <= i {
		l.words = append(l.words, 0)
	}
	l.words[i] |= 1 << (offset & 63)
}

// remove removes an offset, if it is there.
func (l *liveOffsets) remove(offset int64) {
	i := (offset&^63 - l.base) / 64
	if i < 0 || i >= int64(len(l.words)) {
		return
	}
	l.words[i] &^= 1 << (offset & 63)
	gone := 0
	for gone < len(l.words) && l.words[gone] == 0 {
		gone++
	}
	if gone == len(l.words) {
		*l = liveOffsets{words: l.words[:0]}
		return
	}
	l.base += int64(gone) * 64
	l.words = l.words[gone:]
}

// lowest returns the lowest offset; ok is false if l is empty.
func (l *liveOffsets) lowest() (offset int64, ok bool) {
	if len(l.words) == 0 {
		return 0, false
	}
	return l.base + int64(bits.TrailingZeros64(l.words[0])), true
}
