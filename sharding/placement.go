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

// Placement is one tenant's epochs, ready for use. It is immutable and safe for any number of callers.
type Placement struct {
	tenant string
	epochs []compiled // by From; the first one covers everything before the second
}

type compiled struct {
	Epoch
	shards map[Slot]string
}

// NewPlacement makes a tenant's placement of its epochs, in any order. There must be at least one;
// the earliest is taken to cover all days before the next, whatever its From is.
func NewPlacement(tenant string, epochs []Epoch) (*Placement, error) {
	if len(epochs) == 0 {
		return nil, fmt.Errorf("tenant %q has no epoch", tenant)
	}
	p := &Placement{tenant: tenant}
	shards := make(map[Slot]string)
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
		p.epochs = append(p.epochs, c)
	}
	return p, nil
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
// answer as long as the epochs that cover the day are known (rule W1).
func (p *Placement) Key(device string, day telemetry.Day, number uint32) Key {
	e := p.on(day)
	slots := e.slotsOf(device)
	return Key{p.containerOf(e, day.Month()), e.shards[slots[int(number)%len(slots)]], device}
}

// Keys returns every key under which chunks of a device and day may live, in the order of the numbers that they take:
// one for most devices.
func (p *Placement) Keys(device string, day telemetry.Day) []Key {
	e := p.on(day)
	container := p.containerOf(e, day.Month())
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

// Holds reports whether chunks of a device and day may live under a key. A key without a device stands for all that
// share its first level.
func (p *Placement) Holds(key Key, device string, day telemetry.Day) bool {
	e := p.on(day)
	return key.Container == p.containerOf(e, day.Month()) &&
		slices.ContainsFunc(e.slotsOf(device), func(s Slot) bool { return e.shards[s] == key.TenantShard })
}

// Uses reports whether chunks of any device and a day may live under the first level of a key.
func (p *Placement) Uses(key Key, day telemetry.Day) bool {
	e := p.on(day)
	return key.Container == p.containerOf(e, day.Month()) &&
		slices.ContainsFunc(e.allSlots(), func(s Slot) bool { return e.shards[s] == key.TenantShard })
}

// Visit is one place that a query must read: a full key, or with an empty Device all devices of a
// tenant in one slot of one container. Range spans all days on which the key is in use; between them may be days of
// epochs that do not use it (Holds). Its bounds are midnights unless they are the query's own.
type Visit struct {
	Key
	Range telemetry.Range
}

// Visits returns every place that can hold a chunk with rows in r: of these devices, or of all when devices is nil.
// Each key is there once, however many epochs use it. The order is that of the first days.
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
		end := min(r.To, day.Month().Range().To)
		if next, ok := p.after(day); ok {
			end = min(end, next.Start())
		}
		part := telemetry.Range{From: r.From, To: end}
		container := p.containerOf(e, day.Month())
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

// on returns the epoch that covers a day.
func (p *Placement) on(day telemetry.Day) compiled {
	i, found := slices.BinarySearchFunc(p.epochs, day, func(e compiled,
		d telemetry.Day) int {
		return cmp.Compare(e.From, d)
	})
	if !found {
		i--
	}
	return p.epochs[max(i, 0)]
}

// after returns the day on which the epoch that follows the one of day begins.
func (p *Placement) after(day telemetry.Day) (telemetry.Day, bool) {
	for _, e := range p.epochs[1:] {
		if e.From > day {
			return e.From, true
		}
	}
	return 0, false
}

// slotsOf returns the slots of one device, in the order in which its chunks take them.
func (e compiled) slotsOf(device string) []Slot {
	if heavy := e.Heavy[device]; len(heavy) > 0 {
		return heavy
	}
	return e.Slots[GroupOf(device, len(e.Slots)):][:1]
}

// allSlots returns the tenant's slots and those of its heavy devices, each first-level key once: a slice and a
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

// containerOf returns the container of the chunks of a month in an epoch.
func (p *Placement) containerOf(e compiled, m telemetry.Month) string {
	if e.Dedicated {
		return Container(p.tenant, m)
	}
	return Container("", m)
}
