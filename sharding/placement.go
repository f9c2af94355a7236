package sharding

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"binnacle/internal/telemetry"
)

// Key is where a document lives: a container and the full partition key in it.
type Key struct {
	Container   string
	TenantShard string // first level, the tenant with its slot-placed suffix
	Device      string // second level
}

// Placement is one tenant's epochs, and the periods of containers, ready for use. It is immutable and safe for any
// number of callers.
type Placement struct {
	tenant string
	// epochs are in the order of From; the first one covers everything before the second.
	epochs []compiled
	// periods are in the order of From, from day 0.
	periods []PeriodEpoch
}

type compiled struct {
	Epoch
	shards map[Slot]string
}

// NewPlacement makes a tenant's placement of its epochs, in any order. There must be at least one;
// the earliest is taken to cover all days before the next, whatever its From is. Periods, in any order, say how long
// containers are; none means months.
func NewPlacement(tenant string, epochs []Epoch, periods ...PeriodEpoch) (*Placement, error) {
	return (&Placement{tenant: tenant}).with(epochs, periods, make(map[Slot]string))
}

// Renew makes a placement of the same tenant as NewPlacement does. It takes over the first-level keys that p has found,
// which is what takes time: 256 hashes each.
func (p *Placement) Renew(epochs []Epoch, periods ...PeriodEpoch) (*Placement, error) {
	return p.with(epochs, periods, maps.Clone(p.epochs[0].shards))
}

// with makes a placement of the tenant. shards are first-level keys that are known.
func (p *Placement) with(epochs []Epoch, periods []PeriodEpoch, shards map[Slot]string) (*Placement, error) {
	tenant := p.tenant
	if len(epochs) == 0 {
		return nil, fmt.Errorf("tenant %q has no epoch", tenant)
	}
	sortedPeriods, err := sortPeriods(periods)
	if err != nil {
		return nil, fmt.Errorf("tenant %q: %w", tenant, err)
	}
	out := &Placement{tenant: tenant, periods: sortedPeriods}
	sorted := slices.SortedFunc(slices.Values(epochs), func(a, b Epoch) int { return cmp.Compare(a.From, b.From) })
	for i, e := range sorted {
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("tenant %q, epoch from %s: %w", tenant, e.From, err)
		}
		if i > 0 && e.From == sorted[i-1].From {
			return nil, fmt.Errorf("tenant %q has two epochs from %s", tenant, e.From)
		}
		c := compiled{Epoch: e, shards: shards}
		for _, slots := range append([][]Slot{e.Slots}, slices.Collect(maps.Values(e.Heavy))...) {
			if err := c.name(tenant, slots); err != nil {
				return nil, fmt.Errorf("tenant %q, epoch from %s: %w", tenant, e.From, err)
			}
		}
		out.epochs = append(out.epochs, c)
	}
	return out, nil
}

// name finds the first-level keys of slots. A slice and a finer one within it may have the same: then they can't both
// be in one list, by which chunks are spread.
func (c compiled) name(tenant string, slots []Slot) error {
	seen := make(map[string]Slot, len(slots))
	for _, s := range slots {
		if _, ok := c.shards[s]; !ok {
			c.shards[s] = Shard(tenant, s)
		}
		if other, ok := seen[c.shards[s]]; ok {
			return fmt.Errorf("slots %d and %d have the same key %s", other, s, c.shards[s])
		}
		seen[c.shards[s]] = s
	}
	return nil
}

// Epochs returns the tenant's epochs in the order of their days.
func (p *Placement) Epochs() []Epoch {
	out := make([]Epoch, len(p.epochs))
	for i, e := range p.epochs {
		out[i] = e.Epoch
	}
	return out
}

// EpochOn returns the epoch that covers a day.
func (p *Placement) EpochOn(day telemetry.Day) Epoch { return p.on(day).Epoch }

// Shard returns Shard of the tenant and a slot, at once if an epoch uses it.
func (p *Placement) Shard(s Slot) string {
	if shard, ok := p.epochs[0].shards[s]; ok {
		return shard
	}
	return Shard(p.tenant, s)
}

// Tenant returns the name of the tenant.
func (p *Placement) Tenant() string { return p.tenant }

// Key returns where the chunk with this number in its chain lives. For any tenant, device, day and number there is one
// answer while the epochs that cover the day are known (rule W1).
func (p *Placement) Key(device string, day telemetry.Day, number uint32) Key {
	e := p.on(day)
	slots := e.slotsOf(device)
	return Key{p.containerOf(e, day), e.shards[slots[int(number)%len(slots)]], device}
}

// Keys returns every key under which chunks of a device and day may live, in the order of the numbers that they take:
// one for most devices.
func (p *Placement) Keys(device string, day telemetry.Day) []Key {
	e := p.on(day)
	container := p.containerOf(e, day)
	var out []Key
	for _, s := range e.slotsOf(device) {
		out = append(out, Key{container, e.shards[s], device})
	}
	return out
}

// Spread returns the devices that have several slots on a day.
func (p *Placement) Spread(day telemetry.Day) (devices []string) {
	for device, slots := range p.on(day).Heavy {
		if len(slots) > 1 {
			devices = append(devices, device)
		}
	}
	return devices
}

// Holds reports whether chunks of a device and day may live under a key. A key without a device includes all that share
// its first level.
func (p *Placement) Holds(key Key, device string, day telemetry.Day) bool {
	e := p.on(day)
	return key.Container == p.containerOf(e, day) &&
		slices.ContainsFunc(e.slotsOf(device), func(s Slot) bool { return e.shards[s] == key.TenantShard })
}

// Uses reports whether chunks of any device and a day may live under the first level of a key.
func (p *Placement) Uses(key Key, day telemetry.Day) bool {
	e := p.on(day)
	return key.Container == p.containerOf(e, day) &&
		slices.ContainsFunc(e.allSlots(), func(s Slot) bool { return e.shards[s] == key.TenantShard })
}

// Visit is one place that a query must read: a full key, or with an empty Device all devices of a
// tenant in one slot of one container. Range spans all days on which the key is in use; between them may be days of
// epochs that do not use it (Holds). Its bounds are midnights unless they are the query's own.
type Visit struct {
	Key
	Range telemetry.Range
}

// VisitsOf returns what Visits does of one device, or of all with an empty id.
func (p *Placement) VisitsOf(device string, r telemetry.Range) []Visit {
	if device == "" {
		return p.Visits(nil, r)
	}
	return p.Visits([]string{device}, r)
}

// Visits returns every place that can hold a chunk with rows in r: of these devices, or of all when devices is nil.
// Each key occurs once, however many epochs use it. The order is that of the first days.
func (p *Placement) Visits(devices []string, r telemetry.Range) []Visit {
	var out []Visit
	places := make(map[Key]int)
	add := func(key Key, part telemetry.Range) {
		i, known := places[key]
		if !known {
			i = len(out)
			places[key], out = i, append(out, Visit{key, part})
		}
		out[i].Range.To = part.To
	}
	for r := r; !r.Empty(); {
		day := telemetry.DayOf(r.From)
		e := p.on(day)
		end := min(r.To, p.until(day).Start())
		part := telemetry.Range{From: r.From, To: end}
		container := p.containerOf(e, day)
		if devices == nil {
			for _, s := range e.allSlots() {
				add(Key{container, e.shards[s], ""}, part)
			}
		}
		for _, d := range devices {
			for _, s := range e.slotsOf(d) {
				add(Key{container, e.shards[s], d}, part)
			}
		}
		r.From = end
	}
	return out
}

func (p *Placement) on(day telemetry.Day) compiled {
	i := firstAfter(p.epochs, day, func(e compiled) telemetry.Day { return e.From })
	return p.epochs[max(i-1, 0)]
}

// SpanOn returns the span that a day's container is named for.
func (p *Placement) SpanOn(day telemetry.Day) Span { return periodOn(p.periods, day).Of(day) }

// ContainerOn returns the container of the chunks of a day.
func (p *Placement) ContainerOn(day telemetry.Day) string { return p.containerOf(p.on(day), day) }

// until returns the first day after one from which on another epoch or container counts.
func (p *Placement) until(day telemetry.Day) telemetry.Day {
	end := p.SpanOn(day).End()
	if i := firstAfter(p.epochs[1:], day, func(e compiled) telemetry.Day { return e.From }); i < len(p.epochs)-1 {
		end = min(end, p.epochs[1+i].From)
	}
	if i := firstAfter(p.periods, day, PeriodEpoch.from); i < len(p.periods) {
		end = min(end, p.periods[i].From)
	}
	return end
}

// firstAfter returns the index of the first element that begins after a day, of elements in the order of their days.
func firstAfter[E any](all []E, day telemetry.Day, from func(E) telemetry.Day) int {
	i, _ := slices.BinarySearchFunc(all, day+1, func(e E, d telemetry.Day) int { return cmp.Compare(from(e), d) })
	return i
}

// slotsOf returns the slots of one device, in the order in which its chunks take them.
func (e compiled) slotsOf(device string) []Slot {
	if heavy := e.Heavy[device]; len(heavy) > 0 {
		return heavy
	}
	return e.Slots[GroupOf(device, len(e.Slots)):][:1]
}

// allSlots returns the tenant's slots and the slots of its heavy devices, each first-level key once: a slice and a
// finer one within it may have the same.
func (e compiled) allSlots() []Slot {
	out := slices.Clone(e.Slots)
	for _, slots := range e.Heavy {
		out = append(out, slots...)
	}
	slices.Sort(out)
	seen := make(map[string]bool, len(out))
	return slices.DeleteFunc(out, func(s Slot) bool {
		again := seen[e.shards[s]]
		seen[e.shards[s]] = true
		return again
	})
}

func (p *Placement) containerOf(e compiled, day telemetry.Day) string {
	if e.Dedicated {
		return Container(p.tenant, p.SpanOn(day))
	}
	return Container("", p.SpanOn(day))
}
