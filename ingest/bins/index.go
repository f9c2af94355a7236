package bins

import (
	"binnacle/ingest/queue"
	"binnacle/internal/telemetry"
	"time"
)

// index finds the chain that is due, holds the floor, takes most memory, or has been idle for longest. Filing a chain
// takes time by the logarithm of their number, and so does each answer.
type index struct {
	// Wakes orders chains by when they have something to do without an event.
	Wakes queue.Heap[*Chain]
	// Filling orders chains by the offset that they hold back.
	Filling queue.Heap[*Chain]
	// Lagging orders the filling chains, too, by the position at which they are cut for holding it back.
	Lagging queue.Heap[*Chain]
	// Acting orders the chains that are asked to be cut, or further on, by the offset that they hold back.
	Acting queue.Heap[*Chain]
	Idle   queue.Heap[*Chain] // without rows, not even lingering ones, by when they are forgotten

	// Size classes the filling chains by how many bytes of memory they take.
	Size sizeClasses
	// Shelvable classes the filling chains by how many of these bytes a shelf would free.
	Shelvable sizeClasses

	Held  int64 // bytes of all chains
	Going int64 // the part of Held in rows on their way out
	// Stalls counts stalled chains by the code of the fault; the first counter is for chains that have not stalled.
	Stalls [1 + len(faults)]int

	Stuck int64 // the part of Going in bins that wait for dead letters
}

// filing locates a chain in the index.
type filing struct {
	shelf   *queue.Heap[*Chain] // filling, acting or idle, nil for none of them
	place   int32               // place in shelf
	wake    int32               // place in wakes
	lag     int32               // place in lagging
	fault   uint8               // code of the fault under which the chain is counted
	Counted bool
	wakeAt  nanos
	size    sizeClass // among the largest
	free    sizeClass // among the shelvable

	held, going, stuck int32 // the chain's part in the totals
}

func newIndex() index {
	wake := func(c *Chain) *int32 { return &c.Filing.wake }
	place := func(c *Chain) *int32 { return &c.Filing.place }
	lag := func(c *Chain) *int32 { return &c.Filing.lag }
	byOffset := func(a, b *Chain) bool { return a.First < b.First }
	return index{
		Size:      sizeClasses{classOf: func(c *Chain) *sizeClass { return &c.Filing.size }},
		Shelvable: sizeClasses{classOf: func(c *Chain) *sizeClass { return &c.Filing.free }},
		Wakes:     queue.NewHeap(wake, func(a, b *Chain) bool { return a.Filing.wakeAt < b.Filing.wakeAt }),
		Filling:   queue.NewHeap(place, byOffset),
		Lagging:   queue.NewHeap(lag, func(a, b *Chain) bool { return a.First+a.Budget < b.First+b.Budget }),
		Acting:    queue.NewHeap(place, byOffset),
		Idle:      queue.NewHeap(place, func(a, b *Chain) bool { return a.ForgetAt().Before(b.ForgetAt()) }),
	}
}

// file puts a chain where it belongs after a transition.
func (x *index) file(c *Chain) {
	x.Count(c)
	f := &c.Filing
	if shelf := x.shelf(c); shelf != f.shelf {
		if f.shelf != nil {
			f.shelf.Remove(c)
		}
		f.shelf = shelf
	}
	if f.shelf != nil {
		f.shelf.Put(c)
	}
	if c.Phase == filling {
		x.Lagging.Put(c)
	} else {
		x.Lagging.Remove(c)
	}
	at, ok := c.wakes()
	switch {
	case !ok:
		x.Wakes.Remove(c)
	case f.wake == 0 || NanosOf(at) != f.wakeAt:
		f.wakeAt = NanosOf(at)
		x.Wakes.Put(c)
	}
}

// shelf returns where a chain belongs by its phase.
func (x *index) shelf(c *Chain) *queue.Heap[*Chain] {
	switch {
	case c.acting():
		return &x.Acting
	case c.Phase == filling:
		return &x.Filling
	case len(c.Linger) == 0:
		return &x.Idle
	}
	return nil
}

// Count brings a chain's part in the totals up to date, which is enough when only its bin has grown.
func (x *index) Count(c *Chain) {
	f := &c.Filing
	bin, out := Size(&c.Bin), c.leaving()
	held, going, stuck := ChainBytes+bin+out+cap(c.Journaled.Blocks)*AppendedBytes, out, 0
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
	if f.Counted {
		x.Stalls[f.fault]--
	}
	x.Stalls[fault]++
	f.fault, f.Counted = fault, true
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

func (x *index) drop(c *Chain) {
	f := &c.Filing
	x.Held, x.Going, x.Stuck = x.Held-int64(f.held), x.Going-int64(f.going), x.Stuck-int64(f.stuck)
	if f.Counted {
		x.Stalls[f.fault]--
	}
	x.Wakes.Remove(c)
	x.Lagging.Remove(c)
	if f.shelf != nil {
		f.shelf.Remove(c)
	}
	x.Size.put(c, 0)
	x.Shelvable.put(c, 0)
	*f = filing{}
}

// Awake returns a chain with something to do at now, nil without one.
func (x *index) Awake(now time.Time) *Chain {
	if x.Wakes.Len() == 0 || x.Wakes.First().Filing.wakeAt > NanosOf(now) {
		return nil
	}
	return x.Wakes.First()
}

// Next returns when the next chain has something to do; ok is false for never.
func (x *index) Next() (at time.Time, ok bool) {
	if x.Wakes.Len() == 0 {
		return time.Time{}, false
	}
	return x.Wakes.First().Filing.wakeAt.Time(), true
}

// Floor returns the lowest offset that a chain holds back; ok is false for none.
func (x *index) Floor() (offset int64, ok bool) {
	for _, o := range []*queue.Heap[*Chain]{&x.Filling, &x.Acting} {
		if o.Len() > 0 && (!ok || o.First().First < offset) {
			offset, ok = o.First().First, true
		}
	}
	return offset, ok
}

// Below returns the chains that hold back an offset below the one given.
func (x *index) Below(offset int64) (found []*Chain) {
	for _, o := range []*queue.Heap[*Chain]{&x.Filling, &x.Acting} {
		o.UpTo(func(c *Chain) bool { return c.First < offset }, func(c *Chain) { found = append(found, c) })
	}
	return found
}

// Open returns how many bins hold readings or have some on their way out.
func (x *index) Open() int { return x.Filling.Len() + x.Acting.Len() }

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

// ForgetAt returns when a chain that has had no rows since it was used is forgotten.
func (c *Chain) ForgetAt() time.Time {
	used := time.UnixMilli(c.Used)
	if c.Used > c.Day.End()+telemetry.DayMillis {
		return used.Add(idleForOld)
	}
	return used.Add(idleFor)
}
