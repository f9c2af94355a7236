package worker

import (
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/telemetry"
)

// index finds chains by what is asked of all of them: which is due, holds the floor, takes most memory, or has been
// idle for longest. Filing a chain takes time by the logarithm of their number, and so does each answer.
type index struct {
	wakes   queue.Heap[*chain] // that have something to do by themselves, by when
	filling queue.Heap[*chain] // by the offset that they hold back
	lagging queue.Heap[*chain] // those that are filling too, by the position at which they are cut for holding it back
	acting  queue.Heap[*chain] // likewise
	idle    queue.Heap[*chain] // without rows, not even lingering ones, by when they are forgotten

	size      sizeClasses // those that are filling, by how much memory they take
	shelvable sizeClasses // likewise, by how much of that a shelf would free

	held   int64                // bytes of all chains
	going  int64                // of those, bytes of rows that are on their way out
	stalls [1 + len(faults)]int // chains that have stalled, by the code of the fault; the first are those that have not

	stuck int64 // of those that are going, bytes of bins that wait for dead letters
}

// filing is where a chain stands in the index.
type filing struct {
	shelf   *queue.Heap[*chain] // of filling, acting and idle, nil for none
	place   int32               // in shelf
	wake    int32               // place in wakes
	lag     int32               // place in lagging
	fault   uint8               // by which it is counted
	counted bool
	wakeAt  nanos
	size    sizeClass // among the largest
	free    sizeClass // among the shelvable

	held, going, stuck int32 // what the totals have of the chain
}

func newIndex() index {
	wake := func(c *chain) *int32 { return &c.filing.wake }
	place := func(c *chain) *int32 { return &c.filing.place }
	lag := func(c *chain) *int32 { return &c.filing.lag }
	byOffset := func(a, b *chain) bool { return a.first < b.first }
	return index{
		size:      sizeClasses{classOf: func(c *chain) *sizeClass { return &c.filing.size }},
		shelvable: sizeClasses{classOf: func(c *chain) *sizeClass { return &c.filing.free }},
		wakes:     queue.NewHeap(wake, func(a, b *chain) bool { return a.filing.wakeAt < b.filing.wakeAt }),
		filling:   queue.NewHeap(place, byOffset),
		lagging:   queue.NewHeap(lag, func(a, b *chain) bool { return a.first+a.budget < b.first+b.budget }),
		acting:    queue.NewHeap(place, byOffset),
		idle:      queue.NewHeap(place, func(a, b *chain) bool { return a.forgetAt().Before(b.forgetAt()) }),
	}
}

// file puts a chain where it belongs after a transition.
func (x *index) file(c *chain) {
	x.count(c)
	f := &c.filing
	if shelf := x.shelf(c); shelf != f.shelf {
		if f.shelf != nil {
			f.shelf.Remove(c)
		}
		f.shelf = shelf
	}
	if f.shelf != nil {
		f.shelf.Put(c)
	}
	if c.phase == filling {
		x.lagging.Put(c)
	} else {
		x.lagging.Remove(c)
	}
	at, ok := c.wakes()
	switch {
	case !ok:
		x.wakes.Remove(c)
	case f.wake == 0 || nanosOf(at) != f.wakeAt:
		f.wakeAt = nanosOf(at)
		x.wakes.Put(c)
	}
}

// shelf returns where a chain belongs by its phase.
func (x *index) shelf(c *chain) *queue.Heap[*chain] {
	switch {
	case c.acting():
		return &x.acting
	case c.phase == filling:
		return &x.filling
	case len(c.linger) == 0:
		return &x.idle
	}
	return nil
}

// count brings what is counted of a chain up to date, which is all there is to do when only its bin has grown.
func (x *index) count(c *chain) {
	f := &c.filing
	bin, out := size(&c.bin), c.leaving()
	held, going, stuck := chainBytes+bin+out+cap(c.journaled.blocks)*appendedBytes, out, 0
	switch {
	case c.phase == stalled:
		going = c.lingering() // nobody knows when the others go
	case c.want != 0:
		going += bin
	}
	if c.phase == sealed {
		stuck = bin
	}
	fault := uint8(0)
	if c.phase == stalled {
		fault = c.stall.fault.code()
	}
	if f.counted {
		x.stalls[f.fault]--
	}
	x.stalls[fault]++
	f.fault, f.counted = fault, true
	x.held += int64(held) - int64(f.held)
	x.going += int64(going) - int64(f.going)
	x.stuck += int64(stuck) - int64(f.stuck)
	f.held, f.going, f.stuck = int32(held), int32(going), int32(stuck)
	if c.phase != filling {
		bin = 0
	}
	x.size.put(c, bin)
	if bin > 0 {
		bin = c.bin.Shelvable()
	}
	x.shelvable.put(c, bin)
}

// drop takes a chain out.
func (x *index) drop(c *chain) {
	f := &c.filing
	x.held, x.going, x.stuck = x.held-int64(f.held), x.going-int64(f.going), x.stuck-int64(f.stuck)
	if f.counted {
		x.stalls[f.fault]--
	}
	x.wakes.Remove(c)
	x.lagging.Remove(c)
	if f.shelf != nil {
		f.shelf.Remove(c)
	}
	x.size.put(c, 0)
	x.shelvable.put(c, 0)
	*f = filing{}
}

// awake returns a chain with something to do at now, nil if there is none.
func (x *index) awake(now time.Time) *chain {
	if x.wakes.Len() == 0 || x.wakes.First().filing.wakeAt > nanosOf(now) {
		return nil
	}
	return x.wakes.First()
}

// next returns when the next chain has something to do; ok is false for never.
func (x *index) next() (at time.Time, ok bool) {
	if x.wakes.Len() == 0 {
		return time.Time{}, false
	}
	return x.wakes.First().filing.wakeAt.time(), true
}

// floor returns the lowest offset that a chain holds back; ok is false for none.
func (x *index) floor() (offset int64, ok bool) {
	for _, o := range []*queue.Heap[*chain]{&x.filling, &x.acting} {
		if o.Len() > 0 && (!ok || o.First().first < offset) {
			offset, ok = o.First().first, true
		}
	}
	return offset, ok
}

// below returns the chains that hold back an offset below the one given.
func (x *index) below(offset int64) (found []*chain) {
	for _, o := range []*queue.Heap[*chain]{&x.filling, &x.acting} {
		o.UpTo(func(c *chain) bool { return c.first < offset }, func(c *chain) { found = append(found, c) })
	}
	return found
}

// open returns how many bins hold readings or have some on their way out.
func (x *index) open() int { return x.filling.Len() + x.acting.Len() }

// wakes returns when the chain has something to do by itself: a bin is due, an attempt is to be made again, or rows
// have lingered. ok is false for never.
func (c *chain) wakes() (at time.Time, ok bool) {
	switch {
	case c.phase == stalled && !c.stall.ready:
		at, ok = c.stall.At, true
	case c.bin.Readings() > 0 && c.want == 0:
		at, ok = c.due.time(), true
	}
	if len(c.linger) > 0 && (!ok || c.linger[0].until < nanosOf(at)) {
		at, ok = c.linger[0].until.time(), true
	}
	return at, ok
}

// How long a chain without rows is remembered, so that its next chunk needs no lookup: one of a day that ended long ago
// gets readings in bursts, if at all.
const (
	idleFor    = 24 * time.Hour
	idleForOld = time.Hour
)

// forgetAt returns when a chain that has had no rows since it was used is forgotten.
func (c *chain) forgetAt() time.Time {
	used := time.UnixMilli(c.used)
	if c.used > c.day.End()+telemetry.DayMillis {
		return used.Add(idleForOld)
	}
	return used.Add(idleFor)
}
