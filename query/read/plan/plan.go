// Package plan finds the keys and containers that can hold stored rows of an answer (rule R1), and which of these rows
// a tenant's retention and orders of erasure leave out (rules X1, E-R9).
//
// It must not know heads or the store of chunks.
package plan

import (
	"iter"
	"maps"
	"slices"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
	"binnacle/sharding"
)

// Part is what has to be scanned for a range: a month, cut at the query's ends.
type Part struct {
	telemetry.Range
	Targets []Target
	Ordered bool // so few keys that their chunks can be read at the same time, in order
}

// Target is what one scan asks for: a full key, or with an empty Device the named devices under a first-level key, all
// if nil. Its range spans the days on which the key is in use.
type Target struct {
	sharding.Visit
	Devices []string
}

// parts returns what has to be scanned for the request, in the order of the answer; ascending if it has none: the
// months that have a container, as a range may span thousands of others.
func (v *View) parts() iter.Seq[Part] {
	devices := possible(v.req.Devices)
	months := make(map[telemetry.Month]bool)
	for _, c := range v.Snapshot.ContainersOf(v.req.Tenant, v.req.Range) {
		_, of, ok := sharding.ParseContainer(c)
		for at := piece.Within(of.Range(), v.req.Range); ok && !at.Empty(); at.From = telemetry.MonthOf(at.From).Range().To {
			months[telemetry.MonthOf(at.From)] = true
		}
	}
	order := slices.Sorted(maps.Keys(months))
	if v.req.Order == piece.Descending {
		slices.Reverse(order)
	}
	return func(yield func(Part) bool) {
		if devices != nil && len(devices) == 0 {
			return
		}
		for _, m := range order {
			p := Part{Range: piece.Within(m.Range(), v.req.Range)}
			for _, visit := range v.Tenant.Placement.Visits(devices, p.Range) {
				if v.Snapshot.HasContainer(visit.Container) {
					p.Targets = append(p.Targets, Target{Visit: visit})
				}
			}
			if p.Ordered = devices != nil && len(p.Targets) <= v.cfg.Fanout; devices != nil && !p.Ordered {
				p.Targets = grouped(p.Targets)
			}
			if len(p.Targets) > 0 && !yield(p) {
				return
			}
		}
	}
}

// grouped returns targets for many devices by their first-level keys: a scan costs something however little it
// finds.
func grouped(keys []Target) (out []Target) {
	for _, t := range FirstLevel(keys) {
		slices.Sort(t.Devices)
		for names := range slices.Chunk(t.Devices, store.MaxScanDevices) {
			out = append(out, Target{t.Visit, names})
		}
	}
	return out
}

// FirstLevel returns the first-level keys of targets, each once, with the devices of full keys.
func FirstLevel(targets []Target) (out []Target) {
	places := make(map[sharding.Key]int)
	for _, t := range targets {
		key := sharding.Key{Container: t.Container, TenantShard: t.TenantShard}
		i, known := places[key]
		if !known {
			i = len(out)
			places[key], out = i, append(out, Target{Visit: sharding.Visit{Key: key, Range: t.Range}})
		}
		one := &out[i]
		one.Range = telemetry.Range{From: min(one.Range.From, t.Range.From), To: max(one.Range.To, t.Range.To)}
		if t.Device != "" {
			one.Devices = append(one.Devices, t.Device)
		}
	}
	return out
}

// possible returns the devices with ids that can be in a key; others have no readings. It keeps nil, which is all
// devices.
func possible(devices []string) []string {
	if devices == nil {
		return nil
	}
	out := make([]string, 0, len(devices))
	for _, d := range devices {
		if telemetry.CheckDevice(d) == nil {
			out = append(out, d)
		}
	}
	return out
}
