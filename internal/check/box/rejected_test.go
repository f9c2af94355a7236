package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/erasure"
	"binnacle/internal/stream/deadletter"
	"binnacle/internal/stream/topics"
	"binnacle/query/diagnose/gaps"
	"binnacle/query/diagnose/rejected"
)

// refusals names the runs in which queriers answer what was refused, and in which more is refused.
const refusals = "refusals"

// pickRefusals picks whether a run is about what was refused.
func (b *box) pickRefusals() bool {
	picked := rand.New(rand.NewPCG(b.opts.seed, 52)).IntN(8) == 0 && b.opts.years == 0 && b.copies.west == nil
	return b.has(refusals, picked)
}

// followLetters has the querier follow the dead letters.
func (q *querier) followLetters(set topics.Set) {
	if !q.b.refusing {
		return
	}
	q.index = rejected.New(rejected.Config{DeadLetters: q.cluster().Topic(letters), Topics: set,
		Every: 10*time.Second + 17*time.Microsecond, Logger: q.logger(), Erasures: func(string) erasure.List { return nil }})
	q.start(func(ctx context.Context) { _ = q.index.Run(ctx) })
}

// lateLetters is how long a querier may take to read a dead letter, while it says that it has them all.
const lateLetters = time.Minute

// letter is a dead letter of a tenant, once, whichever ingesters have sent it.
type letter struct {
	deadletter.DeadLetter
	at     time.Time
	tenant string // "" where the record names none
	// time is the event time of the refused reading, -1 where the record names none.
	time int64
}

// refusedElements returns what was refused, an element each. Of a record that is read again others may be refused.
func (o *oracle) refusedElements() (all []letter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := map[deadletter.ID]deadletter.Elements{}
	whole := map[deadletter.ID]bool{}
	for i := range o.b.log.topics[letters][0].records {
		rec := &o.b.log.topics[letters][0].records[i]
		l, ok := rec.letter()
		if !ok || whole[l.ID()] || !l.Reduce(taken) {
			continue
		}
		whole[l.ID()] = true
		x, at := letter{l, time.UnixMilli(rec.time), "", -1}, place{l.Partition, l.Offset}
		if s, known := o.refusedOf[at]; known {
			x.tenant, x.time = s.tenant, s.time
		} else if all := o.expected[at.partition][at.offset].series; len(all) > 0 {
			x.tenant, x.time = all[max(0, l.Index)].tenant, all[max(0, l.Index)].time
		}
		for range l.Count() {
			all = append(all, x)
		}
	}
	return all
}

// askRejected asks what was refused of a tenant's readings.
func (q *querier) askRejected(ctx context.Context, tenant string) {
	var found struct {
		Rejected []struct {
			Reason  string
			Count   int
			Samples []struct {
				Partition int32
				Offset    int64
			}
		}
		Complete bool
	}
	form := url.Values{"from": {"1"}, "to": {fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())}, "samples": {"100"}}
	ok := q.get(ctx, tenant, "/api/v1/rejected", form, nil, &found)
	if !ok || len(q.b.oracle.orders) > 0 {
		return
	}
	least, most := map[string]int{}, map[string]int{}
	of := map[place]bool{}
	for _, l := range q.b.oracle.refusedElements() {
		if l.tenant == tenant {
			most[string(l.Reason)]++
			of[place{l.Partition, l.Offset}] = true
			if found.Complete && time.Since(l.at) > lateLetters && time.Since(q.paused.until) > lateLetters {
				least[string(l.Reason)]++
			}
		}
	}
	got := map[string]int{}
	for _, g := range found.Rejected {
		got[g.Reason] = g.Count
		for _, s := range g.Samples {
			if !of[place{s.Partition, s.Offset}] {
				q.b.fail("%s: %s sees the dead letter of record %d of partition %d", q.name, tenant, s.Offset, s.Partition)
			}
		}
	}
	for reason := range most {
		if got[reason] < least[reason] || got[reason] > most[reason] {
			q.b.fail("%s: the answer to what was refused of %s, complete %t, has %d for %s, and there are %d to %d", q.name,
				tenant, found.Complete, got[reason], reason, least[reason], most[reason])
		}
	}
	if len(got) > len(most) {
		q.b.fail("%s: the answer to what was refused of %s has %v instead of %v", q.name, tenant, got, most)
	}
}

// refused adds to the evidence about a device what was refused, if there is only one right answer.
func (o *oracle) refusedReadings(q *querier, tenant, device string, c *gaps.Evidence) (ok bool) {
	r := c.Judged()
	for _, l := range o.refusedElements() {
		if string(l.Key) != tenant+"/"+device {
			continue
		}
		if time.Since(l.at) < lateLetters || l.Reason != decode.Undecodable && l.Reason != decode.Future ||
			len(o.orders) > 0 || time.Since(q.paused.until) < lateLetters {
			return false
		}
		x := gaps.Refusal{Time: l.time, Published: l.Published, Reason: l.Reason, Topic: topic, Partition: l.Partition,
			Offset: l.Offset}
		switch {
		case l.tenant == "" && l.Published >= r.From:
			c.Refusals = append(c.Refusals, x)
		case l.tenant == tenant && (r.Contains(l.time) || r.Contains(l.Published)):
			x.Detail = l.Detail
			c.Refusals = append(c.Refusals, x)
		}
	}
	return true
}
