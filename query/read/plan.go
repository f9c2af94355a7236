package read

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// maxSnapshotAge bounds the age of a snapshot that answers for event times which it can't place. A writer places
// readings at most as far ahead as it accepts the future, by a snapshot no older than its refresh; the lead of an epoch
// exceeds both together and a margin (rule W1). So nothing is stored yet where a younger snapshot can't place.
const maxSnapshotAge = time.Minute

// plan is where the chunks of an answer can be.
type plan struct {
	snapshot *control.Snapshot
	tenant   control.Tenant
	parts    iter.Seq[part] // in the order of the answer; ascending if it has none
}

// part is what has to be scanned for a range: a month of one epoch, cut at the query's ends.
type part struct {
	telemetry.Range
	targets []target
	ordered bool // so few keys that their chunks can be read at the same time, in order
}

// target is what one scan asks for: a full key, or with an empty Device the named devices under a first-level key, all
// if nil.
type target struct {
	sharding.Key
	devices []string
}

// plan returns the parts of a request. A snapshot that is older than the head read may lack a tenant, an epoch or a
// container in which rows were stored before the head read; where that may be it is read again (rule R1). The ingester
// that stored such rows knew the tenant and the container, and its head names them: invented tenants cost nothing.
// Where no heads were asked, the snapshot must be younger than the moment of the request.
func (r *Reader) plan(ctx context.Context, req Request, s headRead) (plan, error) {
	v := r.cfg.Directory.Snapshot()
	if !v.ReadAt.After(s.began) && (r.stale(v, req) || lacksContainer(v, req.Tenant, s.containers) ||
		v.ReadAt.UnixMilli() <= req.AsOf) {
		var err error
		if v, err = r.cfg.Directory.Refresh(ctx); err != nil {
			return plan{}, Unavailable(ctx, "read the snapshot of tenants", err)
		}
	}
	tenant, known := v.Tenant(req.Tenant)
	if !known {
		return plan{snapshot: v, parts: func(func(part) bool) {}}, nil
	}
	return plan{v, tenant, r.parts(v, tenant, req)}, nil
}

// stale reports whether a newer snapshot may place some of the request's event times elsewhere.
func (r *Reader) stale(v *control.Snapshot, req Request) bool {
	_, known := v.Tenant(req.Tenant)
	return known && !v.CanPlace(req.Range.To-1) && r.cfg.Now().Sub(v.ReadAt) > maxSnapshotAge
}

// lacksContainer reports whether a snapshot lacks the tenant, or a container in which chunks of the tenant may lie.
func lacksContainer(v *control.Snapshot, tenant string, containers map[string]bool) bool {
	if _, known := v.Tenant(tenant); !known {
		return len(containers) > 0
	}
	for c := range containers {
		if !v.HasContainer(c) {
			return true
		}
	}
	return false
}

// parts returns the parts of the months that have a container: a range may span thousands of others.
func (r *Reader) parts(v *control.Snapshot, tenant control.Tenant, req Request) iter.Seq[part] {
	devices := possible(req.Devices)
	months := make(map[telemetry.Month]bool)
	for _, c := range v.ContainersOf(req.Tenant, req.Range) {
		if _, m, ok := sharding.ParseContainer(c); ok {
			months[m] = true
		}
	}
	order := slices.Sorted(maps.Keys(months))
	if req.Order == Descending {
		slices.Reverse(order)
	}
	return func(yield func(part) bool) {
		if devices != nil && len(devices) == 0 {
			return
		}
		for _, m := range order {
			parts := r.partsOf(v, tenant.Placement.Visits(devices, within(m, req.Range)), devices != nil)
			if req.Order == Descending {
				slices.Reverse(parts)
			}
			for _, p := range parts {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// within returns the part of a month that lies in a range.
func within(m telemetry.Month, r telemetry.Range) telemetry.Range {
	of := m.Range()
	return telemetry.Range{From: max(of.From, r.From), To: min(of.To, r.To)}
}

// partsOf returns the parts of a month, one for each epoch in it.
func (r *Reader) partsOf(v *control.Snapshot, visits []sharding.Visit, named bool) (parts []part) {
	for _, visit := range visits {
		if !v.HasContainer(visit.Container) {
			continue
		}
		if n := len(parts); n == 0 || parts[n-1].Range != visit.Range {
			parts = append(parts, part{Range: visit.Range})
		}
		last := &parts[len(parts)-1]
		last.targets = append(last.targets, target{Key: visit.Key})
	}
	for i := range parts {
		p := &parts[i]
		if p.ordered = named && len(p.targets) <= r.cfg.Fanout; named && !p.ordered {
			p.targets = grouped(p.targets)
		}
	}
	return parts
}

// grouped returns targets for many devices by their first-level keys: a scan has a price of its own, however little it
// finds.
func grouped(keys []target) []target {
	devices := make(map[sharding.Key][]string)
	var order []sharding.Key
	for _, k := range keys {
		slot := sharding.Key{Container: k.Container, TenantShard: k.TenantShard}
		if devices[slot] == nil {
			order = append(order, slot)
		}
		devices[slot] = append(devices[slot], k.Device)
	}
	var out []target
	for _, slot := range order {
		for names := range slices.Chunk(devices[slot], store.MaxScanDevices) {
			out = append(out, target{slot, names})
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
