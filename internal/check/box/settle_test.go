package box_test

import (
	"context"
	"slices"
	"time"

	"binnacle/ingest/journal"
	"binnacle/internal/telemetry"
	"binnacle/query"
)

func (b *box) context() context.Context { return context.Background() }

// The most that may pass until everything is stored, committed and complete once nothing fails any more.
const (
	settleWithin = 30 * time.Minute
	settleEvents = 200_000
)

// settle ends all disturbance, and holds what must hold then.
func (b *box) settle() {
	b.quiet()
	b.settling = true
	if b.failed() {
		return
	}
	b.event("box", "settle", "", "")
	b.endCopies()
	if !b.endDeferrals() || !b.awaitJournal() || !b.awaitStored() || !b.awaitKept() {
		return
	}
	for _, s := range b.slots {
		for len(s.lives) > 0 {
			if x := b.bury(s, 0); b.opts.without["shutdowns"] {
				b.die(x.actor)
			} else {
				b.stop(x)
			}
		}
	}
	// What a process commits when it leaves may lie below what the next one has committed for good.
	b.await("processes that were stopped have left", func() bool {
		return !slices.ContainsFunc(b.leaving, func(x *ingester) bool { return x.runs })
	})
	b.profile.feedEvery = max(b.profile.feedEvery, 20*time.Second+17)
	for _, s := range b.slots {
		b.startIngester(s, true)
	}
	b.settleServices()
	b.settleSweepers()
	b.profile.pace, b.profile.think = time.Second, max(b.profile.think, 2*time.Second)
	if b.await("everything is committed", b.allCommitted) && b.endErasures() && b.endRetention() {
		b.oracle.settled()
	}
	if b.failed() {
		return
	}
	b.startQuerier() // with nothing in its caches
	for _, q := range b.queriers {
		b.finalQuestions(q, b.tenants...)
	}
	b.finalLists(b.queriers[len(b.queriers)-1])
	if b.services.makers > 0 {
		b.finalBuckets(b.queriers[len(b.queriers)-1])
	}
	b.settleCopies()
	b.endBills()
}

// await lets things happen until something holds, within the bounds.
func (b *box) await(what string, holds func() bool) bool {
	begun, first := time.Now(), b.events
	for !b.failed() {
		b.quiet()
		if holds() {
			return true
		}
		if time.Since(begun) > settleWithin || b.events-first > settleEvents {
			b.fail("it is not so within %s and %d events that %s", time.Since(begun), b.events-first, what)
			return false
		}
		b.step()
	}
	return false
}

func (b *box) allCommitted() bool {
	for i, l := range b.log.topics[topic] {
		if b.log.commits[commitKey(topic, int32(i))].Offset != int64(len(l.records)) {
			return false
		}
	}
	return true
}

// awaitJournal holds that processes which live have soon appended everything to the journal, and committed that.
func (b *box) awaitJournal() bool {
	if !b.profile.journal || b.settings.varies || b.setback.on ||
		b.profile.journalEvery > 10*time.Second || b.services.some() || b.operating.erasures ||
		slices.ContainsFunc(b.slots, func(s *slot) bool { return len(s.lives) != 1 }) {
		return true
	}
	begun := time.Now()
	isThere := b.await("the journal has everything", func() bool {
		for i, l := range b.log.topics[topic] {
			key := commitKey(topic, int32(i))
			c := b.log.commits[key]
			if j, _ := journal.ParseCommit(c.Metadata); max(c.Offset, j.F) != int64(len(l.records)) && !b.log.late[key] {
				return false
			}
		}
		return true
	})
	if waited := time.Since(begun); waited > journalWithin {
		b.fail("the journal has everything after %s", waited)
	}
	return isThere && !b.failed()
}

// journalWithin is how long the journal may lack something while nothing fails: for less than some bins are held.
const journalWithin = 10 * time.Minute

// finalQuestions holds that a querier's strict answer is complete soon, and right.
func (b *box) finalQuestions(q *querier, tenants ...string) {
	q.quits = true
	b.await("the client of "+q.name+" has its last answer", func() bool { return q.quit })
	for _, tenant := range tenants {
		today := telemetry.DayOf(time.Now().UnixMilli())
		asked := question{Request: query.Request{Tenant: tenant, Strict: true,
			Range: telemetry.Range{From: (today - 4).Start(), To: (today + 1).End()}}}
		var last string
		isComplete := false
		done := false
		q.start(func(ctx context.Context) {
			for ctx.Err() == nil && !isComplete {
				got, res, begun, err := q.answer(ctx, asked)
				if isComplete = err == nil && res.Complete; isComplete {
					b.oracle.compare(q, asked, got, begun)
				}
				q.think(ctx)
			}
			done = true
			b.stir()
		})
		b.await("a strict answer is complete: "+last, func() bool { return done })
	}
}

// finish ends all actors.
func (b *box) finish() {
	for _, a := range b.actors {
		b.die(a)
	}
	b.mu.Lock()
	for _, c := range b.pending {
		if !c.isOrphan {
			c.answer <- errDead
		}
	}
	b.pending = nil
	b.mu.Unlock()
	b.running.Wait()
}
