package control

import (
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// Snapshot is a copy of the control documents: which tenants there are, where they are placed, and which
// containers were asked for. It never changes and is safe for any number of callers.
type Snapshot struct {
	// ReadAt is when the read began: the snapshot has all documents that were stored before. Zero before the first
	// read.
	ReadAt time.Time
	// Streams are the streams of all topics by number. Of one with a damaged document the rest may be wrong.
	Streams map[uint32]stream.Stream

	placeable time.Duration // how far after ReadAt event times may be placed
	tenants   map[string]tenant.Tenant
	months    map[string]Month
	periods   []sharding.PeriodEpoch

	limited   bool // a tenant says something of its readings
	maxMonths int
	backfills map[string]Backfill
	erasures  map[string]erasure.List
	damage    []*store.DamagedError
	hasCopies bool
}

// HasCopies reports whether `tenant copy` may create chunks that no ingester knows (rule T1).
func (v *Snapshot) HasCopies() bool { return v.hasCopies }

// Tenant returns a tenant, and whether it is registered.
func (v *Snapshot) Tenant(name string) (tenant.Tenant, bool) {
	t, ok := v.tenants[name]
	return t.At(v.ReadAt), ok
}

// LimitsIngest reports whether a tenant says something of its readings that is not as the role is set.
func (v *Snapshot) LimitsIngest() bool { return v.limited }

// Tenants returns all tenants, by name.
func (v *Snapshot) Tenants() []tenant.Tenant {
	out := make([]tenant.Tenant, 0, len(v.tenants))
	for _, name := range slices.Sorted(maps.Keys(v.tenants)) {
		out = append(out, v.tenants[name].At(v.ReadAt))
	}
	return out
}

// Month returns the month of a container, without a state if none is stored.
func (v *Snapshot) Month(name string) Month {
	m := v.months[name]
	m.Container = name
	return m
}

// HasContainer reports whether a container was asked for and is not expired. It says nothing about
// whether provision has made it yet. One with a damaged document is read, since it may be there.
func (v *Snapshot) HasContainer(name string) bool {
	m, ok := v.months[name]
	return ok && (m.State == MonthAsked || m.State == monthDamaged)
}

// MayServe reports whether a container was asked for and not dropped since: readings of its month may wait for it.
func (v *Snapshot) MayServe(name string) bool {
	m, ok := v.months[name]
	return ok && m.State != MonthDropped
}

// Expired reports whether a container is about to be dropped or is gone: a writer that needs it must not write to it,
// but ask for it (Directory.AskMonth) and wait until this is false. A chunk that is created in it may go with it.
func (v *Snapshot) Expired(name string) bool {
	m, ok := v.months[name]
	return ok && m.State != MonthAsked
}

// Containers returns the months of all containers that were ever asked for, by container name.
func (v *Snapshot) Containers() []Month {
	out := make([]Month, 0, len(v.months))
	for _, name := range slices.Sorted(maps.Keys(v.months)) {
		out = append(out, v.months[name])
	}
	return out
}

// ContainersOf returns the containers that may hold chunks of a tenant with rows in a range, in no order: of containers
// that HasContainer reports. None if the tenant is not known.
func (v *Snapshot) ContainersOf(tenant string, r telemetry.Range) []string {
	if _, known := v.tenants[tenant]; !known {
		return nil
	}
	var out []string
	for name := range v.months {
		owner, month, ok := sharding.ParseContainer(name)
		if !ok || owner != "" && owner != tenant || !v.HasContainer(name) {
			continue
		}
		if of := month.Range(); of.From < r.To && of.To > r.From {
			out = append(out, name)
		}
	}
	return out
}

// CanPlace reports whether this copy may place readings of an event time, in ms since 1970 (rule W1). An
// epoch that the copy does not have begins at least the lead after the copy was read, so it can't cover
// an earlier event time. For later ones the copy must be read again first.
func (v *Snapshot) CanPlace(eventTime int64) bool {
	return !v.ReadAt.IsZero() && eventTime < v.PlacesBelow()
}

// PlacesBelow returns the event time below which CanPlace is true, if the copy was read.
func (v *Snapshot) PlacesBelow() int64 { return v.ReadAt.Add(v.placeable).UnixMilli() }

// Erasures returns the orders about a tenant, in the order of their ids. Void ones are left out.
func (v *Snapshot) Erasures(tenant string) erasure.List { return v.erasures[tenant] }

// AllErasures returns the orders about all tenants, in the order of their ids: the oldest comes first. Void ones are
// left out.
func (v *Snapshot) AllErasures() (all erasure.List) {
	for _, list := range v.erasures {
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b *erasure.Order) int { return strings.Compare(a.ID, b.ID) })
	return all
}
