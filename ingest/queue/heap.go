// Package queue has first-in first-out queues, and heaps with items that know their place. It locks nothing: a queue
// belongs to one goroutine.
package queue

// Heap gives its items lowest first. An item is in it at most once, and knows its place: nothing is searched for. Keys
// stand beside the items, so that no other item is looked at to put one in its place.
type Heap[T any] struct {
	place func(T) *int32
	key   func(T) int64
	list  []keyed[T]
}

type keyed[T any] struct {
	key  int64
	item T
}

// NewHeap returns an empty Heap. Place returns where an item keeps its place: 0 is none, 1 the first. Key returns the
// number that orders it.
func NewHeap[T any](place func(T) *int32, key func(T) int64) Heap[T] {
	return Heap[T]{place: place, key: key}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.list) }

// First returns the lowest item; there must be one.
func (h *Heap[T]) First() T { return h.list[0].item }

// Keep puts an item where it belongs, or takes it out.
func (h *Heap[T]) Keep(x T, in bool) {
	if in {
		h.Put(x)
	} else {
		h.Remove(x)
	}
}

// Put puts an item where it belongs, whether it is new or has changed.
func (h *Heap[T]) Put(x T) {
	at, one := int(*h.place(x))-1, keyed[T]{h.key(x), x}
	if at < 0 {
		at, h.list = len(h.list), append(h.list, one)
	} else if h.list[at].key == one.key {
		return
	}
	h.settle(at, one)
}

// Remove takes an item out, if it is there.
func (h *Heap[T]) Remove(x T) {
	at, n := int(*h.place(x))-1, len(h.list)-1
	if at < 0 {
		return
	}
	last := h.list[n]
	h.list[n], *h.place(x) = keyed[T]{}, 0
	if h.list = h.list[:n]; n < cap(h.list)/4 {
		h.list = append(make([]keyed[T], 0, 2*n), h.list...)
	}
	if at < n {
		h.settle(at, last)
	}
}

// ways is how many items lie below one.
const ways = 4

// settle puts an item where it belongs. There is room for it at a place.
func (h *Heap[T]) settle(at int, x keyed[T]) {
	for ; at > 0 && x.key < h.list[(at-1)/ways].key; at = (at - 1) / ways {
		h.set(at, h.list[(at-1)/ways])
	}
	for least := 0; ways*at+1 < len(h.list); at = least {
		least = ways*at + 1
		for i := least + 1; i < min(ways*(at+1)+1, len(h.list)); i++ {
			if h.list[i].key < h.list[least].key {
				least = i
			}
		}
		if x.key <= h.list[least].key {
			break
		}
		h.set(at, h.list[least])
	}
	h.set(at, x)
}

func (h *Heap[T]) set(at int, x keyed[T]) { h.list[at], *h.place(x.item) = x, int32(at+1) }

// UpTo visits the items that hold, which must be the lowest ones, in no order. The visit must not move any.
func (h *Heap[T]) UpTo(holds func(T) bool, visit func(T)) {
	for open := []int{0}; len(open) > 0; {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i < h.Len() && holds(h.list[i].item) {
			visit(h.list[i].item)
			for below := range ways {
				open = append(open, ways*i+1+below)
			}
		}
	}
}

// FIFO gives items in the order in which they came. The zero FIFO is empty.
type FIFO[T any] struct {
	items []T
	gone  int // how many of the first have been taken
}

// Len returns the number of items.
func (q *FIFO[T]) Len() int { return len(q.items) - q.gone }

// Push appends an item.
func (q *FIFO[T]) Push(x T) { q.items = append(q.items, x) }

// All returns the items in their order, valid until the next change.
func (q *FIFO[T]) All() []T { return q.items[q.gone:] }

// Front returns the item that came first; there must be one.
func (q *FIFO[T]) Front() T { return q.items[q.gone] }

// Pop takes out the item that came first; there must be one.
func (q *FIFO[T]) Pop() T {
	x := q.items[q.gone]
	q.Drop(1)
	return x
}

// Unpush takes out the item that came last; there must be one.
func (q *FIFO[T]) Unpush() {
	n := len(q.items) - 1
	clear(q.items[n:])
	if q.items = q.items[:n]; q.Len() == 0 {
		*q = FIFO[T]{}
	}
}

// Drop takes out the n items that came first.
func (q *FIFO[T]) Drop(n int) {
	clear(q.items[q.gone : q.gone+n])
	q.gone += n
	switch {
	case q.gone == len(q.items):
		*q = FIFO[T]{}
	case q.gone > len(q.items)/2:
		q.items = append(make([]T, 0, 2*q.Len()), q.All()...)
		q.gone = 0
	}
}
