package balance

import (
	"cmp"
	"slices"
	"sort"
	"strconv"

	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// layout is the physical partitions of a container.
type layout struct{ ranges []epk.Range }

func newLayout(ranges []epk.Range) layout {
	return layout{slices.SortedFunc(slices.Values(ranges), func(a, b epk.Range) int { return epk.Compare(a.Min, b.Min) })}
}

// at returns the partition that an effective partition key lies in.
func (l layout) at(key string) int {
	return max(0, sort.Search(len(l.ranges), func(i int) bool { return epk.Compare(l.ranges[i].Min, key) > 0 })-1)
}

// spot is a part of a first-level key's load, and the partition that has it.
type spot struct {
	at   int
	part float64
}

// spots returns where the documents of a first-level key lie: in one partition, or in several where it was split within
// the key.
func (l layout) spots(shard string) []spot {
	key := epk.MultiHash(epk.String(shard))
	first := l.at(key)
	last := first
	for last+1 < len(l.ranges) && epk.Compare(l.ranges[last+1].Min, key+epk.Max) < 0 {
		last++
	}
	if first == last {
		return []spot{{first, 1}}
	}
	out, from := make([]spot, 0, last-first+1), 0.0
	for i := first; i <= last; i++ {
		to := 1.0
		if i < last {
			to = secondLevel(l.ranges[i+1].Min)
		}
		out = append(out, spot{i, to - from})
		from = to
	}
	return out
}

// secondLevel returns where the second level of an effective partition key lies in its space, from 0 to 1.
func secondLevel(key string) float64 {
	const levelDigits, digits = 32, 13
	rest := key[min(len(key), levelDigits):]
	if len(rest) < digits {
		rest += "0000000000000"[len(rest):]
	}
	x, err := strconv.ParseUint(rest[:digits], 16, 64)
	if err != nil {
		return 1 // beyond the last key
	}
	return min(1, float64(x)/(1<<(4*digits-2)))
}

// candidates returns the slots of a tenant by partition: those whose key lies there as a whole. A partition that is
// narrower than a slot has finer ones.
func (l layout) candidates(tenant string) [][]sharding.Slot {
	out, keys := make([][]sharding.Slot, len(l.ranges)), make([][]string, len(l.ranges))
	for slot, shard := range sharding.Shards(tenant) {
		if s := l.spots(shard); len(s) == 1 {
			at := s[0].at
			out[at], keys[at] = append(out[at], sharding.Slot(slot)), append(keys[at], epk.MultiHash(epk.String(shard)))
		}
	}
	for at := range out {
		if len(out[at]) < fewCandidates {
			out[at] = append(out[at], l.besides(at, keys[at])...)
		}
	}
	return out
}

// besides returns finer slots of a partition, with other keys than those.
func (l layout) besides(at int, keys []string) []sharding.Slot {
	return slices.DeleteFunc(l.fine(at, 2*fewCandidates+len(keys)), func(s sharding.Slot) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return contains(s, key) })
	})
}

// fewCandidates is how many slots a partition has at least, unless it is a sliver.
const fewCandidates = 4

// fine returns slices of the space that lie within a range as a whole, some of every size: the first of at most a
// quarter of it. Their keys lie there for any tenant.
func (l layout) fine(at, most int) (out []sharding.Slot) {
	from, to := firstLevel(l.ranges[at].Min), 1.0
	if at+1 < len(l.ranges) {
		to = firstLevel(l.ranges[at+1].Min)
	}
	const finest = 16
	for bits := slotBits + 1; bits <= finest && len(out) < most; bits++ {
		n := float64(int(1) << bits)
		if to-from < 4/n {
			continue
		}
		for i := int(from*n) + 1; float64(i+1) <= to*n && len(out) < most; i++ {
			out = append(out, sharding.FineSlot(bits, i))
		}
	}
	return out
}

func contains(s sharding.Slot, key string) bool {
	bits, index := s.Slice()
	return int(firstLevel(key)*float64(int(1)<<bits)) == index
}

// firstLevel returns where an effective partition key lies in the space, from 0 to 1.
func firstLevel(key string) float64 { return secondLevel("00000000000000000000000000000000" + key) }

// leastLoaded returns the partitions, the least loaded first.
func leastLoaded(load []float64) []int {
	out := make([]int, len(load))
	for i := range out {
		out[i] = i
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(load[a], load[b]) })
	return out
}
