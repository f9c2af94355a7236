package read

import (
	"cmp"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// chainOf is a chain, but for its day.
type chainOf struct {
	device    string
	stream    uint32
	partition int32
}

func (c chainOf) compare(d chainOf) int {
	return cmp.Or(cmp.Compare(c.device, d.device), cmp.Compare(c.stream, d.stream), cmp.Compare(c.partition, d.partition))
}

// tails is the last chunk of each chain that heads remember, by day.
type tails map[telemetry.Day]map[chainOf]store.Tail

func (t tails) add(of chainOf, day telemetry.Day, tail store.Tail) {
	if t[day] == nil {
		t[day] = make(map[chainOf]store.Tail)
	}
	if old, ok := t[day][of]; !ok || old.Number < tail.Number {
		t[day][of] = tail
	}
}

// chunkNumbers is the chunks of one chain that were read.
type chunkNumbers []uint32

// chainCheck finds chunks that are stored and were not read (rule R4): a lagging replica may answer a chunk and not the
// one before it, or not the last one. It is owned by one goroutine.
type chainCheck struct {
	tails tails
	seen  map[telemetry.Day]map[chainOf]chunkNumbers
}

func newChainCheck(t tails) *chainCheck {
	return &chainCheck{tails: t, seen: make(map[telemetry.Day]map[chainOf]chunkNumbers)}
}

// add takes the id of a chunk that was read, and reports whether it is new.
func (w *chainCheck) add(device string, id chunk.ID) bool {
	of := chainOf{device, id.Stream, id.Partition}
	day := w.seen[id.Day]
	if day == nil {
		day = make(map[chainOf]chunkNumbers)
		w.seen[id.Day] = day
	}
	n := day[of]
	if l := len(n); l == 0 || n[l-1] < id.Number { // as they come as a rule
		day[of] = append(n, id.Number)
		return true
	}
	at, found := slices.BinarySearch(n, id.Number)
	if !found {
		day[of] = slices.Insert(n, at, id.Number)
	}
	return !found
}

// suspect is a device and day that may lack chunks.
type suspect struct {
	device string
	day    telemetry.Day
}

// suspects returns where rows of r may be missing, which was read up to its ends. Of a day within r all chunks must be
// there. Of a day that r cuts only those with rows in r must be, and their numbers can't be known. But as a rule chunks
// follow each other in time: none may be missing between two that are there, none before them if r begins with the day,
// none behind them if r ends with it; and the tail must be there when it has rows in r. Whether a missing chunk has
// rows in r turns out when the day is read again.
func (w *chainCheck) suspects(r telemetry.Range) []suspect {
	var out []suspect
	days := make(map[telemetry.Day]bool)
	for day := range w.seen {
		days[day] = true
	}
	for day := range w.tails {
		days[day] = true
	}
	for day := range days {
		if day.Start() >= r.To || day.End() <= r.From {
			continue
		}
		begins, ends := day.Start() >= r.From, day.End() <= r.To
		for of, n := range w.seen[day] {
			tail, isTold := w.tails[day][of]
			if !n.dense() || begins && n[0] > 0 || isTold && n[len(n)-1] < tail.Number && (ends || overlaps(tail, r)) {
				out = append(out, suspect{of.device, day})
			}
		}
		for of, tail := range w.tails[day] {
			if len(w.seen[day][of]) == 0 && (begins && ends || overlaps(tail, r)) {
				out = append(out, suspect{of.device, day})
			}
		}
	}
	slices.SortFunc(out, func(a, b suspect) int {
		return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.device, b.device))
	})
	return slices.Compact(out)
}

func overlaps(t store.Tail, r telemetry.Range) bool { return t.From < r.To && t.To >= r.From }

// dense reports whether no number is missing between two others.
func (n chunkNumbers) dense() bool { return int(n[len(n)-1]-n[0])+1 == len(n) }

// whole reports whether all chunks up to the highest known one are there.
func (n chunkNumbers) whole(tail store.Tail, isTold bool) bool {
	return n.expected(tail, isTold) == len(n)
}

// expected returns how many chunks there are at least.
func (n chunkNumbers) expected(tail store.Tail, isTold bool) int {
	want := 0
	if len(n) > 0 {
		want = int(n[len(n)-1]) + 1
	}
	if isTold {
		want = max(want, int(tail.Number)+1)
	}
	return want
}

// lacking returns what a suspect lacks after its whole day was read again, a sentence each.
func (w *chainCheck) lacking(s suspect) []string {
	chains := make(map[chainOf]bool)
	for of := range w.seen[s.day] {
		chains[of] = of.device == s.device
	}
	for of := range w.tails[s.day] {
		chains[of] = of.device == s.device
	}
	var faulty []chainOf
	for of, ours := range chains {
		if tail, isTold := w.tails[s.day][of]; ours && !w.seen[s.day][of].whole(tail, isTold) {
			faulty = append(faulty, of)
		}
	}
	slices.SortFunc(faulty, chainOf.compare)
	var out []string
	for _, of := range faulty {
		n, tail := w.seen[s.day][of], w.tails[s.day][of]
		_, isTold := w.tails[s.day][of]
		out = append(out, fmt.Sprintf("the store answers %d of %d chunks of device %s, day %s",
			len(n), n.expected(tail, isTold), s.device, s.day))
	}
	return out
}
