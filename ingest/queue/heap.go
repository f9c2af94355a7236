// Package queue has first-in first-out queues, and heaps with items that know their place. It locks nothing: a queue
// belongs to one goroutine.
package queue

import "container/heap"

// Heap gives its items lowest first. An item is in it at most once, and knows its place: nothing is searched for.
type Heap[T any] struct {
	place  func(T) *int32
	before func(a, b T) bool
	list   []T
}

// NewHeap returns an empty Heap. Place returns where an item keeps its place: 0 is none, 1 the first.
func NewHeap[T any](place func(T) *int32, before func(a, b T) bool) Heap[T] {
	return Heap[T]{place: place, before: before}
}

// Len returns the number of items.
func (h *Heap[T]) Len() int { return len(h.list) }

// First returns the lowest item; there must be one.
func (h *Heap[T]) First() T { return h.list[0] }

// Put puts an item where it belongs, whether it is new or has changed.
func (h *Heap[T]) Put(x T) {
	if at := *h.place(x); at > 0 {
		heap.Fix((*sorted[T])(h), int(at)-1)
		return
	}
	heap.Push((*sorted[T])(h), x)
}

// Remove takes an item out, if it is there.
func (h *Heap[T]) Remove(x T) {
	if at := *h.place(x); at > 0 {
		heap.Remove((*sorted[T])(h), int(at)-1)
	}
}

// UpTo visits the items that hold, which must be the lowest ones, in no order. The visit must not move any.
func (h *Heap[T]) UpTo(holds func(T) bool, visit func(T)) {
	for open := []int{0}; len(open) > 0; {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i < h.Len() && holds(h.list[i]) {
			visit(h.list[i])
			open = append(open, 2*i+1, 2*i+2)
		}
	}
}

// sorted is what package heap works on.
type sorted[T any] Heap[T]

// Len implements heap.Interface.
func (s *sorted[T]) Len() int { return len(s.list) }

// Less implements heap.Interface.
func (s *sorted[T]) Less(i, j int) bool { return s.before(s.list[i], s.list[j]) }

// Swap implements heap.Interface.
func (s *sorted[T]) Swap(i, j int) {
	s.list[i], s.list[j] = s.list[j], s.list[i]
	*s.place(s.list[i]), *s.place(s.list[j]) = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (s *sorted[T]) Push(x any) {
	s.list = append(s.list, x.(T))
	*s.place(x.(T)) = int32(len(s.list))
}

// Pop implements heap.Interface.
func (s *sorted[T]) Pop() any {
	n := len(s.list) - 1
	x := s.list[n]
	var none T
	s.list[n], s.list = none, s.list[:n]
	if n < cap(s.list)/4 {
		s.list = append(make([]T, 0, 2*n), s.list...)
	}
	*s.place(x) = 0
	return x
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
