// Package queue has first-in first-out queues, and heaps with items that know their place. It locks nothing: a queue
// belongs to one goroutine.
package queue

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
