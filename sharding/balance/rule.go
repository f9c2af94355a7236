package balance

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"binnacle/sharding"
)

// balancer is one decision in the making.
type balancer struct {
	in      *Input
	l       layout
	plans   []*plan
	byName  map[string]*plan
	load    []float64
	full    map[string]bool // devices that were spread because a key would be full, by tenant and name
	total   float64
	mean    float64
	trigger float64 // hottest over mean above which groups move
	before  float64 // hottest over mean, if nothing changes
}

// Decide returns the epochs to create for a day. It says the same for the same input, in whatever order the input is.
func Decide(in Input) Decision {
	b := newBalancer(&in)
	d := Decision{Day: in.Day, Partitions: len(b.load), Before: b.hottest()}
	d.After, b.before, d.Load = d.Before, d.Before, b.total
	if b.total <= 0 || len(b.load) == 0 {
		return d
	}
	b.splitFullKeys()
	uneven := d.Before > b.trigger
	for _, p := range b.plans {
		if !p.t.Pin.Keep {
			b.sizeKeys(p, uneven)
			b.spreadDevices(p, uneven)
		}
	}
	b.place()
	b.even()
	for again := true; again && b.hottest() > b.trigger; {
		b.enlist()
		again = b.hottest() > b.trigger && b.halveGroups()
	}
	d.After = b.hottest()
	for _, p := range b.plans {
		if c, ok := p.change(b); ok {
			c.Before, c.After = d.Before, d.After
			d.Changes = append(d.Changes, c)
		}
	}
	return d
}

func newBalancer(in *Input) *balancer {
	b := &balancer{in: in, l: newLayout(in.Ranges), byName: map[string]*plan{}, full: map[string]bool{}}
	b.load = make([]float64, len(b.l.ranges))
	if len(b.load) == 0 {
		return b
	}
	tenants := slices.SortedFunc(slices.Values(in.Tenants), func(x, y Tenant) int { return cmp.Compare(x.Name, y.Name) })
	for i := range tenants {
		p := newPlan(&tenants[i], in, b.l)
		b.plans = append(b.plans, p)
		b.byName[p.t.Name] = p
		p.addTo(b.load, b.l, 1)
		b.total += p.rus
	}
	b.mean = b.total / float64(len(b.load))
	b.trigger = b.bound()
	return b
}

// bound returns the hottest over mean above which it is worth to act: more where few devices make the load, since what
// they do differs from day to day, and a tenth at most.
func (b *balancer) bound() float64 {
	squares, others := 0.0, 0.0
	for _, p := range b.plans {
		for _, k := range p.t.Keys {
			others += k.Others * k.Others
		}
		for i, w := range p.devices {
			pieces := max(1, len(p.heavy[p.t.Devices[i].Name])) // one in each partition is the same in all
			squares += w * w * max(0, 1/float64(pieces)-1/float64(len(b.load)))
		}
	}
	// Standard deviations, of a device's day and of a key's readers.
	const ofDevice, ofReaders = 0.2, 0.035
	whole := max(b.total, 1e-9)
	noise := math.Sqrt(float64(len(b.load))*(ofDevice*ofDevice*squares+ofReaders*ofReaders*others)) / whole
	return min(max(leastTrigger, 1.03+2.5*noise), mostTrigger)
}

func (b *balancer) hottest() float64 {
	if b.mean <= 0 {
		return 1
	}
	return slices.Max(b.load) / b.mean
}

// wanted returns how many keys a tenant should have: enough that partitions stay about even if its load grows tenfold
// within a day, and one or two in each partition for tenants with a large part of the load.
func (b *balancer) wanted(p *plan, share float64) int {
	n := float64(len(b.load))
	grown := growth * share / (1 + (growth-1)*share)
	keys := n * grown / (grown + growthRoom)
	switch {
	case p.t.Pin.Keys > 0:
		return p.t.Pin.Keys
	case share < smallShare:
		return fewKeys
	case share > halfShare && p.t.Fan*n <= 0.05*p.rus:
		keys = 2 * n
	case share >= midShare:
		keys = n
	}
	// Keys beyond the first few must be worth what their readers pay.
	if most := 0.25 * p.rus / max(p.t.Fan, 1e-9); share < midShare {
		keys = min(keys, most)
	}
	keys = min(max(fewKeys, keys), mostKeys*n, sharding.MaxKeys)
	if keys >= n {
		return int(n * math.Floor(keys/n)) // one more would be two keys in one partition
	}
	return min(b.divisible(int(math.Ceil(keys))), len(b.load))
}

// divisible returns the least number of keys from n on that divides the buckets of light devices: then their groups are
// known exactly.
func (b *balancer) divisible(n int) int {
	const buckets = 5040
	for k := n; k <= n+n/8; k++ {
		if buckets%k == 0 {
			return k
		}
	}
	return n
}

// sizeKeys gives a tenant other groups if it has too few keys, or, as a period begins, far too many.
func (b *balancer) sizeKeys(p *plan, uneven bool) {
	part := p.rus / b.total
	have, want, group := len(p.slots), b.wanted(p, part), p.rus/float64(len(p.slots))
	switch {
	case p.t.Pin.Keys > 0 && have != want:
		p.reasons = append(p.reasons, fmt.Sprintf("pinned to %d keys", want))
	case p.t.Pin.Keys > 0:
		return
	case 2*have < want || uneven && 4*have < 3*want:
		want = b.wanted(p, min(1, keyRoom*part))
		p.reasons = append(p.reasons, fmt.Sprintf("%.3g %% of the load of %d physical partitions on %d keys",
			100*part, len(b.load), have))
	case b.begins() && have > 2*want && group < shrinkBelow*b.mean:
		p.reasons = append(p.reasons, fmt.Sprintf("%.3g %% of the load needs no more than %d keys", 100*part, want))
	default:
		return
	}
	p.addTo(b.load, b.l, -1)
	p.resize(want)
	p.addTo(b.load, b.l, 1)
}

// spreadDevices gives several keys to devices that are a large part of a partition's share. They keep them until the
// period ends.
func (b *balancer) spreadDevices(p *plan, uneven bool) {
	b.gatherDevices(p)
	above := spreadAbove
	if uneven || p.free {
		above = spreadPart
	}
	for _, d := range p.t.Devices {
		weight := max(d.RUs, d.Peak) * p.factor
		if weight <= above*b.mean || float64(len(p.heavy[d.Name]))*2*spreadPart*b.mean > weight {
			continue
		}
		pieces := min(int(math.Ceil(weight/(spreadPart*b.mean))), len(b.load))
		if pieces < 2 || pieces <= len(p.heavy[d.Name]) {
			continue
		}
		b.spreadDevice(p, d.Name, pieces)
		p.reasons = append(p.reasons, fmt.Sprintf("device %s takes %.3g %% of a partition's share: %d keys", d.Name,
			100*weight/b.mean, pieces))
	}
}

// halveGroups gives twice the keys to the tenant with the heaviest group of the hottest partition, if that group is a
// large part of it. It reports whether there is such a tenant.
func (b *balancer) halveGroups() bool {
	hot := slices.Index(b.load, slices.Max(b.load))
	var most *plan
	heaviest := b.mean / 2
	for _, p := range b.plans {
		if p.t.Pin != (sharding.Pin{}) || p.halved ||
			2*len(p.slots) > mostKeys*len(b.load) || 2*len(p.slots) > sharding.MaxKeys {
			continue
		}
		for g, w := range p.groups {
			if at, ok := (item{p, g}).at(); ok && at == hot && w > heaviest {
				most, heaviest = p, w
			}
		}
	}
	if most == nil {
		return false
	}
	n := len(b.load)
	keys := 2 * len(most.slots)
	if keys >= n {
		keys = keys / n * n
	}
	if keys <= len(most.slots) {
		return false
	}
	most.halved = true
	most.reasons = append(most.reasons, fmt.Sprintf("a key has %.3g %% of a partition's share", 100*heaviest/b.mean))
	most.addTo(b.load, b.l, -1)
	most.resize(keys)
	most.addTo(b.load, b.l, 1)
	b.place()
	b.even()
	return true
}

func (b *balancer) begins() bool { return b.in.span(b.in.Day-1) != b.in.span(b.in.Day) }

// gatherDevices takes the slots of devices away that have become light, as a period begins.
func (b *balancer) gatherDevices(p *plan) {
	if !b.begins() || len(p.heavy) == 0 {
		return
	}
	weights := make(map[string]float64, len(p.heavy))
	for _, d := range p.t.Devices {
		if _, ok := p.heavy[d.Name]; ok {
			weights[d.Name] = max(d.RUs, d.Peak) * p.factor
		}
	}
	p.addTo(b.load, b.l, -1)
	for device := range p.heavy {
		if weights[device] < spreadPart/2*b.mean && !b.full[p.t.Name+"/"+device] {
			delete(p.heavy, device)
			p.free = true
			p.spread++
		}
	}
	p.groups = p.loads(len(p.slots))
	p.splitDevices(b.l)
	p.addTo(b.load, b.l, 1)
}

// spreadDevice gives a device slots on the least loaded partitions. Those that it has stay.
func (b *balancer) spreadDevice(p *plan, device string, pieces int) {
	order := leastLoaded(b.load)
	p.addTo(b.load, b.l, -1)
	slots := slices.Clone(p.heavy[device])
	taken := map[int]bool{}
	for _, s := range slots {
		taken[b.l.spots(p.shard(s))[0].at] = true
	}
	for _, again := range []bool{false, true} { // then several of a partition
		for _, at := range order {
			if len(slots) >= pieces || taken[at] && !again {
				continue
			}
			if s, ok := p.slotIn(at, b.l, slots); ok {
				slots, taken[at] = append(slots, s), true
			}
		}
	}
	p.heavy[device] = slots
	p.free = true
	p.spread++
	p.groups = p.loads(len(p.slots))
	p.splitDevices(b.l)
	p.addTo(b.load, b.l, 1)
}

// slotIn returns a slot in a partition that is not among some: one that the tenant has, if there is one.
func (p *plan) slotIn(at int, l layout, but []sharding.Slot) (sharding.Slot, bool) {
	p.room(at, l)
	var other []sharding.Slot
	for _, s := range p.candidates[at] {
		if slices.Contains(but, s) {
			continue
		}
		if slices.Contains(p.next.Slots, s) {
			return s, true
		}
		other = append(other, s)
	}
	if len(other) == 0 {
		return 0, false
	}
	return other[0], true
}

// splitFullKeys spreads devices with chunks that would fill a logical partition before the period ends.
func (b *balancer) splitFullKeys() {
	end := b.in.span(b.in.Day).End()
	for _, f := range b.in.Full {
		p := b.byName[f.Tenant]
		if p == nil || p.t.Pin.Keep {
			continue
		}
		bytes := f.Bytes + f.Growth*float64(end-b.in.Day)
		if b.in.span(b.in.Measured) != b.in.span(b.in.Day) {
			bytes = f.Growth * float64(end-b.in.Day)
		}
		pieces := min(1+int(bytes/fullBytes), sharding.Slots)
		if bytes > fullBytes {
			b.full[f.Tenant+"/"+f.Device] = true
		}
		if bytes <= fullBytes || len(p.heavy[f.Device]) >= pieces {
			continue
		}
		b.spreadDevice(p, f.Device, pieces)
		p.reasons = append(p.reasons, fmt.Sprintf("device %s would store %.3g GB under one key by the end of its container",
			f.Device, bytes/1e9))
	}
}
