// Package recent bounds a set of names, such as the values of a metric's label: the last used ones stay.
package recent

import "sync"

// Names is the Most names that were used last. It is safe for any number of callers.
type Names[K comparable] struct {
	Most int

	mu   sync.Mutex // guards below
	used map[K]uint64
	uses uint64
}

// Use calls count with a kept name, and before that forget with the name that had to leave for it.
func (r *Names[K]) Use(name K, count, forget func(K)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[K]uint64{}
	}
	r.uses++
	if _, ok := r.used[name]; !ok && len(r.used) >= r.Most {
		oldest, at := name, r.uses
		for n, used := range r.used {
			if used < at {
				oldest, at = n, used
			}
		}
		delete(r.used, oldest)
		forget(oldest)
	}
	r.used[name] = r.uses
	count(name)
}
