// Package plan finds the keys and containers that can hold stored rows of an answer (rule R1), and which of these rows
// a tenant's retention and orders of erasure leave out (rules X1, E-R9).
//
// It must not know heads or the store of chunks.
package plan

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
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

// Directory keeps the snapshot of tenants, placements and containers, as control.Directory does.
type Directory interface {
	// Snapshot returns the newest snapshot, never nil.
	Snapshot() *control.Snapshot
	// Refresh reads the snapshot again; it includes everything stored before the call.
	Refresh(ctx context.Context) (*control.Snapshot, error)
}

// maxSnapshotAge bounds the age of a snapshot that answers for event times which it can't place. A writer places
// readings at most as far ahead as it accepts the future, by a snapshot no older than its refresh; the lead of an epoch
// exceeds both together and a margin (rule W1). So nothing is stored yet where a younger snapshot can't place.
const maxSnapshotAge = time.Minute

// maxOrdersAge bounds the age of the orders of erasure that a query begins with (rule E-R9).
const maxOrdersAge = 5 * time.Second

// Config is what views need.
type Config struct {
	Directory Directory
	Fanout    int // scans of one query at the same time
	Now       func() time.Time
}

// View is what one query knows of its tenant: by the snapshot in use at first, from Follow on by the query's own.
type View struct {
	Tenant   tenant.Tenant
	Snapshot *control.Snapshot
	Parts    iter.Seq[Part]

	cfg      Config
	req      *piece.Request
	now      time.Time // the query's begin: the same days are hidden for all of it
	soon     int64     // chunks that expire before may vanish while they are read
	orders   erasure.List
	ordersOf *control.Snapshot // the snapshot of the orders of erasure; nil: the tenant was not known
}

// Begin returns a view of the tenant of a request, with orders of erasure that are not older than maxOrdersAge.
// Of a tenant that is not known there are none: names that are made up cost nothing.
func Begin(ctx context.Context, c Config, req *piece.Request) (*View, error) {
	now := c.Now()
	v := &View{cfg: c, Snapshot: c.Directory.Snapshot(), req: req, now: now, soon: now.Add(time.Minute).UnixMilli()}
	if err := v.Snapshot.Damaged(req.Tenant); err != nil {
		return nil, err
	}
	var known bool
	if v.Tenant, known = v.Snapshot.Tenant(req.Tenant); !known {
		return v, nil
	}
	if now.Sub(v.Snapshot.ReadAt) > maxOrdersAge {
		if err := v.refresh(ctx, "read the orders of erasure"); err != nil {
			return nil, err
		}
		v.Tenant, _ = v.Snapshot.Tenant(req.Tenant)
	}
	v.takeOrders(v.Snapshot)
	return v, nil
}

// Seen is what heads know before the store is read.
type Seen struct {
	At         time.Time       // before they were asked
	Containers map[string]bool // where chunks may lie
	Heads      []store.PartitionHead
}

// Follow takes a snapshot that is not older than what heads have seen allows, and plans the request. A snapshot that is
// older than the head read may lack a tenant, an epoch or a container in which rows were stored before the head read;
// where that may be it is read again (rule R1). The ingester that stored such rows knew the tenant and the container,
// and its head names them: invented tenants cost nothing. Where no heads were asked, the snapshot must be younger than
// the moment of the request.
func (v *View) Follow(ctx context.Context, s Seen) error {
	v.Snapshot = v.cfg.Directory.Snapshot()
	if v.lacks(s) || !v.Snapshot.ReadAt.After(s.At) &&
		(v.isStale() || v.Snapshot.ReadAt.UnixMilli() <= v.req.AsOf) {
		if err := v.refresh(ctx, "read the snapshot of tenants"); err != nil {
			return err
		}
	}
	if err := v.Snapshot.Damaged(v.req.Tenant); err != nil {
		return err
	}
	v.Tenant, _ = v.Snapshot.Tenant(v.req.Tenant)
	v.Plan()
	wasUnknown := v.ordersOf == nil
	v.takeOrders(v.Snapshot)
	if wasUnknown && v.Acknowledged() > 0 {
		return piece.Unavailable(ctx, "read the orders of erasure", errNewOrders)
	}
	return nil
}

// errNewOrders says that heads were asked without orders, because the tenant was not known yet.
var errNewOrders = errors.New("the tenant was not known: repeat the query")

// Plan plans the request, as it is by now.
func (v *View) Plan() {
	if v.Parts = func(func(Part) bool) {}; v.Tenant.Placement != nil {
		v.Parts = v.parts()
	}
}

// refresh reads the snapshot again.
func (v *View) refresh(ctx context.Context, what string) (err error) {
	if v.Snapshot, err = v.cfg.Directory.Refresh(ctx); err != nil {
		return piece.Unavailable(ctx, what, err)
	}
	return v.Snapshot.Damaged(v.req.Tenant)
}

// isStale reports whether a newer snapshot may place some of the request's event times elsewhere.
func (v *View) isStale() bool {
	_, known := v.Snapshot.Tenant(v.req.Tenant)
	return known && !v.Snapshot.CanPlace(v.req.Range.To-1) && v.cfg.Now().Sub(v.Snapshot.ReadAt) > maxSnapshotAge
}

// lacks reports whether the snapshot lacks the tenant, a container in which chunks of the tenant may lie, or a stream.
func (v *View) lacks(s Seen) bool {
	if _, known := v.Snapshot.Tenant(v.req.Tenant); !known {
		return len(s.Containers) > 0
	}
	for c := range s.Containers {
		if !v.Snapshot.HasContainer(c) {
			return true
		}
	}
	for i := range s.Heads {
		if _, known := v.Snapshot.Streams[s.Heads[i].Stream]; !known {
			return true
		}
	}
	return false
}

// Hides reports whether a day of a device must not be answered, as the tenant's retention does not show it (rule X1).
func (v *View) Hides(device string, day telemetry.Day) bool {
	return v.Tenant.Hides(device, day, v.now.UnixMilli())
}

// HidesSome reports whether the first day of the request is hidden, of a device that it asks for.
func (v *View) HidesSome() bool {
	first, _ := v.req.Days()
	if v.req.Devices == nil {
		return v.Tenant.HidesAny(first, v.now.UnixMilli())
	}
	return slices.ContainsFunc(v.req.Devices, func(device string) bool { return v.Hides(device, first) })
}

// IsExpiring reports whether chunks of a device and day may vanish one by one.
func (v *View) IsExpiring(device string, day telemetry.Day) bool {
	return v.Tenant.ExpiredOf(device, day, v.soon)
}

// HasContainer reads the snapshot again, and reports whether it has a container.
func (v *View) HasContainer(ctx context.Context, container string) (bool, error) {
	now, err := v.cfg.Directory.Refresh(ctx)
	if err != nil {
		return false, piece.Unavailable(ctx, "read the snapshot of tenants", err)
	}
	return now.HasContainer(container), nil
}

// takeOrders takes the orders of erasure of a snapshot, unless those in use are as new (rule E-R9). It reports whether
// more of them are acknowledged.
func (v *View) takeOrders(s *control.Snapshot) (more bool) {
	if v.ordersOf != nil && !s.ReadAt.After(v.ordersOf.ReadAt) {
		return false
	}
	before := v.Acknowledged()
	v.ordersOf, v.orders = s, s.Erasures(v.req.Tenant)
	return v.Acknowledged() != before
}

// Orders returns the tenant's orders of erasure, acknowledged or not, as the query knows them.
func (v *View) Orders() erasure.List { return v.orders }

// Acknowledged returns how many orders of erasure are acknowledged. There are only ever more.
func (v *View) Acknowledged() (n int) {
	for _, o := range v.orders {
		if o.IsAcknowledged() {
			n++
		}
	}
	return n
}

// ErasedInHeads returns the orders of erasure for heads that are asked for the request.
func (v *View) ErasedInHeads() (out []store.HeadErasure) {
	for _, o := range v.orders {
		if !o.IsAcknowledged() || o.From.Start() >= v.req.Range.To || o.To.Start() <= v.req.Range.From {
			continue
		}
		one := store.HeadErasure{Device: o.Device, From: o.From, To: o.To}
		for _, p := range o.Positions() {
			one.Positions = append(one.Positions,
				store.HeadPosition{Stream: p.Stream, Partition: p.Partition, Offset: p.Through})
		}
		out = append(out, one)
	}
	return out
}

// IsErased reports whether nothing of a chunk may be answered, by the newest orders that the process knows: it is
// erased, or has been. HasNew is true if the query had fewer orders before: a piece that it has delivered may have been
// erased.
func (v *View) IsErased(h *chunk.Header) (erased, hasNew bool) {
	hasNew = v.takeOrders(v.cfg.Directory.Snapshot())
	if h.Readings == 0 || len(v.orders) == 0 {
		return h.Readings == 0, hasNew
	}
	at := erasure.Partition{Stream: h.ID.Stream, Partition: h.ID.Partition}
	return h.Through <= v.orders.Through(h.Device, h.ID.Day, at), hasNew
}
