package worker

import (
	"container/heap"
)

// minHeap gives its items lowest first. An item stands in it at most once and knows its place, so that it can be moved
// or taken out without a search.
type minHeap[T any] struct{ items placed[T] }

// placed is what package heap works on.
type placed[T any] struct {
	list  []T
	less  func(a, b T) bool
	place func(T) *int32 // where the item keeps its place: 0 is none, 1 the first
}

func newMinHeap[T any](place func(T) *int32, less func(a, b T) bool) minHeap[T] {
	return minHeap[T]{placed[T]{less: less, place: place}}
}

func (o *minHeap[T]) len() int { return len(o.items.list) }

// first returns the lowest item; there must be one.
func (o *minHeap[T]) first() T { return o.items.list[0] }

// put puts an item where it belongs, whether it is new or has changed.
func (o *minHeap[T]) put(x T) {
	if at := *o.items.place(x); at > 0 {
		heap.Fix(&o.items, int(at)-1)
		return
	}
	heap.Push(&o.items, x)
}

// remove takes an item out, if it is there.
func (o *minHeap[T]) remove(x T) {
	if at := *o.items.place(x); at > 0 {
		heap.Remove(&o.items, int(at)-1)
	}
}

// upto visits the items that hold, which must be the lowest ones, in no order. The visit must not move any.
func (o *minHeap[T]) upto(holds func(T) bool, visit func(T)) {
	for open := []int{0}; len(open) > 0; {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if i < o.len() && holds(o.items.list[i]) {
			visit(o.items.list[i])
			open = append(open, 2*i+1, 2*i+2)
		}
	}
}

// Len implements heap.Interface.
func (p *placed[T]) Len() int { return len(p.list) }

// Less implements heap.Interface.
func (p *placed[T]) Less(i, j int) bool { return p.less(p.list[i], p.list[j]) }

// Swap implements heap.Interface.
func (p *placed[T]) Swap(i, j int) {
	p.list[i], p.list[j] = p.list[j], p.list[i]
	*p.place(p.list[i]), *p.place(p.list[j]) = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (p *placed[T]) Push(x any) {
	p.list = append(p.list, x.(T))
	*p.place(x.(T)) = int32(len(p.list))
}

// Pop implements heap.Interface.
func (p *placed[T]) Pop() any {
	n := len(p.list) - 1
	x := p.list[n]
	var none T
	p.list[n], p.list = none, p.list[:n]
	*p.place(x) = 0
	return x
}
