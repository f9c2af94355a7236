package bins

import (
	"binnacle/ingest/queue"
	"binnacle/internal/telemetry"
	"math/bits"
	"time"
)

// index finds the chain that is due, holds the floor, takes most memory, or has been idle for longest. Filing a chain
// takes time by the logarithm of their number, and so does each answer.
type index struct {
	// Wakes orders chains by when they have something to do without an event.
	Wakes queue.Heap[*Chain]
	// Holding orders chains by the offset that they hold back.
	Holding queue.Heap[*Chain]
	// Lagging orders the filling chains by the position at which they are cut for holding it back.
	Lagging queue.Heap[*Chain]
	Idle    queue.Heap[*Chain] // without rows, not even lingering ones, by when they are forgotten

	// Size classes the filling chains by how many bytes of memory they take.
	Size sizeClasses
	// Shelvable classes the filling chains by how many of these bytes a shelf would free.
	Shelvable sizeClasses

	Held  int64 // bytes of all open bins
	Going int64 // the part of Held in rows on their way out
	// Stalls counts stalled chains by the code of the fault. The first counter means nothing.
	Stalls [1 + len(faults)]int

	Stuck int64 // the part of Going in bins that wait for dead letters
}

// filing locates a chain with an open bin in the index.
type filing struct {
	hold   int32 // place in holding
	wake   int32 // place in wakes
	lag    int32 // place in lagging
	wakeAt nanos
	size   sizeClass // among the largest
	free   sizeClass // among the shelvable

	held, going, stuck int32 // the chain's part in the totals
	fault              uint8 // code of the fault under which the chain is counted, 0 for none
}

func newIndex() index {
	return index{
		Size:      sizeClasses{classOf: func(c *Chain) *sizeClass { return &c.size }},
		Shelvable: sizeClasses{classOf: func(c *Chain) *sizeClass { return &c.free }},
		Wakes:     queue.NewHeap(func(c *Chain) *int32 { return &c.wake }, func(c *Chain) int64 { return int64(c.wakeAt) }),
		Holding:   queue.NewHeap(func(c *Chain) *int32 { return &c.hold }, func(c *Chain) int64 { return c.First }),
		Lagging:   queue.NewHeap(func(c *Chain) *int32 { return &c.lag }, func(c *Chain) int64 { return c.First + c.Budget }),
		Idle:      queue.NewHeap(func(c *Chain) *int32 { return &c.rest }, (*Chain).forgetAt),
	}
}

// file puts a chain where it belongs after a transition.
func (x *index) file(c *Chain) {
	x.Count(c)
	x.Holding.Keep(c, c.Phase != idle)
	x.Lagging.Keep(c, c.Phase == filling)
	x.Idle.Keep(c, c.isIdle())
	at, ok := c.wakes()
	if ok {
		c.wakeAt = NanosOf(at)
	}
	x.Wakes.Keep(c, ok)
}

// isIdle reports whether the chain has no rows, not even lingering ones.
func (c *Chain) isIdle() bool { return c.Phase == idle && len(c.Linger) == 0 }

// Count brings a chain's part in the totals up to date, which is enough when only its bin has grown.
func (x *index) Count(c *Chain) {
	if c.Closed() {
		return
	}
	f := &c.filing
	bin, out := Size(&c.Bin), c.leaving()
	held, going, stuck := openBytes+bin+out+cap(c.Journaled.Blocks)*AppendedBytes, out, 0
	switch {
	case c.Phase == Stalled:
		going = c.Linger.bytes() // it is not known when the other rows go
	case c.Want != 0:
		going += bin
	}
	if c.Phase == Sealed {
		stuck = bin
	}
	fault := uint8(0)
	if c.Phase == Stalled {
		fault = c.Stall.Fault.Code()
	}
	x.Stalls[f.fault]--
	x.Stalls[fault]++
	f.fault = fault
	x.Held += int64(held) - int64(f.held)
	x.Going += int64(going) - int64(f.going)
	x.Stuck += int64(stuck) - int64(f.stuck)
	f.held, f.going, f.stuck = int32(held), int32(going), int32(stuck)
	if c.Phase != filling {
		bin = 0
	}
	x.Size.put(c, bin)
	if bin > 0 {
		bin = c.Bin.Shelvable()
	}
	x.Shelvable.put(c, bin)
}

// StalledBy calls each with every fault and how many chains have stalled for it.
func (x *index) StalledBy(each func(f Fault, chains int)) {
	for i, f := range faults {
		each(f, x.Stalls[i+1])
	}
}

// close gives up the open part of an idle chain that has no lingering rows. The caller holds the lock.
func (x *index) close(c *Chain) {
	if c.Closed() {
		return
	}
	x.Held -= int64(c.filing.held)
	x.Wakes.Remove(c)
	x.Lagging.Remove(c)
	x.Size.put(c, 0)
	x.Shelvable.put(c, 0)
	c.open = closed
}

// Awake returns a chain with something to do at now, nil without one.
func (x *index) Awake(now time.Time) *Chain {
	if x.Wakes.Len() == 0 || x.Wakes.First().wakeAt > NanosOf(now) {
		return nil
	}
	return x.Wakes.First()
}

// Next returns when the next chain has something to do; ok is false for never.
func (x *index) Next() (at time.Time, ok bool) {
	if x.Wakes.Len() == 0 {
		return time.Time{}, false
	}
	return x.Wakes.First().wakeAt.Time(), true
}

// Floor returns the lowest offset that a chain holds back; ok is false for none.
func (x *index) Floor() (offset int64, ok bool) {
	if x.Holding.Len() == 0 {
		return 0, false
	}
	return x.Holding.First().First, true
}

// Below returns the chains that hold back an offset below the one given.
func (x *index) Below(offset int64) (found []*Chain) {
	x.Holding.UpTo(func(c *Chain) bool { return c.First < offset }, func(c *Chain) { found = append(found, c) })
	return found
}

// Open returns how many bins hold readings or have some on their way out.
func (x *index) Open() int { return x.Holding.Len() }

// wakes returns when the chain has something to do without an event: a bin is due, an attempt is made again, or rows
// have lingered. ok is false for never.
func (c *Chain) wakes() (at time.Time, ok bool) {
	switch {
	case c.Phase == Stalled && !c.Stall.Ready:
		at, ok = c.Stall.At, true
	case c.Bin.Readings() > 0 && c.Want == 0:
		at, ok = c.Due.Time(), true
	}
	if len(c.Linger) > 0 && (!ok || c.Linger[0].Until < NanosOf(at)) {
		at, ok = c.Linger[0].Until.Time(), true
	}
	return at, ok
}

// How long a chain without rows is remembered, so that its next chunk needs no lookup: one of a day that ended long ago
// gets readings in bursts, if at all.
const (
	idleFor    = 24 * time.Hour
	idleForOld = time.Hour
)

// forgetAt returns when a chain that has had no rows since it was used is forgotten, in ms.
func (c *Chain) forgetAt() int64 {
	if c.Used > c.Day.End()+telemetry.DayMillis {
		return c.Used + idleForOld.Milliseconds()
	}
	return c.Used + idleFor.Milliseconds()
}

// IsForgotten reports whether the chain has been idle for so long that it is hardly worth its memory.
func (c *Chain) IsForgotten(now time.Time) bool { return now.UnixMilli() > c.forgetAt() }

// sizeClasses has chains by some number of bytes, about: four classes to each doubling, so that the chains in a class
// differ by a quarter at most. All takes constant time.
type sizeClasses struct {
	lists   [mostClasses][]*Chain
	classOf func(*Chain) *sizeClass
}

const mostClasses = 4 * 48

// sizeClass locates a chain among classes.
type sizeClass struct {
	slot   int32 // place in the list, from 1, 0 for no list
	number uint8 // number of the list
}

func classOf(bytes int) uint8 {
	n := bits.Len(uint(bytes))
	if n < 3 {
		return uint8(n)
	}
	return uint8(min(4*n+bytes>>(n-3)&3, mostClasses-1))
}

// put keeps a chain in the class of some bytes, and in none with 0.
func (x *sizeClasses) put(c *Chain, bytes int) {
	k, number := x.classOf(c), classOf(bytes)
	if k.slot > 0 && k.number == number && bytes > 0 {
		return
	}
	x.remove(k)
	if bytes > 0 {
		x.lists[number] = append(x.lists[number], c)
		k.number, k.slot = number, int32(len(x.lists[number]))
	}
}

func (x *sizeClasses) remove(k *sizeClass) {
	if k.slot == 0 {
		return
	}
	list := x.lists[k.number]
	last := list[len(list)-1]
	list[k.slot-1], x.classOf(last).slot = last, k.slot
	list[len(list)-1] = nil
	if list = list[:len(list)-1]; len(list) == 0 {
		list = nil // a fleet that was together leaves room
	}
	x.lists[k.number], k.slot = list, 0
}

// Largest returns a chain of the highest class, nil when x is empty.
func (x *sizeClasses) Largest() *Chain {
	for i := len(x.lists) - 1; i >= 0; i-- {
		if n := len(x.lists[i]); n > 0 {
			return x.lists[i][n-1]
		}
	}
	return nil
}
