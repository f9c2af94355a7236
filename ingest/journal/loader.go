package journal

import (
	"fmt"
	"math/bits"
	"sort"
)

// Loader takes the part of the journal that a commit counts on, in the order of its offsets, and finds out whether it
// is whole (rules J4, J6). It serves one goroutine.
type Loader struct {
	commit  Commit
	floor   int64 // S: rows below it are in chunks
	next    int64 // offset of the journal
	appends []appendStart
	link    Link // link of the record that was taken last
}

// appendStart is the offset and nonce of the first record of an append that the Loader has seen.
type appendStart struct {
	at    int64
	nonce Nonce
}

// NewLoader loads what a commit counts on. floor is the offset that was committed, S; begin and end are the offsets
// of the first record that the journal still has and the one after its last. It fails with ErrNotWhole when the part
// that counts is not between them.
func NewLoader(c Commit, floor, begin, end int64) (*Loader, error) {
	l := &Loader{commit: c, floor: floor, next: c.From}
	switch {
	case !c.Counts():
		return nil, fmt.Errorf("%w: the commit counts on no block", ErrNotWhole)
	case begin > c.From:
		return nil, fmt.Errorf("%w: it begins at %d, and the first block that counts stood at %d", ErrNotWhole, begin, c.From)
	case end < c.To:
		return nil, fmt.Errorf("%w: it ends at %d, and the last block that counts stood at %d", ErrNotWhole, end, c.To-1)
	case c.F < floor:
		return nil, fmt.Errorf("%w: its journal continues at %d, below the committed offset %d", ErrNotWhole, c.F, floor)
	}
	return l, nil
}

// Done reports whether everything that counts was taken, and is whole. Before that nothing may be cut or committed, and
// no position may be shown.
func (l *Loader) Done() bool { return l.next >= l.commit.To }

// Next returns the offset of the journal to be taken next.
func (l *Loader) Next() int64 { return l.next }

// Left returns how many records are still to be taken.
func (l *Loader) Left() int64 { return max(0, l.commit.To-l.next) }

// Last returns the last append taken, which a writer that continues names as the one before its own.
func (l *Loader) Last() Link { return l.link }

// Take takes the record at an offset; records before Next are skipped. ok is set if the block has rows that count, in
// [floor, F). From a block that lies across one of these bounds, or that repeats rows of another block, the caller
// takes each source offset of a chain once, whatever the order. Any error wraps ErrNotWhole: neither the journal nor
// the records taken from it can be used.
func (l *Loader) Take(offset int64, value []byte) (r Record, ok bool, err error) {
	if offset < l.next || l.Done() {
		return Record{}, false, nil
	}
	if offset > l.next {
		return Record{}, false, fmt.Errorf("%w: after %d it goes on at %d", ErrNotWhole, l.next-1, offset)
	}
	if r, err = ParseRecord(value); err != nil {
		return Record{}, false, fmt.Errorf("offset %d: %w", offset, err)
	}
	if err := l.verify(offset, &r); err != nil {
		return Record{}, false, err
	}
	l.next++
	l.link = Link{offset, r.Nonce}
	counts := r.Stream == l.commit.Stream && r.Through >= l.floor && r.First < l.commit.F
	return r, counts, nil
}

// verify compares a record with those before it and with the commit's mark.
func (l *Loader) verify(offset int64, r *Record) error {
	n := len(l.appends)
	if n == 0 || l.appends[n-1].nonce != r.Nonce || r.Linked {
		l.appends = append(l.appends, appendStart{offset, r.Nonce})
	}
	if before := r.Before; r.Linked && before.Offset >= l.commit.From {
		if before.Offset >= offset || l.nonceAt(before.Offset) != before.Nonce {
			return fmt.Errorf("%w: the append at %d came after one that stood at %d and is gone", ErrNotWhole, offset,
				before.Offset)
		}
	}
	if offset == l.commit.To-1 && r.Nonce != l.commit.Mark {
		return fmt.Errorf("%w: another record stands at %d than the last one that counts", ErrNotWhole, offset)
	}
	return nil
}

// nonceAt returns the nonce of a record that was taken.
func (l *Loader) nonceAt(offset int64) Nonce {
	i := sort.Search(len(l.appends), func(i int) bool { return l.appends[i].at > offset })
	return l.appends[i-1].nonce
}

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
