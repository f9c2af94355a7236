package provision

import (
	"cmp"
	"fmt"
	"slices"

	"binnacle/internal/store"
)

// accountFull is why a create waits when the account is full.
const accountFull = "the account has no container left"

// Limit puts the steps in the order in which they are done, and marks the steps that must wait: creates beyond the
// containers that the account has left, changes of throughput beyond a number, and purchases beyond MaxRUs, unless
// that is 0. Drops make room; raises precede cuts; the newest month is made first.
func (p Policy) Limit(steps []Step, room, changes int) []Step {
	out, first := slices.Clone(steps), firstDays(steps)
	slices.SortStableFunc(out, func(a, b Step) int {
		return cmp.Or(cmp.Compare(urgency(a), urgency(b)), cmp.Compare(first[b.Container], first[a.Container]))
	})
	left := p.MaxRUs
	for i := range out {
		left -= out[i].Now.RUs
	}
	for i := range out {
		s := &out[i]
		left -= p.bound(s, left)
		switch {
		case s.Waits != "":
		case s.Action == Drop && s.Now != (store.Throughput{}):
			room++
		case s.Action == Create && room <= 0:
			s.Waits = accountFull
		case s.Action == Create:
			room--
		case s.Action == Scale && changes <= 0:
			s.Waits = fmt.Sprintf("%d changes in %s", p.MaxChanges, p.ChangesWithin)
		case s.Action == Scale:
			changes--
		}
	}
	return out
}

func urgency(s Step) int {
	switch {
	case s.Action == Drop:
		return 0
	case s.Action == Keep:
		return 1
	case s.raise():
		return 2
	case s.Action == Create && s.Tier == Hot:
		return 3
	case s.Action == Create:
		return 4
	case s.Action == Scale:
		return 5
	}
	return 6
}
