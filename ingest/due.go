package ingest

import (
	"container/heap"
	"time"
)

// dueHeap gives the bins in the order in which they come due. An entry whose bin was cut meanwhile is stale, and
// told by its time.
type dueHeap []dueEntry

type dueEntry struct {
	at    time.Time
	chain *chain
}

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueEntry)) }

// Pop is for package heap.
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = dueEntry{}
	*h = (*h)[:len(*h)-1]
	return last
}

func (h *dueHeap) push(c *chain) { heap.Push(h, dueEntry{c.due, c}) }

// pop takes the next chain whose bin is due at now, nil if there is none.
func (h *dueHeap) pop(now time.Time) *chain {
	for len(*h) > 0 && !(*h)[0].at.After(now) {
		e := heap.Pop(h).(dueEntry)
		if e.chain.bin.Readings() > 0 && e.chain.due.Equal(e.at) {
			return e.chain
		}
	}
	return nil
}

// next is when the next bin comes due; ok is false when none is open.
func (h *dueHeap) next() (at time.Time, ok bool) {
	if len(*h) == 0 {
		return time.Time{}, false
	}
	return (*h)[0].at, true
}
