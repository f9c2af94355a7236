package box_test

import (
	"fmt"
	"slices"
	"time"

	"binnacle/internal/kafka"
)

// actJournaled kills or starts an ingester of a run about the journal, or lets the journal lose its end. It reports
// whether it did.
func (b *box) actJournaled() bool {
	switch b.rnd.IntN(60) {
	case 0:
		if !b.opts.without["kill ingesters"] {
			b.actIngester()
		}
	case 1:
		b.loseEnd()
	default:
		return false
	}
	return true
}

// actDoubled starts a second ingester in a place and cuts off the first, or kills one of two. It reports whether it
// did.
func (b *box) actDoubled() bool {
	if b.rnd.IntN(20) > 0 || b.opts.without["kill ingesters"] {
		return false
	}
	s := b.slots[0]
	if len(s.lives) == 2 {
		b.kill(s, b.rnd.IntN(2))
		return true
	}
	for _, x := range s.lives {
		b.pause(x.actor, pause{time.Now().Add(longestPause), true})
	}
	b.startIngester(s, false)
	return true
}

// loseEnd lets a partition of the journal lose its last records, although they were acknowledged: also times of stored
// rows that the catalog lacks.
func (b *box) loseEnd() {
	p := b.rnd.IntN(b.profile.partitions)
	l := b.log.partition(kafka.JournalOf(topic), int32(p))
	lost := min(len(l.records), 1+b.rnd.IntN(8))
	l.records = l.records[:len(l.records)-lost]
	b.timesLost = b.timesLost || lost > 0
	b.event("box", "lose", fmt.Sprintf("%s/%d", kafka.JournalOf(topic), p), fmt.Sprintf("%d records, it ends at %d", lost,
		l.end()))
}

// keepsTimes reports whether no crash makes lists forget times of a device (rule J8).
func (b *box) keepsTimes() bool { return b.profile.journal && !b.settings.varies && !b.timesLost }

// metric picks what a device reports: in runs about the journal now and then what it never reported before.
func (b *box) metric() string {
	if b.about == journaled && b.rnd.IntN(8) == 0 {
		return fmt.Sprintf("m%d", b.rnd.IntN(60))
	}
	return oneOf(b.rnd, b.metrics...)
}

// takeoverTime picks when a reading was made in a run about the journal: also by clocks that run ahead, so that the
// newest time of a device comes long before its last record, and at instants that have a value already.
func (b *box) takeoverTime(now int64) int64 {
	switch b.rnd.IntN(12) {
	case 0:
		return now + int64(1+b.rnd.IntN(8))*60_000
	case 1, 2, 3, 4, 5, 6:
		return now - now%60_000
	}
	return now
}

// awaitStored holds that processes which live store and commit everything once nothing fails any more.
func (b *box) awaitStored() bool {
	if b.about != journaled || b.setback.on || b.profile.hold > settleWithin ||
		slices.ContainsFunc(b.slots, func(s *slot) bool { return len(s.lives) != 1 }) {
		return true
	}
	b.profile.pace, b.profile.think = 20*time.Second, 2*time.Minute
	return b.await("processes that live have committed everything", b.allCommitted)
}
