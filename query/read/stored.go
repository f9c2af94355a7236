package read

import (
	"maps"
	"math"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Heads count what becomes known to be stored (rule R8). While the same heads answer, and what they have counted since
// the store was asked is explained by rows that are known, the store has nothing that an answer would lack.

// askEvery is how long the store may stay unasked, whatever heads tell. The first time, and after something was stored,
// that is the margin: a replica may have lagged.
const askEvery = 30 * time.Minute

// maxLaterTails bounds the later tails that are remembered of a head.
const maxLaterTails = 4096

// asked says when the store was asked for a range, and what heads had counted before.
type asked struct {
	heads     map[uint64]uint64 // by owner, the Count of its head; nil: not known
	at        time.Time         // by the querier's clock, before the heads were asked
	due       time.Time         // when the store is asked again
	unsettled time.Time         // until when it is asked each time: a process that is gone may have a create under way
}

// storedCounts is what the head of an owner has answered of stored chunks, of some days. It does not change.
type storedCounts struct {
	first, last telemetry.Day
	begun       uint64 // the Count when all chains were answered
	count       uint64
	tails       map[chainDay]store.Tail
	partial     bool        // it lacks days that the head has answered before
	changes     []laterTail // since begun
	moved       map[store.HeadBin]movedBin
}

// chainDay is a chain.
type chainDay struct {
	chainOf
	day telemetry.Day
}

// laterTail is that a chain has a later tail.
type laterTail struct {
	chainDay
	count  uint64 // of the head, when it was answered
	from   uint32 // the first number that was not known
	tail   store.Tail
	single bool // no other number was unknown
	moved  bool // the rows of the chunk are in storedCounts.moved

	expires int64 // ms since 1970 UTC, about: when the chunk does
}

// movedBin is rows of a bin that are stored by now, as a chunk that was not read.
type movedBin struct {
	bin *cachedBin
	of  chainDay
	id  uint32 // number of the chunk
	at  time.Time

	expires int64 // as that of the change
}

// isOld reports whether all that was asked before the chunk was stored is due again: it is read where it is needed.
func (m *movedBin) isOld(now time.Time) bool { return now.Sub(m.at) > askEvery+time.Minute }

// explained reports whether the chunks of a change need not be read for a range: they have no rows there, or their rows
// are known and do not expire for as long as the store may stay unasked after a date of its clock.
func (c *laterTail) explained(r telemetry.Range, date int64) bool {
	return c.single && (!overlaps(c.tail, r) || c.moved && expiresLate(c.expires, date))
}

// countsStored reports whether all heads of an answer count what is stored, one for each partition and stream. Of two
// heads only one shows its rows, and the other one's chunks may be under way.
func (s *headRead) countsStored() bool {
	if s.err != nil || len(s.all) == 0 || len(s.best) != len(s.all) {
		return false
	}
	return !slices.ContainsFunc(s.all, func(h store.PartitionHead) bool { return h.Owner == 0 || h.Stored == nil })
}

// daysAsked returns the days of a request for bins.
func (q *Query) daysAsked() (first, last telemetry.Day) {
	return telemetry.DayOf(q.req.Range.From), telemetry.DayOf(q.req.Range.To - 1)
}

// knownCounts returns what the head of an owner has answered before, nil unless that is of all days that are asked
// for.
func (q *Query) knownCounts(owner uint64) *storedCounts {
	if q.bins == nil {
		return nil
	}
	first, last := q.daysAsked()
	if h := q.bins.counts[owner]; h != nil && h.first <= first && h.last >= last {
		return h
	}
	return nil
}

// takeCounts takes what a head answers of stored chunks, once its bins are known.
func (q *Query) takeCounts(h *store.PartitionHead, bins map[store.HeadBin]*cachedBin) {
	old, s := q.knownCounts(h.Owner), h.Stored
	switch {
	case s.Above == 0:
		first, last := q.daysAsked()
		t := &storedCounts{first: first, last: last, begun: s.Count, count: s.Count,
			tails: make(map[chainDay]store.Tail, len(h.Chains))}
		for _, c := range h.Chains {
			t.tails[chainDayOf(h, &c)] = c.Tail
		}
		q.counts[h.Owner] = t
	case old != nil && old.count == s.Above && s.Exact <= s.Above:
		q.counts[h.Owner] = q.countsSince(old, h, bins)
	default: // something was forgotten while the head answered
		q.counts, q.countsStored = nil, false
	}
}

func chainDayOf(h *store.PartitionHead, c *store.HeadChain) chainDay {
	return chainDay{chainOf{c.Device, h.Stream, h.Partition}, c.Day}
}

// countsSince returns what a head has answered before, with the later tails that it answers now.
func (q *Query) countsSince(old *storedCounts, h *store.PartitionHead,
	bins map[store.HeadBin]*cachedBin) *storedCounts {
	t, now := *old, q.r.cfg.Now()
	t.count = h.Stored.Count
	t.first, t.last = q.daysAsked()
	t.partial = t.first > old.first || t.last < old.last
	aged := false
	for _, m := range t.moved {
		aged = aged || m.isOld(now)
	}
	if len(h.Chains) == 0 && !aged {
		return &t
	}
	t.tails, t.moved, t.changes = maps.Clone(t.tails), maps.Clone(t.moved), slices.Clip(t.changes)
	maps.DeleteFunc(t.moved, func(_ store.HeadBin, m movedBin) bool { return m.isOld(now) })
	if t.moved == nil {
		t.moved = make(map[store.HeadBin]movedBin)
	}
	places := placesOf(bins, q.cachedBinsOf(h.Owner))
	for i := range h.Chains {
		of, tail := chainDayOf(h, &h.Chains[i]), h.Chains[i].Tail
		was, known := t.tails[of]
		if known && was.Number >= tail.Number {
			continue
		}
		c := laterTail{chainDay: of, count: t.count, tail: tail, expires: q.expiryOf(of, now)}
		if !known {
			was.Through = -1
		} else {
			c.from = was.Number + 1
		}
		c.single = tail.Number == c.from
		if c.single && expiresLate(c.expires, now.UnixMilli()) {
			for name, bin := range places.chunk(&c, was.Through) {
				t.moved[name], c.moved = movedBin{bin, of, tail.Number, now, c.expires}, true
			}
		}
		t.tails[of] = tail
		t.changes = append(t.changes, c)
	}
	if n := len(t.changes); n > maxLaterTails {
		t.begun = t.changes[n/2].count
		t.changes = slices.Clone(t.changes[n/2+1:])
	}
	return &t
}

// expiryOf returns about when a chunk expires that was stored by now: ms since 1970 UTC.
func (q *Query) expiryOf(of chainDay, now time.Time) int64 {
	ttl := q.visible.tenant.TTLOf(of.device, of.day, now.UnixMilli())
	if ttl == 0 {
		return math.MaxInt64
	}
	return now.UnixMilli() + 1000*int64(ttl)
}

// places are bins by device and day.
type places struct {
	now, before map[deviceDay]map[store.HeadBin]*cachedBin
}

// placesOf returns places of bins that heads have now, and of those that they had before.
func placesOf(now, before map[store.HeadBin]*cachedBin) places {
	p := places{make(map[deviceDay]map[store.HeadBin]*cachedBin), make(map[deviceDay]map[store.HeadBin]*cachedBin)}
	put := func(to map[deviceDay]map[store.HeadBin]*cachedBin, name store.HeadBin, b *cachedBin) {
		of := deviceDay{name.Device, name.Day}
		if to[of] == nil {
			to[of] = make(map[store.HeadBin]*cachedBin)
		}
		to[of][name] = b
	}
	for name, b := range now {
		put(p.now, name, b)
	}
	for name, b := range before {
		if now[name] == nil {
			put(p.before, name, b)
		}
	}
	return p
}

// chunk returns the bins with the rows of a chunk that follows one whose last record is given: nil if that is not
// certain. Nothing says where a chunk begins. It has all rows that its head still shows of these records; or else the
// rows of the one bin that was known there, if its last record was. A bin in addition may have left for another reason.
func (p places) chunk(c *laterTail, after int64) map[store.HeadBin]*cachedBin {
	within := func(bins map[store.HeadBin]*cachedBin) (out map[store.HeadBin]*cachedBin, through int64) {
		for name, b := range bins {
			if name.First > after && b.through() <= c.tail.Through {
				if out == nil {
					out = make(map[store.HeadBin]*cachedBin)
				}
				out[name], through = b, max(through, b.through())
			}
		}
		return out, through
	}
	now, throughNow := within(p.now[deviceDay{c.device, c.day}])
	before, throughBefore := within(p.before[deviceDay{c.device, c.day}])
	switch {
	case len(before) == 0 && len(now) > 0 && throughNow == c.tail.Through:
		return now
	case len(now) == 0 && len(before) == 1 && throughBefore == c.tail.Through:
		return before
	}
	return nil
}

// isMoved reports whether a bin of an owner is known although its head no longer has it.
func (q *Query) isMoved(owner uint64, name store.HeadBin) bool {
	if t := q.counts[owner]; t != nil {
		_, ok := t.moved[name]
		return ok
	}
	return false
}

// stands reports whether the store has nothing that was not there when it was asked, but chunks that are explained.
func (q *Query) stands(a *asked, explained func(*laterTail) bool) bool {
	now := q.r.cfg.Now()
	switch {
	case !q.countsStored || !q.sameHeads(a) || q.plan.snapshot.HasCopies():
		return false
	case now.Before(a.at) || now.Before(a.unsettled) || !now.Before(a.due):
		return false
	}
	for owner, count := range a.heads {
		h := q.counts[owner]
		if h.begun > count {
			return false
		}
		for i := len(h.changes) - 1; i >= 0 && h.changes[i].count > count; i-- {
			if !explained(&h.changes[i]) {
				return false
			}
		}
	}
	return true
}

// sameHeads reports whether the same heads answer as before the store was asked.
func (q *Query) sameHeads(a *asked) bool {
	if len(a.heads) == 0 || len(a.heads) != len(q.counts) {
		return false
	}
	for owner := range a.heads {
		if q.counts[owner] == nil {
			return false
		}
	}
	return true
}

// sameCounts reports whether nothing became known to be stored since the store was asked.
func (q *Query) sameCounts(a *asked) bool {
	if !q.countsStored || !q.sameHeads(a) {
		return false
	}
	for owner, count := range a.heads {
		if q.counts[owner].count != count {
			return false
		}
	}
	return true
}

// askedNow returns that the query has asked the store, after it was asked before for parts of the same. Of what these
// say the most careful counts.
func (q *Query) askedNow(before ...*asked) asked {
	a := asked{at: q.began, due: q.began.Add(askEvery)}
	for _, b := range before {
		due := q.began.Add(margin)
		switch {
		case b.heads == nil || !q.countsStored:
		case !q.sameHeads(b):
			a.unsettled = due
		case !q.began.Before(b.due):
			due = q.began.Add(askEvery)
		case q.sameCounts(b): // another range was asked for
			due = b.due
		}
		a.due = earlier(a.due, due)
		if b.unsettled.After(a.unsettled) {
			a.unsettled = b.unsettled
		}
	}
	if !q.countsStored {
		return asked{unsettled: a.unsettled}
	}
	a.heads = make(map[uint64]uint64, len(q.counts))
	for owner, h := range q.counts {
		a.heads[owner] = h.count
	}
	return a
}

// expiresLate reports whether nothing expires, by the service's clock, for as long as the store may stay unasked after
// a date.
func expiresLate(expires, date int64) bool {
	return date > 0 && expires > date+(askEvery+2*margin).Milliseconds()
}

// countsToKeep returns what heads have answered, for the next query. What is known of more days stays.
func (q *Query) countsToKeep() map[uint64]*storedCounts {
	if q.bins == nil || q.counts == nil {
		return q.counts
	}
	out := q.counts
	for owner, t := range q.counts {
		if t.partial {
			out = maps.Clone(out)
			out[owner] = q.bins.counts[owner]
		}
	}
	return out
}

// What a tail and a change take beside their names.
const (
	knownTailBytes = 160
	laterTailBytes = 128
)

// bytes returns about how much memory it takes.
func (h *storedCounts) bytes() int64 {
	n := knownTailBytes*int64(len(h.tails)) + laterTailBytes*int64(len(h.changes))
	for _, m := range h.moved {
		n += m.bin.bytes + cachedBinBytes + cachedPartBytes*int64(len(m.bin.parts))
	}
	return n
}

// addMovedTo has a check know the chunks that were not read, because their rows are known.
func (q *Query) addMovedTo(w *chainCheck) {
	for _, t := range q.counts {
		for _, m := range t.moved {
			if q.asked(m.of.device) {
				w.add(m.of.device, chunk.ID{Day: m.of.day, Stream: m.of.stream, Partition: m.of.partition, Number: m.id})
			}
		}
	}
}

// sameMoment is how long queries for different metrics share that a key has nothing new: as long as the panels of a
// dashboard take to ask.
const sameMoment = 15 * time.Second

// nothingKey names that a key had nothing new.
type nothingKey sharding.Key

// nothing says that a scan of what was stored in a range since a second found no chunk, of any metric.
type nothing struct {
	span
	date  int64
	asked asked
}

// noteNothing notes for queries for other metrics that a scan for what is new has found nothing, at a date of the
// service.
func (q *Query) noteNothing(l *keyCache, e span, date int64) {
	if e.asOf > 0 && date > 0 && q.countsStored {
		q.r.cache.put(nothingKey(l.key.Key), &nothing{e, date, q.askedNow()}, keyCacheBytes)
	}
}

// foundNothing reports whether a scan for what is new need not be made, because one for other metrics has found nothing
// a moment ago, and nothing became known to be stored since (rule R8). It returns the date of that scan.
func (q *Query) foundNothing(l *keyCache, e span, a *asked) (date int64, ok bool) {
	v, ok := q.r.cache.get(nothingKey(l.key.Key), sameMoment)
	if !ok || e.asOf == 0 || q.explanation != nil || q.plan.snapshot.HasCopies() ||
		q.r.cfg.Now().Before(a.unsettled) {
		return 0, false
	}
	n := v.(*nothing)
	return n.date, n.asOf <= e.asOf && n.From <= e.From && n.To >= e.To && q.sameCounts(&n.asked)
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// windowsKey names that a key had nothing new in some windows, by the second of the first one.
type windowsKey struct {
	sharding.Key
	since int64
}

// nothingIn says that a scan of windows found no chunk, of any metric.
type nothingIn struct {
	windows []store.Window
	asked   asked
}

// noteNothingIn does for windows what noteNothing does.
func (j *rollupJob) noteNothingIn(windows []store.Window) {
	if j.countsStored {
		j.r.cache.put(windowsKey{j.target.Key, windows[0].Since}, &nothingIn{windows, j.askedNow()}, keyCacheBytes)
	}
}

// foundNothingIn does for windows what foundNothing does.
func (j *rollupJob) foundNothingIn(windows []store.Window) bool {
	v, ok := j.r.cache.get(windowsKey{j.target.Key, windows[0].Since}, sameMoment)
	if !ok || j.explanation != nil || j.plan.snapshot.HasCopies() ||
		j.req.Kept != nil && j.r.cfg.Now().Before(j.req.Kept.asked.unsettled) {
		return false
	}
	n := v.(*nothingIn)
	return j.sameCounts(&n.asked) && slices.EqualFunc(windows, n.windows, func(ours, theirs store.Window) bool {
		return ours.Since >= theirs.Since && ours.From >= theirs.From && ours.To <= theirs.To
	})
}
