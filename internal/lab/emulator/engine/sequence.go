package engine

import (
	"sync"
	"sync/atomic"
)

// sequence gives out log sequence numbers: to one physical partition, or to all of a database with shared throughput. A
// number becomes visible when its write does, so that numbers are seen in their order.
type sequence struct {
	// mu is held from the choice of a number until it is visible, inside the lock of a partition.
	mu   sync.Mutex
	last atomic.Uint64 // visible
}

// raise makes a number visible, unless a later one is.
func (s *sequence) raise(lsn uint64) {
	for {
		last := s.last.Load()
		if lsn <= last || s.last.CompareAndSwap(last, lsn) {
			return
		}
	}
}

// take returns the next number, for a change that is no write of an item.
func (s *sequence) take() uint64 { return s.last.Add(1) }
