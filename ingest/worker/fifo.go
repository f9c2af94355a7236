package worker

// fifo gives items in the order in which they came. The zero fifo is empty.
type fifo[T any] struct {
	items []T
	gone  int // how many of the first have been taken
}

func (q *fifo[T]) len() int { return len(q.items) - q.gone }

func (q *fifo[T]) push(x T) { q.items = append(q.items, x) }

// all returns the items in their order, valid until the next change.
func (q *fifo[T]) all() []T { return q.items[q.gone:] }

// front returns the item that came first; there must be one.
func (q *fifo[T]) front() T { return q.items[q.gone] }

// pop takes out the item that came first; there must be one.
func (q *fifo[T]) pop() T {
	x := q.items[q.gone]
	q.drop(1)
	return x
}

// unpush takes out the item that came last; there must be one.
func (q *fifo[T]) unpush() {
	n := len(q.items) - 1
	clear(q.items[n:])
	if q.items = q.items[:n]; q.len() == 0 {
		*q = fifo[T]{}
	}
}

// drop takes out the n items that came first.
func (q *fifo[T]) drop(n int) {
	clear(q.items[q.gone : q.gone+n])
	q.gone += n
	switch {
	case q.gone == len(q.items):
		*q = fifo[T]{}
	case q.gone > len(q.items)/2:
		q.items = append(make([]T, 0, 2*q.len()), q.all()...)
		q.gone = 0
	}
}
