package heads

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// askEvery is how long the store may stay unasked, whatever heads say. The first time, and after something was stored,
// that is Margin: a replica may have lagged.
const askEvery = 30 * time.Minute

// Margin exceeds what clocks of the service differ or step back, how long a request takes to be answered, and what
// replicas lag, together (rule R7).
const Margin = 5 * time.Minute

// maxLater bounds the later tails that are remembered of a head.
const maxLater = 4096

// counts is what the head of an owner has answered of stored chunks, to one question. It does not change.
type counts struct {
	begun uint64 // the Count of the head from which on all later tails are known
	count uint64
	tails map[chainDay]store.Tail
	later []*Later // since begun, in the order of counts
}

// Later is that a chain has a later tail.
type Later struct {
	chainDay
	Tail store.Tail

	count uint64 // the head's Count at that answer
	first uint32 // the first number that was not known
	bins  []*bin // with the rows of the chunk, which need not be read then; nil: not known

	seen    time.Time
	expires int64 // ms since 1970 UTC, about: when the chunk does
}

// laterBytes is the memory of a later tail without the rows of its bins.
const laterBytes = 192

// ID returns the id of the chunk that is the tail.
func (l *Later) ID() chunk.ID {
	return chunk.ID{Day: l.Day, Stream: l.Stream, Partition: l.Partition, Number: l.Tail.Number}
}

// isExplained reports whether the chunks need not be read for a range: they have no rows there, or their rows are
// known.
func (l *Later) isExplained(r telemetry.Range) bool {
	return l.first == l.Tail.Number && (l.Tail.From >= r.To || l.Tail.To < r.From || l.bins != nil)
}

// ExpiresLate reports whether nothing expires, by the service's clock, while the store may stay unasked after a date.
func ExpiresLate(expires, date int64) bool {
	return date > 0 && expires > date+(askEvery+2*Margin).Milliseconds()
}

// isOld reports whether all that was asked before the chunk was stored is due again: it is read where it is needed.
func (l *Later) isOld(now time.Time) bool { return now.Sub(l.seen) > askEvery+time.Minute }

// newCounts returns the counts of a head that has answered all its chains.
func newCounts(h *store.PartitionHead) *counts {
	c := &counts{begun: h.Stored.Count, count: h.Stored.Count, tails: make(map[chainDay]store.Tail, len(h.Chains))}
	for i := range h.Chains {
		c.tails[chainDayOf(h, &h.Chains[i])] = h.Chains[i].Tail
	}
	return c
}

// shown is the rows that a head shows.
type shown struct {
	before, now binsOf
	at          time.Time
	expiry      func(chainDay) int64
}

// since returns the counts with the later tails that a head answers now.
func (c *counts) since(h *store.PartitionHead, s *shown) *counts {
	out := *c
	out.count = h.Stored.Count
	for len(out.later) > 0 && (len(out.later) > maxLater || out.later[0].isOld(s.at)) {
		out.begun, out.later = out.later[0].count, out.later[1:]
	}
	if len(h.Chains) == 0 {
		return &out
	}
	out.tails, out.later = maps.Clone(c.tails), slices.Clip(out.later)
	for i := range h.Chains {
		of, tail := chainDayOf(h, &h.Chains[i]), h.Chains[i].Tail
		was, known := c.tails[of]
		if known && was.Number >= tail.Number {
			continue
		}
		l := &Later{chainDay: of, Tail: tail, count: out.count, seen: s.at, expires: s.expiry(of)}
		after := int64(-1)
		if known {
			l.first, after = was.Number+1, was.Through
		}
		if l.first == tail.Number && ExpiresLate(l.expires, s.at.UnixMilli()) {
			l.bins = s.rowsOf(l, after)
		}
		out.tails[of] = tail
		out.later = append(out.later, l)
	}
	return &out
}

// rowsOf returns the bins with the rows of a chunk that follows one whose last record is given: nil if that is not
// certain. Nothing says where a chunk begins. It has all rows that its head still shows of these records; or else the
// rows of the one bin that was known there, if its last record was. A bin in addition may have left for another reason.
func (s *shown) rowsOf(l *Later, after int64) []*bin {
	of := deviceDay{l.Device, l.Day}
	var still, left []*bin
	through := int64(-1)
	within := func(b *bin) bool { return b.first > after && b.through <= l.Tail.Through }
	for _, b := range s.now[of] {
		if within(b) {
			still, through = append(still, b), max(through, b.through)
		}
	}
	for _, b := range s.before[of] {
		if within(b) && s.now.find(of, b.first) == nil {
			left, through = append(left, b), max(through, b.through)
		}
	}
	if through != l.Tail.Through || len(left) > 1 || len(left) == 1 && len(still) > 0 {
		return nil
	}
	return append(still, left...)
}

// bytes returns about how much memory the counts take.
func (c *counts) bytes() int64 {
	n := tailBytes*int64(len(c.tails)) + laterBytes*int64(len(c.later))
	for _, l := range c.later {
		for _, b := range l.bins {
			n += b.bytes + binBytes
		}
	}
	return n
}

// Chain is a chain of chunks, but for its day.
type Chain struct {
	Device    string
	Stream    uint32
	Partition int32
}

// Compare orders chains by device, stream and partition.
func (c Chain) Compare(d Chain) int {
	return cmp.Or(cmp.Compare(c.Device, d.Device), cmp.Compare(c.Stream, d.Stream), cmp.Compare(c.Partition, d.Partition))
}

// chainDay is a chain with its day.
type chainDay struct {
	Chain
	Day telemetry.Day
}

func chainDayOf(h *store.PartitionHead, c *store.HeadChain) chainDay {
	return chainDay{Chain{c.Device, h.Stream, h.Partition}, c.Day}
}

// tailBytes is what a chain's tail takes, in the map that it is in.
const tailBytes = 160

// Tails is the last chunk of each chain that heads remember, by day.
type Tails map[telemetry.Day]map[Chain]store.Tail

// Add adds the tail of a chain, unless a later one is known.
func (t Tails) Add(of Chain, day telemetry.Day, tail store.Tail) {
	if t[day] == nil {
		t[day] = make(map[Chain]store.Tail)
	}
	if old, ok := t[day][of]; !ok || old.Number < tail.Number {
		t[day][of] = tail
	}
}
