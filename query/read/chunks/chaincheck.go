package chunks

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/heads"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/sharding"
)

// chunkNumbers is the chunks of one chain that were read.
type chunkNumbers []uint32

// ChainCheck finds chunks that are stored and were not read (rule R4): a lagging replica may answer a chunk and not the
// one before it, or not the last one. It is owned by one goroutine.
type ChainCheck struct {
	tails heads.Tails
	seen  map[telemetry.Day]map[heads.Chain]chunkNumbers
}

// NewChainCheck returns a check against the tails that heads remember.
func NewChainCheck(t heads.Tails) *ChainCheck {
	return &ChainCheck{tails: t, seen: make(map[telemetry.Day]map[heads.Chain]chunkNumbers)}
}

// Add takes the id of a chunk that was read, and reports whether it is new.
func (w *ChainCheck) Add(device string, id chunk.ID) bool {
	of := heads.Chain{Device: device, Stream: id.Stream, Partition: id.Partition}
	day := w.seen[id.Day]
	if day == nil {
		day = make(map[heads.Chain]chunkNumbers)
		w.seen[id.Day] = day
	}
	n := day[of]
	if l := len(n); l == 0 || n[l-1] < id.Number { // chunks come in this order as a rule
		day[of] = append(n, id.Number)
		return true
	}
	at, found := slices.BinarySearch(n, id.Number)
	if !found {
		day[of] = slices.Insert(n, at, id.Number)
	}
	return !found
}

// ExpectTail takes the tail of a chain that heads remember.
func (w *ChainCheck) ExpectTail(of heads.Chain, day telemetry.Day, tail store.Tail) {
	w.tails.Add(of, day, tail)
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
func (w *ChainCheck) suspects(r telemetry.Range) []suspect {
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
			tail, hasTail := w.tails[day][of]
			if !n.dense() || begins && n[0] > 0 || hasTail && n[len(n)-1] < tail.Number && (ends || overlaps(tail, r)) {
				out = append(out, suspect{of.Device, day})
			}
		}
		for of, tail := range w.tails[day] {
			if len(w.seen[day][of]) == 0 && (begins && ends || overlaps(tail, r)) {
				out = append(out, suspect{of.Device, day})
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
func (n chunkNumbers) whole(tail store.Tail, hasTail bool) bool {
	return n.expected(tail, hasTail) == len(n)
}

// expected returns how many chunks there are at least.
func (n chunkNumbers) expected(tail store.Tail, hasTail bool) int {
	want := 0
	if len(n) > 0 {
		want = int(n[len(n)-1]) + 1
	}
	if hasTail {
		want = max(want, int(tail.Number)+1)
	}
	return want
}

// lacking returns what a suspect lacks after its whole day was read again, a sentence each.
func (w *ChainCheck) lacking(s suspect) []string {
	chains := make(map[heads.Chain]bool)
	for of := range w.seen[s.day] {
		chains[of] = of.Device == s.device
	}
	for of := range w.tails[s.day] {
		chains[of] = of.Device == s.device
	}
	var faulty []heads.Chain
	for of, ours := range chains {
		if tail, hasTail := w.tails[s.day][of]; ours && !w.seen[s.day][of].whole(tail, hasTail) {
			faulty = append(faulty, of)
		}
	}
	slices.SortFunc(faulty, heads.Chain.Compare)
	var out []string
	for _, of := range faulty {
		n, tail := w.seen[s.day][of], w.tails[s.day][of]
		_, hasTail := w.tails[s.day][of]
		out = append(out, fmt.Sprintf("the store answers %d of %d chunks of device %s, day %s",
			len(n), n.expected(tail, hasTail), s.device, s.day))
	}
	return out
}

// maxReread bounds the devices and days that one query reads again. With more missing something else is wrong, and
// reading would make it worse.
const maxReread = 64

// Check holds the rows of r, which were read up to its ends, against rule R4: where chunks may be missing, the
// device's day is read again. late takes the pieces that are found now; nil means that it is too late for them.
func (q *Query) Check(ctx context.Context, w *ChainCheck, r telemetry.Range, late func(*piece.Piece) error) error {
	for _, s := range w.suspects(r) {
		if q.View.IsExpiring(s.device, s.day) {
			continue
		}
		if q.reread == maxReread {
			q.Missing = append(q.Missing, "the store returns only some chunks of many devices")
			return nil
		}
		q.reread++
		q.Account.Add(piece.Stats{Reread: 1})
		found := 0
		for _, key := range q.View.Tenant.Placement.Keys(s.device, s.day) {
			day := telemetry.Range{From: s.day.Start(), To: s.day.End()}
			t := plan.Target{Visit: sharding.Visit{Key: key, Range: day}}
			err := q.scan(ctx, t, day, func(p *piece.Piece) error {
				isNew := w.Add(p.Device, p.Chunk.Header.ID)
				q.lacked = q.lacked || isNew
				if !isNew || p.From >= r.To || p.To < r.From {
					p.Release()
					return nil
				}
				found++
				if late == nil {
					p.Release()
					return nil
				}
				return late(p)
			})
			if err != nil {
				q.lacked = true
				return err
			}
		}
		lacking := w.lacking(s)
		q.Missing = append(q.Missing, lacking...)
		for _, detail := range lacking {
			q.MissingChunks = append(q.MissingChunks, MissingChunks{s.device, s.day, detail})
		}
		if found > 0 && late == nil && lacking == nil {
			q.Missing = append(q.Missing, fmt.Sprintf("the store returned %s too late: repeat the query", s.part(found)))
		}
	}
	return nil
}

func (s suspect) part(chunks int) string {
	if chunks == 1 {
		return fmt.Sprintf("a chunk of device %s, day %s,", s.device, s.day)
	}
	return fmt.Sprintf("a part of the chunks of device %s, day %s,", s.device, s.day)
}
