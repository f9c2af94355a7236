package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
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
// bin, flight, linger, number, tail and span are what the head shows: they change under the Worker's lock.
type chain struct {
	key    chainKey
	device *device
	bin    binning.Rows
	flight *flight
	linger []lingering

	due    time.Time // when the bin is cut at the latest
	place  int       // in the Worker's timers, -1 for none
	want   Reason    // why it is to be cut, empty if it is not
	queued bool      // stands in the Worker's ready list
	trial  int       // values from which on the next trial encoding is worth while

	// A cut that must wait for dead letters takes rows up to here, -1 for all: else later ones would put it off for ever.
	sealed   int64
	sealedAt time.Time

	looking bool   // a lookup of the tail is under way
	known   bool   // number and tail are known, be it wrongly: a create will tell
	number  uint32 // of the next chunk
	tail    int64  // through of the last one, -1 none
	span    span   // of the last one
	used    time.Time
}

// span is the first and last instant of a chunk, both inclusive.
type span struct{ from, to int64 }

// last is the chain's last chunk; there must be one.
func (c *chain) last() store.Tail {
	return store.Tail{Number: c.number - 1, Through: c.tail, From: c.span.from, To: c.span.to}
}

// touches reports whether a range has instants of the chain's day. An empty one has none.
func (c *chain) touches(r telemetry.Range) bool {
	return !r.Empty() && c.key.day.End() > r.From && c.key.day.Start() < r.To
}

// flight is a chunk that is being created.
type flight struct {
	rows   binning.Rows
	id     chunk.ID
	key    sharding.Key
	doc    []byte
	reason Reason
}

// lingering is rows that are known to be stored since a moment ago: a replica that lags may not have them yet.
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

// adopt takes what a lookup or a conflict told of the tail, nil for none (rules W4, W6): what is stored already only lingers, the rest is
// the bin. The caller holds the lock. It answers how many bytes of memory more are held, or less.
func (c *chain) adopt(tail *store.Tail, until time.Time) (grown int) {
	before := c.bytes()
	c.known, c.number, c.span = true, 0, span{}
	if tail != nil {
		c.number, c.tail, c.span = tail.Number+1, max(c.tail, tail.Through), span{tail.From, tail.To}
	}
	c.bin = c.store(&c.bin, until)
	if c.flight != nil {
		if rest := c.store(&c.flight.rows, until); rest.Readings() > 0 {
			c.bin = rest.Concat(&c.bin)
		}
		c.flight = nil
	}
	if c.bin.Readings() == 0 || c.bin.First() > c.sealed {
		c.sealed = unsealed
	}
	return c.bytes() - before
}

// store lets the rows at or below the tail linger and answers the others.
func (c *chain) store(rows *binning.Rows, until time.Time) (rest binning.Rows) {
	head := *rows
	switch n := rows.Upto(c.tail); n {
	case 0:
		return *rows
	case rows.Readings():
	default:
		head, rest = rows.SplitAt(n)
	}
	c.linger = append(c.linger, lingering{head, until})
	return rest
}

const unsealed = -1

// bytes is how much memory the chain takes.
func (c *chain) bytes() int { return size(&c.bin) + c.leaving() }

// leaving is the memory of rows on their way out: being created, or stored already.
func (c *chain) leaving() (n int) {
	if c.flight != nil {
		n = size(&c.flight.rows)
	}
	for i := range c.linger {
		n += size(&c.linger[i].rows)
	}
	return n
}

// size is the memory of rows; an empty bin keeps only its names.
func size(rows *binning.Rows) int {
	if rows.Readings() == 0 {
		return 0
	}
	return rows.Bytes()
}
