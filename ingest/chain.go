package ingest

import (
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/sharding"
)

// Reason says why a bin was cut.
type Reason string

// The reasons for a cut.
const (
	CutSize   Reason = "size"   // the document has reached its target
	CutHold   Reason = "hold"   // the oldest reading has waited long enough
	CutMemory Reason = "memory" // memory is short, and this was the fullest bin
	CutBehind Reason = "behind" // the bin held back the committed offset for too long
	CutDrain  Reason = "drain"  // shutdown
)

// chain is the open bin of a device and day, and what is known of the chunks before it.
//
// bin, flight and linger are what the head shows: they change under the Worker's lock.
type chain struct {
	key    chainKey
	bin    binning.Rows
	flight *flight
	linger []lingering

	opened time.Time // when the oldest reading in the bin was taken
	due    time.Time // when the bin is cut at the latest
	want   Reason    // why it is to be cut, empty if it is not
	queued bool      // stands in the Worker's ready list
	trial  int       // values from which on the next trial encoding is worth while

	looking bool   // a lookup of the tail is under way
	known   bool   // number and tail are known, be it wrongly: a create will tell
	number  uint32 // of the next chunk
	tail    int64  // through of the last one, -1 none
	used    time.Time
}

// flight is a chunk that is being created.
type flight struct {
	rows   binning.Rows
	id     chunk.ID
	key    sharding.Key
	doc    []byte
	reason Reason
}

// lingering is a chunk that was acknowledged a moment ago: a replica that lags may not have it yet.
type lingering struct {
	rows  binning.Rows
	until time.Time
}

// first is the lowest offset that the chain holds back from being committed; ok is false for none.
func (c *chain) first() (offset int64, ok bool) {
	if c.flight != nil {
		return c.flight.rows.First(), true
	}
	if c.bin.Readings() > 0 {
		return c.bin.First(), true
	}
	return 0, false
}

// idle tells whether nothing would be lost but knowledge if the chain were forgotten.
func (c *chain) idle() bool {
	return c.bin.Readings() == 0 && c.flight == nil && len(c.linger) == 0 && !c.looking
}

// adopt takes what a lookup or a conflict told of the tail, and drops what is stored already (rules W4, W6).
// The caller holds the lock. It answers how many bytes of memory became free.
func (c *chain) adopt(number uint32, tail int64) (freed int) {
	before := c.bytes()
	c.known = true
	if tail > c.tail {
		c.tail = tail
	}
	c.number = number
	if c.flight != nil {
		rows := c.flight.rows.After(c.tail)
		c.bin = rows.Concat(&c.bin)
		c.flight = nil
	}
	if c.bin.Readings() > 0 && c.bin.First() <= c.tail {
		c.bin = c.bin.After(c.tail)
	}
	return before - c.bytes()
}

func (c *chain) bytes() int {
	n := 0
	if c.bin.Readings() > 0 {
		n += c.bin.Bytes()
	}
	if c.flight != nil {
		n += c.flight.rows.Bytes()
	}
	return n + lingered(c)
}

// lingered is the memory of chunks that are stored already.
func lingered(c *chain) (n int) {
	for i := range c.linger {
		n += c.linger[i].rows.Bytes()
	}
	return n
}
