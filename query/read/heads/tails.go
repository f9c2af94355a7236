package heads

import (
	"cmp"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

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
