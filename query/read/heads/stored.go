package heads

import (
	"maps"
	"math"
	"time"

	"binnacle/internal/telemetry"
)

// Stored is what the heads of an answer count as stored (rule R8). While the same heads answer, and what they have
// counted since the store was asked is explained by rows that are known, the store has nothing that an answer would
// lack.
type Stored struct {
	began  time.Time // the querier's time before it asked the heads
	now    func() time.Time
	owners map[uint64]*counts // nil: not all heads count, or something is stored that they do not know
}

// Note says when the store was asked for a range, and what heads had counted before. What it says of one range says
// nothing of another one.
type Note struct {
	heads     map[uint64]uint64 // the Count of each owner's head; nil: not known
	at        time.Time         // the querier's time before it asked the heads
	unsettled time.Time         // until when it is asked each time: a process that is gone may have a create under way
	Due       time.Time         // the store must be asked again then
	// Held is the days of which rule R4 was held, the last one up to an instant. What is known beyond may lack a chunk.
	Held telemetry.Range
}

// Counts reports whether all heads count what is stored.
func (s *Stored) Counts() bool { return s.owners != nil }

// Ignore forgets the counts, because chunks come that no head knows.
func (s *Stored) Ignore() { s.owners = nil }

// Stands reports whether the store has nothing in a range that was not there when a note was made, but chunks that are
// explained, or of chains that isNoted leaves out; nil leaves out none.
func (s *Stored) Stands(n *Note, r telemetry.Range, isNoted func(*Later) bool) bool {
	now := s.now()
	if !s.hasSameHeads(n) || r.From < n.Held.From || r.To > n.Held.To ||
		now.Before(n.at) || now.Before(n.unsettled) || !now.Before(n.Due) {
		return false
	}
	for owner, count := range n.heads {
		c := s.owners[owner]
		if c.begun > count {
			return false
		}
		for i := len(c.later) - 1; i >= 0 && c.later[i].count > count; i-- {
			if l := c.later[i]; !l.isExplained(r) && (isNoted == nil || isNoted(l)) {
				return false
			}
		}
	}
	return true
}

// IsSame reports whether nothing became known to be stored since a note was made.
func (s *Stored) IsSame(n *Note) bool { return n.heads != nil && maps.Equal(n.heads, s.counted()) }

// counted returns, by owner, how many changes of what is stored its head has counted.
func (s *Stored) counted() map[uint64]uint64 {
	out := make(map[uint64]uint64, len(s.owners))
	for owner, c := range s.owners {
		out[owner] = c.count
	}
	return out
}

// IsUnsettled reports whether the store is asked each time, by a note.
func (s *Stored) IsUnsettled(n *Note) bool { return s.now().Before(n.unsettled) }

// hasSameHeads reports whether the same heads answer as when a note was made.
func (s *Stored) hasSameHeads(n *Note) bool {
	if n.heads == nil || len(n.heads) != len(s.owners) {
		return false
	}
	for owner := range n.heads {
		if s.owners[owner] == nil {
			return false
		}
	}
	return true
}

// Note notes that the query has asked the store for a range, after an earlier note for the same range, or a part of it
// if the range is longer now. It is asked again after the margin the first time, and after something was stored; else
// after askEvery.
func (s *Stored) Note(before *Note, isLonger bool) Note {
	n := Note{at: s.began, Due: s.began.Add(Margin), unsettled: before.unsettled,
		Held: telemetry.Range{From: math.MinInt64, To: math.MaxInt64}}
	switch {
	case before.heads == nil || s.owners == nil:
	case !s.hasSameHeads(before):
		n.unsettled = n.Due
	case isLonger:
	case !s.began.Before(before.Due):
		n.Due = s.began.Add(askEvery)
	}
	if s.owners == nil {
		return n.WithoutCounts()
	}
	n.heads = s.counted()
	return n
}

// BeforeUnread returns a note as of before the first chunk that is known by its rows alone, and that the store did not
// answer: questions that do not know these rows must ask the store again.
func (s *Stored) BeforeUnread(n Note, isUnread func(*Later) bool) Note {
	for owner, c := range s.owners {
		for _, l := range c.later {
			if l.bins != nil && l.count <= n.heads[owner] && isUnread(l) {
				n.heads = maps.Clone(n.heads)
				n.heads[owner] = l.count - 1
				break
			}
		}
	}
	return n
}

// Earlier returns the earlier of two times; zero is no time.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// WithoutCounts returns what a note says when it is not known that nothing was missing.
func (n *Note) WithoutCounts() Note { return Note{unsettled: n.unsettled} }
