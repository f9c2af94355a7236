package balance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"binnacle/sharding"
)

// item is a group of a tenant.
type item struct {
	p     *plan
	group int
}

func (i item) weight() float64 { return i.p.groups[i.group] }

// at returns the partition of a group; ok is false if it has none, or lies in several.
func (i item) at() (at int, ok bool) {
	s := i.p.spots[i.group]
	if len(s) != 1 {
		return 0, false
	}
	return s[0].at, true
}

// most returns how many keys of a tenant there may be in one partition, so that growth finds it spread.
func (b *balancer) most(p *plan) int {
	n := len(b.load)
	most := (len(p.slots) + n - 1) / n
	if p.rus > halfShare*b.total {
		most++
	}
	return most
}

func (b *balancer) put(i item, at int) {
	for _, s := range i.p.spots[i.group] {
		b.load[s.at] -= s.part * i.weight()
	}
	if s := i.p.spots[i.group]; len(s) > 0 {
		i.p.used[s[0].at]--
	}
	i.p.spots[i.group], i.p.slots[i.group] = []spot{{at, 1}}, none
	i.p.used[at]++
	b.load[at] += i.weight()
}

// place gives groups without a place one: the heaviest first, to the least loaded partition.
func (b *balancer) place() {
	var items []item
	for _, p := range b.plans {
		if p.fresh {
			for g := range p.groups {
				items = append(items, item{p, g})
			}
			p.fresh = false
		}
	}
	slices.SortStableFunc(items, func(x, y item) int {
		return cmp.Or(cmp.Compare(y.weight(), x.weight()), strings.Compare(x.p.t.Name, y.p.t.Name))
	})
	for _, i := range items {
		best := -1
		for more := 0; best < 0 && more <= len(i.p.groups); more++ {
			for at := range b.load {
				if i.p.used[at] >= b.most(i.p)+more || i.p.room(at, b.l) <= 0 {
					continue
				}
				if best < 0 || b.load[at] < b.load[best] {
					best = at
				}
			}
		}
		b.put(i, max(best, 0))
	}
}

// swap is a move of a group, and of another one the other way if there is one.
type swap struct {
	one, other item
	both       bool
	to         int
	gain       float64
}

// even moves and swaps groups of tenants that change anyway, away from the hottest partition, while that gains
// something.
func (b *balancer) even() {
	for range 50 * len(b.load) {
		s := b.best(false)
		if s.gain < 0.001*b.mean {
			return
		}
		b.do(s)
	}
}

// enlist moves groups of further tenants until the forecast is even enough: each makes one tenant change, or two that
// change places, and then all of their groups may move.
func (b *balancer) enlist() {
	for range len(b.plans) {
		if b.hottest() <= (1+b.trigger)/2 {
			return
		}
		s := b.best(true)
		if s.gain <= 0 {
			return
		}
		s.one.p.free = true
		if s.both {
			s.other.p.free = true
		}
		b.do(s)
		b.even()
	}
}

// cost returns what a move of a tenant's group must gain.
func (b *balancer) cost(p *plan) float64 {
	if p.free {
		return 0
	}
	return gainPart * b.mean
}

// best returns the move of a group of the hottest partition, or the swap with another, that gains most: of tenants that
// change anyway, or of further ones too, each at a cost.
func (b *balancer) best(further bool) (best swap) {
	hot := 0
	for at := range b.load {
		if b.load[at] > b.load[hot] {
			hot = at
		}
	}
	var here, there []item
	for _, p := range b.plans {
		if p.t.Pin.Keep || !p.free && !further {
			continue
		}
		for g := range p.groups {
			if at, ok := (item{p, g}).at(); !ok {
				continue
			} else if at == hot {
				here = append(here, item{p, g})
			} else {
				there = append(there, item{p, g})
			}
		}
	}
	for _, i := range here {
		w, cost := i.weight(), b.cost(i.p)
		for at := range b.load {
			gain := min(w, b.load[hot]-b.load[at]-w) - cost
			if at != hot && gain > best.gain && i.p.used[at] < b.most(i.p) && i.p.room(at, b.l) > 0 {
				best = swap{one: i, to: at, gain: gain}
			}
		}
		for _, o := range there {
			at, _ := o.at()
			moved := w - o.weight()
			gain := min(moved, b.load[hot]-b.load[at]-moved) - cost
			if i.p != o.p {
				gain -= b.cost(o.p)
			}
			if gain > best.gain && (i.p == o.p || b.mayTrade(i, at) && b.mayTrade(o, hot)) {
				best = swap{i, o, true, at, gain}
			}
		}
	}
	return best
}

func (b *balancer) mayTrade(i item, at int) bool {
	return i.p.used[at] < b.most(i.p) && i.p.room(at, b.l) > 0
}

func (b *balancer) do(s swap) {
	if s.both {
		from, _ := s.one.at()
		b.put(s.other, from)
	}
	b.put(s.one, s.to)
}

// change returns the epoch of a plan; ok is false where it equals the stored one.
func (p *plan) change(b *balancer) (c sharding.EpochChange, ok bool) {
	if !p.free {
		return c, false
	}
	p.choose(b.l)
	e := sharding.Epoch{From: b.in.Day, Slots: p.slots, Dedicated: p.next.Dedicated}
	if len(p.heavy) > 0 {
		e.Heavy = p.heavy
	}
	if len(p.slots) == len(p.next.Slots) {
		for i := range p.slots {
			if p.slots[i] != p.next.Slots[i] {
				p.moved++
			}
		}
		if p.moved == 0 && p.spread == 0 {
			return c, false
		}
	} else {
		p.moved = len(p.slots)
	}
	if len(p.reasons) == 0 {
		p.reasons = append(p.reasons, fmt.Sprintf("the hottest of %d physical partitions would take %.2f times the mean",
			len(b.load), b.before))
	}
	return sharding.EpochChange{Tenant: p.t.Name, Epoch: e, Reason: strings.Join(p.reasons, "; "), Share: p.rus / b.total,
		KeysBefore: len(p.next.Slots), KeysAfter: len(p.slots), Moved: p.moved, Devices: p.spread}, true
}

// choose gives slots to groups that have moved: slots of earlier epochs before others, since a key that is visited once
// is visited for all its days.
func (p *plan) choose(l layout) {
	c := chooser{p, make(map[string]bool), make(map[sharding.Slot]bool)}
	for _, s := range p.slots {
		if s != none {
			c.taken[p.shard(s)] = true
		}
	}
	for _, e := range p.t.Placement.Epochs() {
		c.prefer(e.Slots)
	}
	for _, slots := range p.heavy {
		c.prefer(slots)
	}
	for _, known := range []bool{true, false} {
		for g, s := range p.slots {
			if s == none {
				at := p.spots[g][0].at
				p.room(at, l)
				p.slots[g] = c.next(p.candidates[at], known)
			}
		}
	}
	for g, s := range p.slots { // where a partition has no room: a finer slot, or of a sliver any
		if s == none {
			s = c.next(l.fine(p.spots[g][0].at, manyCandidates), false)
		}
		for bits := slotBits; s == none; bits++ {
			for i := 0; s == none && i < 1<<bits; i++ {
				s = c.next([]sharding.Slot{sharding.FineSlot(bits, i)}, false)
			}
		}
		p.slots[g] = s
	}
}

const (
	// slotBits counts the bits of the 256 equal slots.
	slotBits       = 8
	manyCandidates = 256
)

// chooser hands out slots with different keys.
type chooser struct {
	p     *plan
	taken map[string]bool // first-level keys
	old   map[sharding.Slot]bool
}

func (c chooser) prefer(slots []sharding.Slot) {
	for _, s := range slots {
		c.old[s] = true
	}
}

// next returns the first slot with a key that is not taken, among the preferred ones if old is set, and takes it.
func (c chooser) next(slots []sharding.Slot, old bool) sharding.Slot {
	for _, s := range slots {
		if old && !c.old[s] {
			continue
		}
		if shard := c.p.shard(s); !c.taken[shard] {
			c.taken[shard] = true
			return s
		}
	}
	return none
}
