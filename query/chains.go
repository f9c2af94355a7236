package query

import (
	"fmt"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// chains finds gaps in the numbers of chains that were read whole (rule R4): a store whose replicas lag may answer a
// chunk and not the one before it. It is owned by one goroutine.
type chains struct {
	within telemetry.Range // days that lie in it are read whole
	skip   func(telemetry.Day) bool
	seen   map[chainOf][]uint32
}

type chainOf struct {
	device    string
	day       telemetry.Day
	stream    uint32
	partition int32
}

// newChains watches the days of a range. Of a day that skip names chunks may vanish one by one: it is not watched.
func newChains(within telemetry.Range, skip func(telemetry.Day) bool) *chains {
	return &chains{within: within, skip: skip, seen: make(map[chainOf][]uint32)}
}

// add takes the number of a chunk that was read.
func (c *chains) add(device string, id chunk.ID) {
	if id.Day.Start() < c.within.From || id.Day.End() > c.within.To {
		return
	}
	of := chainOf{device, id.Day, id.Stream, id.Partition}
	c.seen[of] = append(c.seen[of], id.Number)
}

// gaps says which chains lack chunks. All of a chain's chunks must have been added.
func (c *chains) gaps() []string {
	var out []string
	for of, numbers := range c.seen {
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		if want := int(numbers[len(numbers)-1]) + 1; want != len(numbers) && !c.skip(of.day) {
			out = append(out, fmt.Sprintf("the store answers %d of %d chunks of device %s, day %s", len(numbers), want, of.device, of.day))
		}
	}
	slices.Sort(out)
	return out
}
