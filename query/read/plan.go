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

// part is what has to be scanned for a range: a month, cut at the query's ends.
type part struct {
	telemetry.Range
	targets []target
	ordered bool // so few keys that their chunks can be read at the same time, in order
}

// target is what one scan asks for: a full key, or with an empty Device the named devices under a first-level key, all
// if nil. Its range is that of the days on which the key is in use.
type target struct {
	sharding.Visit
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
	if err := v.Damaged(req.Tenant); err != nil {
		return plan{}, err
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
		_, of, ok := sharding.ParseContainer(c)
		for at := within(of.Range(), req.Range); ok && !at.Empty(); at.From = telemetry.MonthOf(at.From).Range().To {
			months[telemetry.MonthOf(at.From)] = true
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
			p := part{Range: within(m.Range(), req.Range)}
			for _, visit := range tenant.Placement.Visits(devices, p.Range) {
				if v.HasContainer(visit.Container) {
					p.targets = append(p.targets, target{Visit: visit})
				}
			}
			if p.ordered = devices != nil && len(p.targets) <= r.cfg.Fanout; devices != nil && !p.ordered {
				p.targets = grouped(p.targets)
			}
			if len(p.targets) > 0 && !yield(p) {
				return
			}
		}
	}
}

// within returns the part of a range that lies in another one.
func within(r, other telemetry.Range) telemetry.Range {
	return telemetry.Range{From: max(r.From, other.From), To: min(r.To, other.To)}
}

// grouped returns targets for many devices by their first-level keys: a scan has a price of its own, however little it
// finds.
func grouped(keys []target) (out []target) {
	for _, t := range firstLevel(keys) {
		slices.Sort(t.devices)
		for names := range slices.Chunk(t.devices, store.MaxScanDevices) {
			out = append(out, target{t.Visit, names})
		}
	}
	return out
}

// firstLevel returns the first-level keys of targets, each once, with the devices of full keys.
func firstLevel(targets []target) (out []target) {
	places := make(map[sharding.Key]int)
	for _, t := range targets {
		key := sharding.Key{Container: t.Container, TenantShard: t.TenantShard}
		i, known := places[key]
		if !known {
			i = len(out)
			places[key], out = i, append(out, target{Visit: sharding.Visit{Key: key, Range: t.Range}})
		}
		of := &out[i]
		of.Range = telemetry.Range{From: min(of.Range.From, t.Range.From), To: max(of.Range.To, t.Range.To)}
		if t.Device != "" {
			of.devices = append(of.devices, t.Device)
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
