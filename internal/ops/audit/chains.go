package audit

import (
	"cmp"
	"fmt"
	"slices"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// chains lists the chunks in each chain, by number, each once.
type chains map[chain][]*entry

// linkChains sorts chunks into chains, and returns which of them lie under several keys. Of those the one that lies
// where it belongs counts.
func linkChains(entries []*entry) (chains, []Finding) {
	all := make(chains)
	for _, e := range entries {
		all[e.chain()] = append(all[e.chain()], e)
	}
	var found []Finding
	for c, of := range all {
		slices.SortFunc(of, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(a.id.Number, b.id.Number), place(a)-place(b), compareKeys(a.key, b.key))
		})
		once := of[:1]
		for _, e := range of[1:] {
			kept := once[len(once)-1]
			if e.id == kept.id {
				found = append(found, e.finding(Duplicate, "it also lies in %s under %s", kept.key.Container,
					kept.key.TenantShard))
				continue
			}
			once = append(once, e)
		}
		all[c] = once
	}
	return all, found
}

func place(e *entry) int {
	if e.misplaced {
		return 1
	}
	return 0
}

func compareKeys(a, b sharding.Key) int {
	return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.TenantShard, b.TenantShard))
}

// own returns what a chunk's header alone shows to be wrong.
func (e *entry) own() (found []Finding) {
	day := telemetry.Range{From: e.id.Day.Start(), To: e.id.Day.End()}
	switch {
	case e.from > e.to:
		found = append(found, e.finding(Foreign, "its first instant, %d, lies after its last, %d", e.from, e.to))
	case !day.Contains(e.from) || !day.Contains(e.to):
		found = append(found, e.finding(Foreign, "its instants, %d to %d, are not within its day", e.from, e.to))
	}
	if e.first <= e.after || e.through < e.first {
		found = append(found, e.finding(Order, "after %d, first %d, through %d do not follow", e.after, e.first,
			e.through))
	}
	return found
}

// check holds I4: numbers from 0 without a gap, and each chunk continues where the one before it ended.
func (c chain) check(of []*entry) (found []Finding) {
	number, through := int64(0), int64(-1)
	for _, e := range of {
		switch n := int64(e.id.Number); {
		case n == number+1:
			found = append(found, c.finding(Finding{Kind: Gap, Number: number, First: through + 1, Through: e.after,
				Detail: "the chunk is missing"}))
		case n > number:
			found = append(found, c.finding(Finding{Kind: Gap, Number: number, First: through + 1, Through: e.after,
				Detail: fmt.Sprintf("the chunks up to number %d are missing", n-1)}))
		case e.after > through:
			found = append(found, e.finding(Gap, "it goes on after offset %d, but the one before it ends at %d", e.after,
				through))
		case e.after < through:
			found = append(found, e.finding(Overlap, "it goes on after offset %d, but the one before it ends at %d", e.after,
				through))
		}
		number, through = int64(e.id.Number)+1, e.through
	}
	return found
}
