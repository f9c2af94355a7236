package heatlog

import (
	"math"

	"binnacle/internal/heat"
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

// add counts a charge in the minute that began at minute.
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
