package read

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Basis is what a read was made of. Two reads of the same question with the same basis have the same answer; otherwise
// ChangedSince returns from which instant on they may differ (decision record 17). It is small, and has no readings.
type Basis struct {
	r       telemetry.Range
	orders  string // what an operator has set or ordered that changes answers
	bins    changes
	targets map[sharding.Key]telemetry.Range
	keys    map[sharding.Key]changes // of chunks
	days    map[basisDay][sha256.Size]byte
	expires int64 // ms since 1970 UTC: when the first chunk may be gone
	date    int64 // the same: when the read was answered, by the service's clock
	asked   asked // the store
}

// basisDay is a day of a first-level key that rollups cover.
type basisDay struct {
	key sharding.Key
	day telemetry.Day
}

// change is a version of something that was read, and the first instant at which it may differ from the version before.
type change struct {
	version uint64
	from    int64
}

// changes is the last versions of something, the oldest first.
type changes []change

// maxChanges is how many versions are remembered. With an earlier one everything is computed again.
const maxChanges = 256

// with returns the changes with one more, unless nothing has changed. It does not change c.
func (c changes) with(version uint64, from int64) changes {
	if from == math.MaxInt64 {
		return c
	}
	if len(c) >= maxChanges {
		c = c[len(c)-maxChanges/2:]
	}
	return append(slices.Clip(slices.Clone(c)), change{version, from})
}

// since returns the first instant at which the last version may differ from that of an earlier c.
func (c changes) since(earlier changes) int64 {
	if len(earlier) == 0 {
		return math.MinInt64
	}
	seen, from := earlier[len(earlier)-1].version, int64(math.MaxInt64)
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].version == seen {
			return from
		}
		from = min(from, c[i].from)
	}
	return math.MinInt64
}

// last returns the last version alone.
func (c changes) last() changes { return slices.Clone(c[max(0, len(c)-1):]) }

// basisNotes collects a Basis. It is safe for any number of callers.
type basisNotes struct {
	mu      sync.Mutex // guards below
	inexact bool       // something was read that leaves no note
	keys    map[sharding.Key]changes
	expires int64
	date    int64
	due     time.Time // when one of the keys is to be asked again; zero for none
}

// noteInexact notes a read that leaves no note.
func (n *basisNotes) noteInexact() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inexact = true
}

// noteExpiry notes when a chunk of the answer may be gone.
func (n *basisNotes) noteExpiry(at int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.expires = min(n.expires, at)
}

// noteKey notes which chunks of a key were known. Of several reads of a key the first counts, which saw the least.
func (n *basisNotes) noteKey(key sharding.Key, of *knownChunks) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = make(map[sharding.Key]changes)
	}
	if n.keys[key] == nil {
		n.keys[key] = of.changes
	}
	n.date = max(n.date, of.date)
	if !of.due.IsZero() && (n.due.IsZero() || of.due.Before(n.due)) {
		n.due = of.due
	}
}

// Basis returns what the read was made of, nil if that is not known or the answer is not complete. It is called
// when Run has returned.
func (q *Query) Basis() *Basis {
	n := &q.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.inexact || q.cost.reread > 0 || !q.hasBasis() {
		return nil
	}
	b := &Basis{r: q.req.Range, bins: q.binChanges, keys: n.keys, orders: q.orders(),
		days: q.basisDays, expires: n.expires, date: n.date, targets: q.targets()}
	before := &asked{}
	if q.req.Kept != nil {
		before = &q.req.Kept.asked
	}
	if b.asked = q.askedNow(before); !n.due.IsZero() && n.due.Before(b.asked.due) {
		b.asked.due = n.due
	}
	return b
}

// hasBasis reports whether what was read so far leaves a basis.
func (q *Query) hasBasis() bool {
	switch {
	case q.explanation != nil || q.req.AsOf > 0 || q.req.Order != Unordered || q.req.Devices != nil:
		return false
	case q.missing != nil || q.binChanges == nil || q.plan.tenant.Placement == nil:
		return false
	}
	return !q.hidesIn(q.req.Range)
}

// orders returns what an operator has set or ordered that changes answers.
func (q *Query) orders() string {
	return fmt.Sprint(q.erased.acknowledged())
}

// targets returns the first-level keys that the plan asks, with their ranges.
func (q *Query) targets() map[sharding.Key]telemetry.Range {
	out := make(map[sharding.Key]telemetry.Range)
	for p := range q.plan.parts {
		for _, t := range firstLevel(p.targets) {
			out[t.Key] = t.Range
		}
	}
	return out
}

// Begin returns the first instant of the range that is needed. It is called when Run has returned.
func (q *Query) Begin() int64 {
	if q.narrowed == nil {
		from := q.req.Narrow(q.Basis())
		q.narrowed = &from
	}
	return *q.narrowed
}

// useKept leaves out of the range what an earlier answer has, if the store has nothing new for it (rule R8).
func (q *Query) useKept() {
	if q.req.Narrow == nil || q.req.Kept == nil {
		return
	}
	b := q.keptBasis(q.req.Kept)
	if b == nil {
		return
	}
	from := q.req.Narrow(b)
	q.narrowed = &from
	q.req.Range.From = min(max(q.req.Range.From, from), q.req.Range.To)
	q.plan.parts = q.r.parts(q.plan.snapshot, q.plan.tenant, q.req)
}

// keptBasis returns the basis of the answer if the store has nothing that it had not when an earlier answer was made,
// nil if that is not known.
func (q *Query) keptBasis(kept *Basis) *Basis {
	if !q.hasBasis() || kept.orders != q.orders() || kept.r.From > q.req.Range.From {
		return nil
	}
	b := *kept
	b.r, b.bins, b.targets = q.req.Range, q.binChanges, q.targets()
	for key := range b.targets {
		if _, ok := kept.targets[key]; !ok {
			return nil
		}
	}
	for key, r := range kept.targets {
		if _, ok := b.targets[key]; !ok && r.To > b.r.From {
			return nil
		}
	}
	if !q.stands(&kept.asked, func(c *laterTail) bool {
		if c.moved {
			b.expires = min(b.expires, c.expires)
		}
		return c.explained(b.r, b.date)
	}) || !expiresLate(b.expires, b.date) {
		return nil
	}
	return &b
}

// Kept returns what has to be kept of a basis for ChangedSince.
func (b *Basis) Kept() *Basis {
	out := *b
	out.bins, out.keys = b.bins.last(), make(map[sharding.Key]changes, len(b.keys))
	for key, c := range b.keys {
		out.keys[key] = c.last()
	}
	return &out
}

// Bytes returns about how much memory a kept basis takes.
func (b *Basis) Bytes() int64 { return 512 + 160*int64(len(b.keys)+len(b.targets)+len(b.days)) }

// ChangedSince returns the first instant of a reading that may be in one of two answers and not in the other, for the
// range of this one: math.MaxInt64 for none. The earlier one must not begin later.
func (b *Basis) ChangedSince(earlier *Basis) int64 {
	if earlier.r.From > b.r.From || earlier.orders != b.orders || earlier.expires <= b.date {
		return math.MinInt64
	}
	from := b.bins.since(earlier.bins)
	for key, r := range earlier.targets {
		if _, ok := b.targets[key]; !ok && r.To > b.r.From {
			return math.MinInt64
		}
	}
	for key, r := range b.targets {
		if _, ok := earlier.targets[key]; !ok {
			from = min(from, r.From)
		}
	}
	for key, c := range b.keys {
		switch before := earlier.keys[key]; {
		case before != nil:
			from = min(from, c.since(before))
		default: // what was read from rollups alone
			from = min(from, b.targets[key].From)
		}
	}
	for of, sum := range b.days {
		if before, ok := earlier.days[of]; !ok || before != sum {
			from = min(from, of.day.Start())
		}
	}
	for of := range earlier.days {
		if _, ok := b.days[of]; !ok {
			from = min(from, of.day.Start())
		}
	}
	return from
}

// noteDays notes the days that rollups cover: by which manifest, and which chunks are newer. It does not note which
// hours they cover, as answers do not depend on it.
func (q *Query) noteDays(jobs []*rollupJob) {
	q.basisDays = make(map[basisDay][sha256.Size]byte)
	for _, j := range jobs {
		for _, d := range j.days {
			if !d.hasRollups() {
				continue
			}
			var expired rollup.Hours
			for h := range rollup.HoursOfDay {
				if d.manifest.expired(h) {
					expired |= rollup.Span(h, h+1)
				} else if until := d.manifest.Until[h]; until > 0 {
					q.notes.noteExpiry(until * 1000)
				}
			}
			slices.Sort(d.since)
			text := fmt.Sprintf("%x %x %s", d.manifest.sum, expired, strings.Join(d.since, " "))
			q.basisDays[basisDay{j.target.Key, d.day}] = sha256.Sum256([]byte(text))
		}
	}
}
