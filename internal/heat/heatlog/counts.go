// Package heatlog reads and writes the load, through the contract of the store: grids of RU, bytes and 429s by key and
// time, weights of devices by day, what is expected of the next hours. Package heat has the forms.
//
// Whatever fails here harms neither ingest nor queries: heat that can't be written is lost, and counted.
package heatlog

import (
	"math"
	"slices"
	"strings"

	"binnacle/internal/heat"
	"binnacle/sharding"
)

// Bounds of what a process keeps in memory of the load.
const (
	// maxKeys bounds the keys by name; other charges are counted by slot.
	maxKeys = 50_000
	// maxDevices bounds the devices by name, of all tenants.
	maxDevices = 200_000
	// maxBuckets bounds the tenants that also have sums by hash.
	maxBuckets = 64
)

// counts holds the counts by key that are not written yet. Its owner guards it.
type counts struct {
	keys map[shardKey]*counter
}

type shardKey struct{ container, shard string }

type counter struct {
	key     heat.Key
	pending heat.Amount
	since   int64   // ms, when the pending amount began: a whole minute
	taken   int64   // ms, when the amount began that was taken last
	pace    float64 // RU a minute of the last cell that was written
	idle    int     // minutes without a charge
}

func (c *counts) add(charge *heat.Charge, minute int64) {
	at := shardKey{charge.Container, charge.Shard}
	k := c.keys[at]
	if k == nil {
		key := heat.KeyOf(charge.Container, charge.Shard)
		if len(c.keys) >= maxKeys {
			key = key.Rest()
			at = shardKey{charge.Container, string(rune(key.Slot))}
			k = c.keys[at]
		}
		if k == nil {
			k = &counter{key: key}
			c.keys[at] = k
		}
	}
	if k.pending.IsZero() {
		k.since = minute
	}
	k.pending.RUs[charge.Kind] += charge.RUs
	k.pending.Bytes += int64(charge.Bytes)
	if charge.Throttled {
		k.pending.Throttled++
	}
	k.idle = 0
}

// changeShare is the part by which a key's RU must differ from its pace to be written before heat.MaxMinutes are over.
const changeShare = 0.1

// take returns the cells to write at the end of a minute, and removes them. With all it returns every key.
func (c *counts) take(end int64, all bool) (cells []heat.Cell) {
	for at, k := range c.keys {
		minutes := int((end - k.since) / heat.Minute)
		switch {
		case k.pending.IsZero():
			k.pace = 0
			if k.idle++; k.idle > 2*heat.MaxMinutes {
				delete(c.keys, at)
			}
			continue
		case !all && minutes < heat.MaxMinutes && !k.changed(minutes):
			continue
		}
		minutes = max(1, min(minutes, heat.MaxMinutes))
		cells = append(cells, heat.Cell{Key: k.key, Minutes: minutes, Amount: k.pending})
		k.pace, k.taken = k.pending.Total()/float64(minutes), k.since
		k.pending = heat.Amount{}
	}
	return cells
}

// changed reports whether a key differs from what its pace makes of some minutes.
func (k *counter) changed(minutes int) bool {
	expected := k.pace * float64(minutes)
	return k.pending.Throttled > 0 || math.Abs(k.pending.Total()-expected) > changeShare*expected
}

// back counts a cell again that was taken and could not be written.
func (c *counts) back(cell *heat.Cell, end int64) {
	at := shardKey{cell.Container, cell.Shard}
	if cell.Shard == "" {
		at.shard = string(rune(cell.Slot))
	}
	k := c.keys[at]
	if k == nil {
		k = &counter{key: cell.Key}
		c.keys[at] = k
	}
	k.since = end - int64(cell.Minutes)*heat.Minute
	if k.taken > 0 {
		k.since = min(k.since, k.taken)
	}
	k.pending.Add(&cell.Amount)
	k.pace = 0 // it counts as changed
}

// expire takes out what is pending for so long that it would not stand where it belongs, and returns its RU.
func (c *counts) expire(end int64) (rus float64) {
	for _, k := range c.keys {
		if !k.pending.IsZero() && end-k.since > 2*heat.MaxMinutes*heat.Minute {
			rus += k.pending.Total()
			k.pending = heat.Amount{}
		}
	}
	return rus
}

// deviceCounts is the RU of devices since they were last taken, by tenant. Its owner guards it.
type deviceCounts struct {
	tenants map[string]*tenantDevices
	named   int // devices in all
	buckets int // tenants with buckets
}

type tenantDevices struct {
	rus    map[string]float64
	rest   []float64
	others int
	total  float64
}

func (d *deviceCounts) add(tenant, device string, rus float64) {
	t := d.tenants[tenant]
	if t == nil {
		t = &tenantDevices{rus: map[string]float64{}}
		d.tenants[tenant] = t
	}
	t.total += rus
	if _, ok := t.rus[device]; ok {
		t.rus[device] += rus
		return
	}
	if d.named < maxDevices {
		d.named++
		t.rus[device] = rus
		return
	}
	if t.rest == nil {
		if d.buckets >= maxBuckets {
			return // its total counts, its name does not
		}
		d.buckets++
		t.rest = make([]float64, heat.Buckets)
	}
	// A device may be counted here more than once: how many others there are is an upper bound.
	t.rest[sharding.GroupOf(device, heat.Buckets)] += rus
	t.others++
}

// leastShare is the part of a process's RU from which on a tenant's devices are written: half of the percent from which
// on a tenant matters, as a process has more of some tenants than of others.
const leastShare = 0.005

// take returns the weights of tenants that matter, by tenant, and takes all out.
func (d *deviceCounts) take() (out []heat.Weights) {
	all := 0.0
	for _, t := range d.tenants {
		all += t.total
	}
	for name, t := range d.tenants {
		if t.total < leastShare*all || t.total == 0 {
			continue
		}
		w := heat.Weights{Tenant: name, Rest: t.rest, Others: t.others}
		for device, rus := range t.rus {
			w.Devices = append(w.Devices, heat.Weight{Device: device, RUs: rus})
		}
		out = append(out, w)
	}
	*d = deviceCounts{tenants: map[string]*tenantDevices{}}
	slices.SortFunc(out, func(a, b heat.Weights) int { return strings.Compare(a.Tenant, b.Tenant) })
	return out
}
