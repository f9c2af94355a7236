package box_test

import (
	"fmt"
	"slices"
	"time"

	"binnacle/ingest/journal"
	"binnacle/internal/kafka"
)

// Losses of the journal's end: of a writer that lives until it has appended all again, or of two writers that append
// and die soon, or soon before a takeover.
const (
	mendedLoss  = "its writer lives"
	takenLosses = "its writers die"
)

// actJournaled kills or starts an ingester of a run about the journal, or lets the journal lose its end. It reports
// whether it did.
func (b *box) actJournaled() bool {
	s, n, isTaken := b.slots[0], b.rnd.IntN(60), b.profile.loses == takenLosses
	switch kills := b.kills(); {
	case kills && isTaken && len(s.lives) == 2 && s.endsAt == 0 && n < 10:
		b.loseEnd()
		s.endsAt = b.events + 20 + b.rnd.IntN(100)
	case kills && isTaken && len(s.lives) == 1 && n > 1 && n < 5:
		b.startIngester(s, false)
	case kills && n == 0:
		b.actIngester()
	case isTaken && n == 1:
		b.loseEnd()
		if len(s.lives) > 0 && kills && b.rnd.IntN(2) == 0 {
			s.doomed, s.doomedAt = s.lives[0], b.events+b.rnd.IntN(60)
		}
	case b.profile.loses == mendedLoss && len(s.lives) == 1 && s.lives[0].actor == b.commits && n < 4:
		b.loseEnd()
	default:
		return false
	}
	return true
}

// kills reports whether ingesters may be killed now: not the one that mends a loss.
func (b *box) kills() bool {
	return b.about.killsIngesters() && !b.opts.without["kill ingesters"] &&
		(b.profile.loses != mendedLoss || b.lostBy == nil || !b.timesLost || b.lostBy.dead())
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

// actCommitted kills an ingester in the moment of a commit, soon after a chunk was stored. Its successor takes over
// while replicas lack that chunk. It reports whether it did.
func (b *box) actCommitted() bool {
	a := b.committed
	b.committed = nil
	if b.about != doubled && b.about != "" || !b.kills() || b.grouped || a == nil || time.Since(b.chunked) > maxLag/2 {
		return false
	}
	if b.about == "" && b.rnd.IntN(4) > 0 || b.rnd.IntN(2) > 0 {
		return false
	}
	for _, s := range b.slots {
		i := slices.IndexFunc(s.lives, func(x *ingester) bool { return x.actor == a })
		if i < 0 {
			continue
		}
		b.rush = b.chunked.Add(maxLag)
		if b.kill(s, i); len(s.lives) == 0 {
			b.startIngester(s, false)
		}
		return true
	}
	return false
}

// nudge has clients ask now, while replicas lack what a former owner has just stored.
func (b *box) nudge() {
	if b.calm() || !time.Now().Before(b.rush) {
		return
	}
	for _, q := range b.queriers {
		select {
		case q.nudged <- struct{}{}:
		default:
		}
	}
}

// loseEnd lets a partition of the journal lose its last records, although they were acknowledged: also times of stored
// rows that the catalog lacks.
func (b *box) loseEnd() {
	p := b.rnd.IntN(b.profile.partitions)
	l := b.log.partition(kafka.JournalOf(topic), int32(p))
	lost := min(len(l.records), 1+b.rnd.IntN(8))
	l.records = l.records[:len(l.records)-lost]
	if lost > 0 {
		var one *actor
		// One that has committed has loaded what the journal had before.
		if s := b.slots[p]; len(s.lives) == 1 && s.lives[0].actor == b.commits && (!b.timesLost || b.lostBy == b.commits) {
			one = b.commits
		}
		b.timesLost, b.lostBy, b.marks = true, one, nil
	}
	b.event("box", "lose", fmt.Sprintf("%s/%d", kafka.JournalOf(topic), p), fmt.Sprintf("%d records, it ends at %d", lost,
		l.end()))
}

// carries takes a commit of an ingester. The one that lived when the journal lost its end has appended all times again
// once it counts on the third append since (rules J6 and J8).
func (b *box) carries(a *actor, p int32, c *journal.Commit) {
	b.commits = a
	l := b.log.partition(kafka.JournalOf(topic), p)
	if a != b.lostBy || c.To <= l.first || c.To > l.end() || slices.Contains(b.marks, c.Mark) {
		return
	}
	if r, err := journal.ParseRecord(l.records[c.To-1-l.first].value); err == nil && r.Nonce == c.Mark {
		b.marks = append(b.marks, c.Mark)
		b.timesLost = len(b.marks) < 3
	}
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
