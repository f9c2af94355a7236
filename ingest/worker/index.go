package worker

import (
	"math/bits"
	"time"

	"binnacle/internal/telemetry"
)

// index finds chains by what is asked about all of them: who is due, who holds the floor, who holds most memory, who
// has been idle for longest. Filing a chain takes time by the logarithm of their number, and so does each answer:
// nothing walks them.
type index struct {
	wakes   ordered[*chain]   // that have something to do by themselves, by when
	filling ordered[*chain]   // by the offset that they hold back
	lagging ordered[*chain]   // those that are filling too, by the position at which they are cut for holding it back
	acting  ordered[*chain]   // likewise
	idle    ordered[*chain]   // without rows, not even lingering ones, by when they are forgotten
	classes [classes][]*chain // those that are filling, by how much memory they take

	held   int64                // bytes of all chains
	going  int64                // of those, bytes of rows that are on their way out
	stalls [1 + len(faults)]int // chains that have stalled, by the code of the fault; the first are those that have not

	stuck int64 // of those that are going, bytes of bins that wait for dead letters
}

// filing is where a chain stands in the index.
type filing struct {
	shelf  *ordered[*chain] // of filling, acting and idle, nil for none
	place  int32            // in shelf
	wake   int32            // place in wakes
	lag    int32            // place in lagging
	wakeAt time.Time
	class  uint8
	slot   int32 // in its class, from 1, 0 for none

	held, going, stuck int   // what the totals have of the chain
	fault              uint8 // by which it is counted
	counted            bool
}

func newIndex() index {
	wake := func(c *chain) *int32 { return &c.filing.wake }
	place := func(c *chain) *int32 { return &c.filing.place }
	lag := func(c *chain) *int32 { return &c.filing.lag }
	byOffset := func(a, b *chain) bool { return a.first < b.first }
	return index{
		wakes:   newOrdered(wake, func(a, b *chain) bool { return a.filing.wakeAt.Before(b.filing.wakeAt) }),
		filling: newOrdered(place, byOffset),
		lagging: newOrdered(lag, func(a, b *chain) bool { return a.first+a.budget < b.first+b.budget }),
		acting:  newOrdered(place, byOffset),
		idle:    newOrdered(place, func(a, b *chain) bool { return a.forgetAt().Before(b.forgetAt()) }),
	}
}

// file puts a chain where it belongs after a transition.
func (x *index) file(c *chain) {
	x.count(c)
	f := &c.filing
	if shelf := x.shelf(c); shelf != f.shelf {
		if f.shelf != nil {
			f.shelf.remove(c)
		}
		f.shelf = shelf
	}
	if f.shelf != nil {
		f.shelf.put(c)
	}
	if c.phase == filling {
		x.lagging.put(c)
	} else {
		x.lagging.remove(c)
	}
	at, ok := c.wakes()
	switch {
	case !ok:
		x.wakes.remove(c)
	case f.wake == 0 || !at.Equal(f.wakeAt):
		f.wakeAt = at
		x.wakes.put(c)
	}
}

// shelf is where a chain belongs by its phase.
func (x *index) shelf(c *chain) *ordered[*chain] {
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
	held, going, stuck := chainBytes+bin+out, out, 0
	switch {
	case c.phase == stalled:
		going = c.lingering() // nobody knows when the others go
	case c.want != "":
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
	x.held += int64(held - f.held)
	x.going += int64(going - f.going)
	x.stuck += int64(stuck - f.stuck)
	f.held, f.going, f.stuck = held, going, stuck
	x.classify(c, bin)
}

// drop takes a chain out.
func (x *index) drop(c *chain) {
	f := &c.filing
	x.held, x.going, x.stuck = x.held-int64(f.held), x.going-int64(f.going), x.stuck-int64(f.stuck)
	if f.counted {
		x.stalls[f.fault]--
	}
	x.wakes.remove(c)
	x.lagging.remove(c)
	if f.shelf != nil {
		f.shelf.remove(c)
	}
	x.unclass(c)
	*f = filing{}
}

// classes are four to each doubling of the size: bins of a class differ by a quarter at most.
const classes = 4 * 48

func classOf(bytes int) uint8 {
	n := bits.Len(uint(bytes))
	if n < 3 {
		return uint8(n)
	}
	return uint8(min(4*n+bytes>>(n-3)&3, classes-1))
}

// classify keeps a chain that is filling in the class of its bin's size, and any other in none.
func (x *index) classify(c *chain, bytes int) {
	f := &c.filing
	if c.phase != filling {
		x.unclass(c)
		return
	}
	class := classOf(bytes)
	if f.slot > 0 && f.class == class {
		return
	}
	x.unclass(c)
	x.classes[class] = append(x.classes[class], c)
	f.class, f.slot = class, int32(len(x.classes[class]))
}

func (x *index) unclass(c *chain) {
	f := &c.filing
	if f.slot == 0 {
		return
	}
	list := x.classes[f.class]
	last := list[len(list)-1]
	list[f.slot-1], last.filing.slot = last, f.slot
	list[len(list)-1] = nil
	x.classes[f.class] = list[:len(list)-1]
	f.slot = 0
}

// fullest is a chain of those that are filling whose bin is among the largest, nil when none is open.
func (x *index) fullest() *chain {
	for i := len(x.classes) - 1; i >= 0; i-- {
		if n := len(x.classes[i]); n > 0 {
			return x.classes[i][n-1]
		}
	}
	return nil
}

// awake is a chain with something to do at now, nil if there is none.
func (x *index) awake(now time.Time) *chain {
	if x.wakes.len() == 0 || x.wakes.first().filing.wakeAt.After(now) {
		return nil
	}
	return x.wakes.first()
}

// next is when the next chain has something to do; ok is false for never.
func (x *index) next() (at time.Time, ok bool) {
	if x.wakes.len() == 0 {
		return time.Time{}, false
	}
	return x.wakes.first().filing.wakeAt, true
}

// floor is the lowest offset that a chain holds back; ok is false for none.
func (x *index) floor() (offset int64, ok bool) {
	for _, o := range []*ordered[*chain]{&x.filling, &x.acting} {
		if o.len() > 0 && (!ok || o.first().first < offset) {
			offset, ok = o.first().first, true
		}
	}
	return offset, ok
}

// below is the chains that hold back an offset below the one given.
func (x *index) below(offset int64) (found []*chain) {
	for _, o := range []*ordered[*chain]{&x.filling, &x.acting} {
		o.upto(func(c *chain) bool { return c.first < offset }, func(c *chain) { found = append(found, c) })
	}
	return found
}

// open is how many bins there are that hold readings, or whose readings are on their way out.
func (x *index) open() int { return x.filling.len() + x.acting.len() }

// wakes is when the chain has something to do by itself: a bin is due, an attempt is to be made again, or rows have
// lingered. ok is false for never.
func (c *chain) wakes() (at time.Time, ok bool) {
	switch {
	case c.phase == stalled && !c.stall.ready:
		at, ok = c.stall.at, true
	case c.bin.Readings() > 0 && c.want == "":
		at, ok = c.due, true
	}
	if len(c.linger) > 0 && (!ok || c.linger[0].until.Before(at)) {
		at, ok = c.linger[0].until, true
	}
	return at, ok
}

// How long a chain without rows is remembered, so that its next chunk needs no lookup: one of a day that ended long ago
// gets readings in bursts, if at all.
const (
	idleFor    = 24 * time.Hour
	idleForOld = time.Hour
)

// forgetAt is when a chain that has had no rows since it was used is forgotten.
func (c *chain) forgetAt() time.Time {
	if c.used.UnixMilli() > c.day.End()+telemetry.DayMillis {
		return c.used.Add(idleForOld)
	}
	return c.used.Add(idleFor)
}
