package journal

// BlockIndex indexes the journal's blocks that one writer knows, appended or loaded by it, until all their rows are
// in acknowledged chunks. The zero BlockIndex is empty. It serves one goroutine.
type BlockIndex struct {
	live liveOffsets
	last Link // the append that landed last, or was loaded last
	any  bool // there is one
}

// Before returns the append that the next one must name (rule J6); ok is false when none is known. There is one append
// at a time.
func (l *BlockIndex) Before() (last Link, ok bool) { return l.last, l.any }

// Appended records an append of n blocks, the first one at an offset. It reports lost when the journal has lost its end
// since the append before, blocks that counted among it: then the BlockIndex is empty, and whatever was journaled must
// be again, the new blocks too, for they name an append that is gone.
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

// Loaded adds a block that a Loader has taken and that has rows which are kept.
func (l *BlockIndex) Loaded(offset int64) { l.live.add(offset) }

// Resume continues after the last append of a Loader.
func (l *BlockIndex) Resume(last Link) { l.last, l.any = last, true }

// Remove removes a block that has all its rows in acknowledged chunks.
func (l *BlockIndex) Remove(offset int64) { l.live.remove(offset) }

// Commit returns what a commit may carry with an F: it counts on all blocks that are needed, and demands that the
// journal is whole up to the last append (rule J3). Without a block it counts on nothing.
func (l *BlockIndex) Commit(stream uint32, f int64) Commit {
	from, ok := l.live.lowest()
	if !ok {
		return Commit{}
	}
	return Commit{Stream: stream, F: f, From: from, To: l.last.Offset + 1, Mark: l.last.Nonce}
}
