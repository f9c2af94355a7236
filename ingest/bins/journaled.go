package bins

import (
	"binnacle/ingest/journal"
	"binnacle/ingest/queue"
)

// JournalIndex is what the journal has, and lacks, of the rows of open bins (rules J1 to J3). Of each chain a prefix is
// in the journal: rows up to an offset. What lies above is loose. With on false there is no journal.
type JournalIndex struct {
	On     bool
	Blocks *journal.BlockIndex // the blocks that count
	Times  carriedTimes
	Loose  queue.Heap[*Chain] // chains with loose rows, by the lowest offset of these
	Ready  queue.FIFO[*Chain] // chains with blocks that are not in the journal
}

func newJournalIndex(cfg *Config) JournalIndex {
	blocks := new(journal.BlockIndex)
	return JournalIndex{
		On: cfg.Journal, Blocks: blocks, Times: newCarriedTimes(cfg, blocks),
		Loose: queue.NewHeap(func(c *Chain) *int32 { return &c.Journaled.place },
			func(c *Chain) int64 { return c.Journaled.Loose }),
	}
}

// journaled is how far a chain's rows are in the journal.
type journaled struct {
	Through int64      // rows up to here are there, as far as they are not stored; -1 none
	Loose   int64      // offset that is not above any row that is not there; noOffset when all are
	Under   int64      // rows up to here are there or on their way
	Blocks  []Appended // its blocks that are still needed
	place   int32      // among those with loose rows
	Bulky   bool       // a row is too large for the journal: it must be stored first
}

// Appended is a block in the journal.
type Appended struct{ At, Through int64 }

const AppendedBytes = 16

// Track brings up to date what the journal is to have of a chain.
func (j *JournalIndex) Track(c *Chain) {
	if c.Closed() {
		return
	}
	x := &c.Journaled
	first, through, ok := c.held()
	kept := x.Blocks[:0]
	for _, l := range x.Blocks {
		if ok && l.Through >= first {
			kept = append(kept, l)
		} else {
			j.release(c.Device, l.At)
		}
	}
	if x.Blocks = kept; len(kept) == 0 {
		x.Blocks = nil
	}
	switch {
	case !ok || through <= x.Through:
		x.Loose, x.Bulky = noOffset, false
		j.Loose.Remove(c)
		return
	case x.Loose == noOffset || x.Loose < first || x.Loose <= x.Through:
		x.Loose = max(first, x.Through+1)
	}
	j.Loose.Put(c)
}

// Lost records that the journal has no row of a chain any more (rule J6).
func (j *JournalIndex) Lost(c *Chain) {
	c.Journaled.Through, c.Journaled.Under, c.Journaled.Loose, c.Journaled.Blocks = -1, -1, noOffset, nil
	j.Track(c)
}

// release lets a block go that is not needed for its rows any more, unless it is kept for their times.
func (j *JournalIndex) release(d *Device, block int64) {
	if !j.Times.keep(d, block) {
		j.Blocks.Remove(block)
	}
}

// Offer queues a chain with blocks that are to go to the journal.
func (j *JournalIndex) Offer(c *Chain) {
	if j.On && !c.ready {
		c.ready = true
		j.Ready.Push(c)
	}
}

// Take returns the next chain that was offered; there must be one.
func (j *JournalIndex) Take() *Chain {
	c := j.Ready.Pop()
	c.ready = false
	return c
}

// Appended records that the journal has a block of a chain, which may be idle by now, and even forgotten.
func (j *JournalIndex) Appended(c *Chain, a Appended) {
	if c.Closed() {
		j.release(c.Device, a.At)
		return
	}
	x := &c.Journaled
	if n := len(x.Blocks); n == cap(x.Blocks) {
		x.Blocks = append(make([]Appended, 0, n+n/8+4), x.Blocks...) // append would double it
	}
	x.Blocks, x.Through = append(x.Blocks, a), max(x.Through, a.Through)
}

// Floor returns the lowest offset of a row that is not in the journal; ok is false for none.
func (j *JournalIndex) Floor() (offset int64, ok bool) {
	if j.Loose.Len() == 0 {
		return 0, false
	}
	return j.Loose.First().Journaled.Loose, true
}

// JournalTail returns the chain's tail as it is known in a generation.
func (c *Chain) JournalTail(generation uint32) (t journal.Tail) {
	if c.KnownIn(generation) {
		t = journal.Tail{Known: true, Chunks: int64(c.Number)}
		if c.Number > 0 {
			t.Through, t.From, t.To = c.Tail, c.span.From, c.span.To
		}
	}
	return t
}
