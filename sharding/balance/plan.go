package balance

import (
	"maps"
	"slices"

	"binnacle/sharding"
)

// plan is what is to become of one tenant: its groups, their load, and where they are.
type plan struct {
	t *Tenant
	// measured is the epoch of the measured day.
	measured sharding.Epoch
	// next is the epoch that covers the day now.
	next sharding.Epoch
	// factor is the day's load over the measured one.
	factor float64
	// rus is the forecast of the day's RU.
	rus     float64
	devices []float64 // RU by device as expected, if the day is as the measured one
	fixed   []Key     // keys that belong to no group of the measured epoch: they stay where they are

	groups []float64
	// slots are those of groups; none where a group has no place yet, or has moved.
	slots []sharding.Slot
	spots [][]spot

	heavy  map[string][]sharding.Slot
	pieces []piece
	used   []int // keys by partition

	// fresh says that all groups must be placed again.
	fresh   bool
	free    bool // an epoch is made anyway, so that its groups may move
	halved  bool // its keys were doubled in this decision
	moved   int
	spread  int
	reasons []string

	// candidates are by partition, made when they are needed.
	candidates [][]sharding.Slot
}

const none sharding.Slot = -1

// piece is what one key of a spread device has.
type piece struct {
	rus   float64
	spots []spot
}

// forecast returns the load of the day over the load of the measured day: 1, unless a week ago the tenant's load
// changed between the same days of the week.
func (t *Tenant) forecast() float64 {
	const week = 7
	if len(t.Days) <= week || t.Days[week] <= 0 || t.Days[week-1] <= 0 {
		return 1
	}
	if f := t.Days[week-1] / t.Days[week]; f < 0.8 || f > 1.25 {
		return min(max(f, 0.5), 2)
	}
	return 1
}

func (t *Tenant) knowsDevices() bool { return len(t.Devices) > 0 || len(t.Rest) > 0 }

// expected returns the load of each device: the measured day's total, divided as usual. One day says little of a
// device, and much of its tenant.
func (t *Tenant) expected() []float64 {
	out := make([]float64, len(t.Devices))
	day, usual := 0.0, 0.0
	for i, d := range t.Devices {
		if out[i] = d.Usual; d.Usual <= 0 {
			out[i] = d.RUs
		}
		day, usual = day+d.RUs, usual+out[i]
	}
	for i := range out {
		out[i] *= day / max(usual, 1e-9)
	}
	return out
}

func newPlan(t *Tenant, in *Input, l layout) *plan {
	p := &plan{t: t, measured: t.Placement.EpochOn(in.Measured), next: t.Placement.EpochOn(in.Day), factor: t.forecast()}
	p.devices = t.expected()
	p.heavy = maps.Clone(p.next.Heavy)
	if p.heavy == nil {
		p.heavy = map[string][]sharding.Slot{}
	}
	p.groups = p.loads(len(p.next.Slots))
	p.slots = slices.Clone(p.next.Slots)
	p.used = make([]int, len(l.ranges))
	for _, s := range p.slots {
		spots := l.spots(p.shard(s))
		p.spots = append(p.spots, spots)
		p.used[spots[0].at]++
	}
	p.splitDevices(l)
	if in.span(in.Measured) == in.span(in.Day) {
		p.fixed = p.strangers()
	}
	for _, w := range p.groups {
		p.rus += w
	}
	for _, w := range p.pieces {
		p.rus += w.rus
	}
	for _, k := range p.fixed {
		p.rus += k.Writes + k.Others
	}
	return p
}

func (p *plan) shard(s sharding.Slot) string { return p.t.Placement.Shard(s) }

// groupOfShard returns the groups of the measured epoch by first-level key.
func (p *plan) groupOfShard() map[string]int {
	out := make(map[string]int, len(p.measured.Slots))
	for i, s := range p.measured.Slots {
		out[p.shard(s)] = i
	}
	return out
}

// strangers returns the load of keys that are of no group: of earlier epochs, or of spread devices alone. Chunk writes
// of spread devices are known by device.
func (p *plan) strangers() (out []Key) {
	of := p.groupOfShard()
	for _, k := range p.t.Keys {
		if _, ok := of[k.Shard]; ok {
			continue
		}
		if p.t.knowsDevices() {
			k.Writes = 0
		}
		if k.Writes+k.Others > 0 {
			out = append(out, k)
		}
	}
	return out
}

// loads returns the load of the tenant's groups if there are n of them, without that of spread devices.
func (p *plan) loads(n int) []float64 {
	of, same := p.groupOfShard(), n == len(p.measured.Slots)
	writes, others := make([]float64, n), make([]float64, n)
	wholeWrites, wholeOthers := 0.0, 0.0
	for _, k := range p.t.Keys {
		i, ok := of[k.Shard]
		if !ok {
			continue
		}
		wholeWrites, wholeOthers = wholeWrites+k.Writes, wholeOthers+k.Others
		if same {
			writes[i], others[i] = writes[i]+k.Writes, others[i]+k.Others
		}
	}
	if p.t.knowsDevices() {
		writes = p.deviceLoads(n)
	} else if !same {
		for i := range writes {
			writes[i] = wholeWrites / float64(n)
		}
	}
	if !same {
		spreadOthers(others, writes, wholeOthers)
	}
	for i := range writes {
		writes[i] = p.factor * (writes[i] + others[i])
	}
	return writes
}

// spreadOthers divides what readers and rollups take among groups: it follows the groups' chunks.
func spreadOthers(others, writes []float64, whole float64) {
	sum := 0.0
	for _, w := range writes {
		sum += w
	}
	for i := range others {
		if others[i] = whole / float64(len(others)); sum > 0 {
			others[i] = whole * writes[i] / sum
		}
	}
}

// deviceLoads returns the RU of chunk writes by hash mod n, without spread devices.
func (p *plan) deviceLoads(n int) []float64 {
	out := make([]float64, n)
	for i, d := range p.t.Devices {
		if len(p.heavy[d.Name]) < 2 {
			out[sharding.GroupOf(d.Name, n)] += p.devices[i]
		}
	}
	sharding.AddBuckets(out, p.t.Rest)
	return out
}

// splitDevices makes the pieces of devices that have several slots.
func (p *plan) splitDevices(l layout) {
	p.pieces = nil
	for i, d := range p.t.Devices {
		slots := p.heavy[d.Name]
		if len(slots) < 2 {
			continue
		}
		for _, s := range slots {
			p.pieces = append(p.pieces, piece{p.factor * p.devices[i] / float64(len(slots)), l.spots(p.shard(s))})
		}
	}
}

// addTo adds the load of the plan, by sign, to partitions.
func (p *plan) addTo(load []float64, l layout, sign float64) {
	for i, spots := range p.spots {
		for _, s := range spots {
			load[s.at] += sign * s.part * p.groups[i]
		}
	}
	for _, w := range p.pieces {
		for _, s := range w.spots {
			load[s.at] += sign * s.part * w.rus
		}
	}
	for _, k := range p.fixed {
		for _, s := range l.spots(k.Shard) {
			load[s.at] += sign * s.part * (k.Writes + k.Others)
		}
	}
}

// resize gives the tenant n groups, which have no places yet.
func (p *plan) resize(n int) {
	p.groups, p.slots, p.spots = p.loads(n), make([]sharding.Slot, n), make([][]spot, n)
	for i := range p.slots {
		p.slots[i] = none
	}
	clear(p.used)
	p.fresh, p.free = true, true
}

// room returns how many more keys the tenant can have in a partition.
func (p *plan) room(at int, l layout) int {
	if p.candidates == nil {
		p.candidates = l.candidates(p.t.Name)
	}
	return len(p.candidates[at]) - p.used[at]
}
