package read

import (
	"maps"

	"binnacle/internal/telemetry"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/query/read/rollups"
	"binnacle/sharding"
)

// Basis is what a read was made of. Two reads of the same question with the same basis have the same answer; otherwise
// ChangedSince returns from which instant on they may differ (decision record 17). It is small, and has no readings.
type Basis struct {
	r       telemetry.Range
	orders  int          // the number of orders of erasure
	rows    kept.Changes // versions of heads' rows
	targets map[sharding.Key]bool
	chunks  chunks.Made
	days    map[rollups.DayKey]rollups.DaySum
	note    heads.Note // the last question to the store
}

// Bytes returns about how much memory a kept basis takes.
func (b *Basis) Bytes() int64 {
	n := 512 + 160*int64(len(b.chunks.Ranges)+len(b.targets)+len(b.days)) + b.rows.Bytes()
	for _, c := range b.chunks.Ranges {
		n += c.Bytes()
	}
	return n
}

// continues reports whether an earlier answer can be continued: its range does not begin later, and it is of the same
// keys and orders of erasure.
func (b *Basis) continues(earlier *Basis) bool {
	return earlier.r.From <= b.r.From && earlier.orders == b.orders && maps.Equal(earlier.targets, b.targets)
}

// ChangedSince returns the first instant of a reading that may be in one of two answers and not in the other, for the
// range of this one: kept.Never for none.
func (b *Basis) ChangedSince(earlier *Basis) int64 {
	if !b.continues(earlier) {
		return kept.Always
	}
	from := min(b.rows.Since(earlier.rows), b.chunks.ChangedSince(&earlier.chunks))
	differ := func(days, others map[rollups.DayKey]rollups.DaySum) {
		for of, sum := range days {
			if others[of] != sum {
				from = min(from, of.Day.Start())
			}
		}
	}
	differ(b.days, earlier.days)
	differ(earlier.days, b.days)
	return from
}

// Basis returns what the read was made of, nil if that is not known or the answer is not complete. It is called
// when Run has returned.
func (q *Query) Basis() *Basis {
	made := q.chunks.Notes.Made()
	if made.Inexact || q.account.Stats().Reread > 0 || !q.hasBasis() {
		return nil
	}
	b := q.newBasis()
	b.chunks, b.days = made, q.rollups.Days
	b.note = q.heads.Stored.Note(&q.chunks.Kept, false)
	b.note.DueBy(made.Due)
	return b
}

func (q *Query) newBasis() *Basis {
	b := &Basis{r: q.req.Range, rows: q.heads.Changes,
		orders:  q.view.Acknowledged(),
		targets: make(map[sharding.Key]bool)}
	for p := range q.view.Parts {
		for _, t := range plan.FirstLevel(p.Targets) {
			b.targets[t.Key] = true
		}
	}
	return b
}

// hasBasis reports whether the reads so far leave a basis.
func (q *Query) hasBasis() bool {
	return !q.account.IsExplained() && q.req.AsOf == 0 && q.req.Order == piece.Unordered && q.req.Devices == nil &&
		q.Incomplete() == nil && q.heads.Changes != nil && q.view.Tenant.Placement != nil && !q.view.HidesSome()
}

// keptBasis returns the basis of the answer if the store has nothing that it had not when an earlier answer was made
// (rule R8), nil if that is not known.
func (q *Query) keptBasis(earlier *Basis) *Basis {
	if !q.hasBasis() {
		return nil
	}
	b := q.newBasis()
	b.chunks, b.days, b.note = earlier.chunks, earlier.days, earlier.note
	b.chunks.Expires = min(b.chunks.Expires, q.heads.Expires)
	if !b.continues(earlier) || !heads.ExpiresLate(b.chunks.Expires, b.chunks.Date) ||
		!q.heads.Stored.Stands(&b.note, b.r, nil) {
		return nil
	}
	return b
}

// narrow leaves out of the range what an earlier answer has, if the store has nothing new for it.
func (q *Query) narrow() {
	if q.req.Narrow == nil || q.req.Kept == nil {
		return
	}
	b := q.keptBasis(q.req.Kept)
	if b == nil {
		return
	}
	from := q.req.Narrow(b)
	q.begin = &from
	q.req.Range.From = min(max(q.req.Range.From, from), q.req.Range.To)
	q.view.Plan()
}

// Begin returns the first instant of the range that is needed, as Narrow says. It is called when Run has returned.
func (q *Query) Begin() int64 {
	if q.begin == nil {
		from := q.req.Narrow(q.Basis())
		q.begin = &from
	}
	return *q.begin
}

// standsAlone reports whether what an earlier answer lacks can be read from known chunks, without asking the store:
// manifests of rollups would have to be read from time to time.
func (q *Query) standsAlone() bool {
	if q.begin == nil {
		return false
	}
	for p := range q.view.Parts {
		for _, t := range p.Targets {
			if r := piece.Within(t.Range, p.Range); !r.Empty() && !q.chunks.Stands(t, r) {
				return false
			}
		}
	}
	return true
}
