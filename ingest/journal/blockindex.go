package journal

// BlockIndex is what one writer knows to be in the journal: its own blocks that landed and those it has loaded, as long as
// they have rows that are in no acknowledged chunk. The zero Ledger knows of nothing. It serves one goroutine.
type BlockIndex struct {
	live liveOffsets
	last Link // the append that landed last, or was loaded last
	any  bool // there is one
}

// Before is the append that the next one is to name (rule J6); ok is false when none is known. There is one append at a
// time.
func (l *BlockIndex) Before() (last Link, ok bool) { return l.last, l.any }

// Appended takes the answer to an append of n blocks: the first one stands at an offset, the others follow. It reports
// lost when the journal has lost its end since the append before, blocks that counted among it: then the Ledger knows
// of no block, and whatever was journaled must be again, the new blocks too, for they name an append that is gone.
func (l *BlockIndex) Appended(first int64, n int, nonce Nonce) (lost bool) {
	lost = l.any && first <= l.last.Offset
	l.last, l.any = Link{first + int64(n) - 1, nonce}, true
	if lost {
		l.live = liveOffsets{}
		return true
	}
	for i := range int64(n) {
		l.live.add(first + i)
	}
	return false
}

// Loaded takes a block that a Loader has taken, of which rows are kept.
func (l *BlockIndex) Loaded(offset int64) { l.live.add(offset) }

// Resume goes on where a Loader has ended.
func (l *BlockIndex) Resume(last Link) { l.last, l.any = last, true }

// Remove takes a block away whose rows are all in acknowledged chunks.
func (l *BlockIndex) Remove(offset int64) { l.live.remove(offset) }

// Commit is what a commit may carry with an F: it counts on all blocks that are needed, and asks for the journal to be
// whole up to the append that landed last (rule J3). Without a block it counts on nothing.
func (l *BlockIndex) Commit(stream uint32, f int64) Commit {
	from, ok := l.live.lowest()
	if !ok {
		return Commit{}
	}
	return Commit{Stream: stream, F: f, From: from, To: l.last.Offset + 1, Mark: l.last.Nonce}
}
