package engine

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"binnacle/internal/charges/ru"
	"binnacle/sharding/epk"
)

// A query without ORDER BY gives its rows in the order in which their items were made, as the service does. Items are
// stored by key, so a page notes the matching ones that were made first after the last page, and loads these.

// made returns rows in the order in which their items were made, one physical partition after the other.
func (a *answer) made() error {
	if err := a.goOnAt(); err != nil {
		return err
	}
	a.scan.anyOrder = true
	return a.visit(func(l leg, work *ru.QueryWork) (bool, error) {
		after, inside := a.passedIn(l.partition)
		skip, _ := a.bound.Window()
		items := &firsts{
			want:    a.limit - a.count + max(0, skip-a.cursor.Rows) + 1,
			compare: func(a, b candidate) int { return cmp.Compare(a.made, b.made) },
		}
		a.scan.after = after
		if inside > 0 {
			a.scan.after--
		}
		if _, err := a.scan.leg(l, func() (step, error) {
			items.add(candidate{made: a.scan.row.head.created, item: a.scan.item})
			return goOn, nil
		}); err != nil {
			return false, err
		}
		items.trim()
		cut := items.seen > items.want
		a.cursor.Made, a.cursor.Inside = after, inside
		next, err := a.giveMade(items)
		upTo := a.cursor.Made
		if next == goOn && !cut {
			upTo = math.MaxUint64
		}
		a.countLoaded(work, upTo)
		switch {
		case err != nil || next != goOn:
			a.endIn(l.partition)
			return false, err
		case cut:
			a.more = true
			a.endIn(l.partition)
			return false, nil
		}
		a.cursor.Made = 0
		return true, nil
	})
}

// resumption is what earlier pages have passed of a range of effective partition keys.
type resumption struct {
	span
	passed
	inside int
}

// goOnAt leaves out the physical partitions that earlier pages have passed. If a split has since replaced the
// one where the last page ended, both children resume there.
func (a *answer) goOnAt() error {
	if a.cursor.Min == "" && a.cursor.Max == "" {
		return nil
	}
	for i, p := range append([]passed{a.cursor.passed}, a.cursor.Later...) {
		s, err := keySpan(epk.Range{Min: p.Min, Max: p.Max})
		if err != nil {
			return errCursor()
		}
		r := resumption{span: s, passed: p}
		if i == 0 {
			r.inside = a.cursor.Inside
		}
		a.before = append(a.before, r)
	}
	first := a.before[0].low
	a.legs = slices.DeleteFunc(slices.Clone(a.legs), func(l leg) bool {
		return l.partition.high != nil && bytes.Compare(l.partition.high, first) <= 0
	})
	return nil
}

// passedIn returns what earlier pages have passed of a physical partition.
func (a *answer) passedIn(p *partition) (made uint64, inside int) {
	for _, r := range a.before {
		if r.holds(p.low) {
			return r.Made, r.inside
		}
	}
	return 0, 0
}

// endIn ends the page inside a physical partition.
func (a *answer) endIn(p *partition) {
	a.cursor.Min, a.cursor.Max = p.Min, p.Max
	a.cursor.Later = nil
	after := false
	for _, l := range a.legs {
		if made, _ := a.passedIn(l.partition); after && made > 0 {
			a.cursor.Later = append(a.cursor.Later, passed{made, l.partition.Min, l.partition.Max})
		}
		after = after || l.partition == p
	}
}

// giveMade loads the rows of the page.
func (a *answer) giveMade(items *firsts) (next step, err error) {
	r := a.scan.row
	for _, it := range items.kept {
		r.reset(it.item)
		if r.err != nil {
			return stopBefore, r.err
		}
		if a.bound.Query().Iterates() {
			next, err = a.iterated(it.made)
		} else {
			next, err = a.row(func(rows int) {
				a.cursor.Made = it.made
				a.cursor.Rows += rows
			})
			if next == goOn && a.count >= a.limit && err == nil {
				a.more, next = true, stopAfter
			}
		}
		if next != goOn || err != nil {
			return next, err
		}
	}
	return goOn, nil
}

// iterated returns the rows of an item that may have several. A page may end between two of them.
func (a *answer) iterated(made uint64) (step, error) {
	skip, take := a.bound.Window()
	from := 0
	if a.cursor.Made == made {
		from = a.cursor.Inside
	}
	a.cursor.Inside = 0
	next, at := goOn, 0
	a.bound.Each(a.scan.row, func(row []byte) bool {
		if at++; at <= from {
			return true
		}
		switch {
		case a.cursor.Rows < skip:
		case take >= 0 && a.cursor.Rows >= skip+take:
			next = stopBefore
			return false
		case a.count >= a.limit || !a.add(row):
			a.more = true
			next = stopBefore
			if at > 1 {
				a.cursor.Made, a.cursor.Inside = made, at-1
				next = stopAfter
			}
			return false
		}
		a.cursor.Rows++
		return true
	})
	if next == goOn {
		a.cursor.Made = made
	}
	return next, cmp.Or(a.scan.row.err, a.bound.Err())
}

// loaded is an item that a scan has loaded.
type loaded struct {
	made uint64
	size int
}

// countLoaded counts what a scan has loaded, as far as it was made up to a number, and how much of that was not made
// right after what was loaded before it. A query of all that a partition holds passes over nothing. What is counted
// from the index is charged by its entries, and is not loaded.
func (a *answer) countLoaded(work *ru.QueryWork, upTo uint64) {
	list := a.scan.loaded
	a.scan.loaded = nil
	slices.SortFunc(list, func(x, y loaded) int { return cmp.Compare(x.made, y.made) })
	breaks := 0
	for i, it := range list {
		if it.made > upTo {
			break
		}
		work.Add(it.size)
		if !work.Counted {
			a.loaded++
			a.loadedBytes += it.size
		}
		if i > 0 && !follows(it.made, list[i-1].made) {
			breaks++
		}
	}
	if work.Seeks > 0 && len(a.scan.residual) == 0 {
		work.Scattered = max(0, breaks-work.Seeks+1)
	}
}

// follows reports whether nothing can have been made between two items.
func follows(made, before uint64) bool {
	return made == before+1 || made&(1<<positionBits-1) == 0 && made>>positionBits == before>>positionBits+1
}
