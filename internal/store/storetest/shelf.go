package storetest

import (
	"sync"
	"time"
)

// shelf is the containers of a store in memory, and how many calls it has had. P is where a document lies.
type shelf[P comparable, Document any] struct {
	// Now is the store's clock; nil is a clock that does not move.
	Now func() time.Time

	mu         sync.Mutex // guards below
	calls      map[Kind]int
	containers map[string]map[P]Document
	writes     int
}

// begin makes the first containers.
func (s *shelf[P, Document]) begin(containers []string) {
	s.calls, s.containers = make(map[Kind]int), make(map[string]map[P]Document)
	for _, name := range containers {
		s.CreateContainer(name)
	}
}

// CreateContainer makes an empty container unless it is there.
func (s *shelf[P, Document]) CreateContainer(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.containers[name] == nil {
		s.containers[name] = make(map[P]Document)
	}
}

// DeleteContainer drops a container and what is in it.
func (s *shelf[P, Document]) DeleteContainer(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.containers, name)
}

// Calls returns how many calls of a kind there were.
func (s *shelf[P, Document]) Calls(k Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[k]
}

// Writes returns how many writes have changed documents so far.
func (s *shelf[P, Document]) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// count counts a call, and returns its number among those of its kind, from 1.
func (s *shelf[P, Document]) count(k Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[k]++
	return s.calls[k]
}

func (s *shelf[P, Document]) now() time.Time {
	if s.Now == nil {
		return time.Unix(0, 0)
	}
	return s.Now()
}
