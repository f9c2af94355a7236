package worker

import (
	"container/heap"
	"time"
)

// dueHeap gives chains in the order in which their bins come due; each stands in it once. One whose bin was cut meanwhile
// may still be in it.
type dueHeap []*chain

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for package heap.
func (h *dueHeap) Push(x any) {
	c := x.(*chain)
	c.place = len(*h)
	*h = append(*h, c)
}

// Pop is for package heap.
func (h *dueHeap) Pop() any {
	n := len(*h) - 1
	c := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	c.place = -1
	return c
}

// schedule puts a chain where its due time belongs.
func (h *dueHeap) schedule(c *chain) {
	if c.place < 0 {
		heap.Push(h, c)
		return
	}
	heap.Fix(h, c.place)
}

// remove takes a chain out.
func (h *dueHeap) remove(c *chain) {
	if c.place >= 0 {
		heap.Remove(h, c.place)
	}
}

// pop takes the next chain whose bin is due at now, nil if there is none.
func (h *dueHeap) pop(now time.Time) *chain {
	for len(*h) > 0 && !(*h)[0].due.After(now) {
		if c := heap.Pop(h).(*chain); c.bin.Readings() > 0 {
			return c
		}
	}
	return nil
}

// next is when the next bin comes due; ok is false when none is open.
func (h *dueHeap) next() (at time.Time, ok bool) {
	if len(*h) == 0 {
		return time.Time{}, false
	}
	return (*h)[0].due, true
}
