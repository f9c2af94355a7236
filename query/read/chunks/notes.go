package chunks

import (
	"math"
	"sync"
	"time"

	"binnacle/query/read/kept"
)

// Notes collects which chunks an answer was made of. It is safe for any number of callers.
type Notes struct {
	Expires int64 // ms since 1970 UTC: when the first chunk may be gone; set before the query reads

	mu      sync.Mutex // guards below
	inexact bool       // something was read that leaves no note
	ranges  map[uint64]kept.Changes
	date    int64
	due     time.Time
}

// Made is what an answer was made of: known ranges, each as of a version.
type Made struct {
	Ranges  map[uint64]kept.Changes // their versions, by number
	Expires int64                   // ms since 1970 UTC: when the first chunk may be gone
	Date    int64                   // the same: when the last read was answered, by the service's clock
	Due     time.Time               // the store must be asked for a range again; zero for no time
}

// noteInexact notes a read that leaves no note.
func (n *Notes) noteInexact() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inexact = true
}

// Expire notes when a chunk of the answer may be gone.
func (n *Notes) Expire(at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Expires = min(n.Expires, at)
}

// add notes which chunks of a range were known. Of several reads of a range the first counts, which saw the least.
func (n *Notes) add(found foundRange) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ranges == nil {
		n.ranges = make(map[uint64]kept.Changes)
	}
	if n.ranges[found.number] == nil {
		n.ranges[found.number] = found.changes
	}
	n.date = max(n.date, found.date)
	if !found.due.IsZero() && (n.due.IsZero() || found.due.Before(n.due)) {
		n.due = found.due
	}
}

// Made returns what was noted; ok is false if that is not all that was read.
func (n *Notes) Made() (m Made, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Made{n.ranges, n.Expires, n.date, n.due}, !n.inexact
}

// ChangedSince returns the first instant of a reading that may be in one of two answers and not in the other, as far as
// chunks of known ranges are concerned: kept.Never for none.
func (m *Made) ChangedSince(earlier *Made) int64 {
	if earlier.Expires <= m.Date {
		return kept.Always
	}
	from := int64(math.MaxInt64)
	for number, c := range m.Ranges {
		from = min(from, c.Since(earlier.Ranges[number]))
	}
	return from
}
