// Package tenant has what is stored of a tenant: its settings and limits, how long its readings are kept, where they
// are placed, its tokens and its annotations.
package tenant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Tenant is one tenant: its settings and its placement.
type Tenant struct {
	Name string
	// Retention is the longest of any device, from the end of a reading's day; 0 never ends.
	Retention time.Duration
	Placement *sharding.Placement
	Created   time.Time
	Lookback  time.Duration // how old a sample PromQL takes for the current one; 0: as the service is set
	Queries   QueryLimits
	Ingest    *Ingest // nil: nothing is said
	// Pin is the operator's decision on the placement.
	Pin       sharding.Pin
	Suspended *Suspension // nil: it is not
	Profile

	tagged   taggedTimes
	policies []retentionPolicy // the current one last; nil if the retention is as the tenant was registered with
	set      retentionSet      // zero if none was
	comes    int64             // ms since 1970 UTC: when the first retention after the current one begins; 0: none comes
	known    int64             // ms since 1970 UTC: when the document was read; 0: all that it says counts
}

// Expired reports whether the retention of a day's readings is over at now for all devices, in ms since 1970.
func (t Tenant) Expired(day telemetry.Day, now int64) bool {
	return t.Retention > 0 && now >= t.end(day)
}

// TTL returns the longest time to live of a chunk of a day that is written at now (ms since 1970), in whole seconds as
// Cosmos DB takes them: at least 1, 0 if the retention never ends. It is rounded up, so that nothing vanishes before
// its time.
func (t Tenant) TTL(day telemetry.Day, now int64) int {
	if t.Retention <= 0 {
		return 0
	}
	seconds := (t.end(day) - now + 999) / 1000
	return int(min(max(seconds, 1), math.MaxInt32))
}

// end returns the first millisecond at which the day's readings may be forgotten.
func (t Tenant) end(day telemetry.Day) int64 { return day.End() + t.Retention.Milliseconds() }

// Of joins tenant documents with their epochs, and with the periods of containers. Epochs of tenants that are
// not among them are left out: their tenant document was written while these were being read. before has tenants as
// they were: their placements are renewed. Tenants with a damaged document are left out. A period is every tenant's: a
// damaged one is an error.
func Of(tenants, epochs []store.Document, before map[string]Tenant) (_ map[string]Tenant, broken store.Damage,
	_ error) {
	later := make(map[string][]sharding.Epoch)
	periods, err := PeriodsOf(epochs)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range epochs {
		if isPeriod(d) {
			continue
		}
		var b epochBody
		owner, _, _ := strings.Cut(d.ID, ".")
		if err := d.Decode(&b); err != nil {
			broken.Add(d, err, owner)
			continue
		}
		if d.ID != epochID(b.Tenant, b.Epoch.From) {
			err := fmt.Errorf("%s document %q is about %s", d.Kind, d.ID, epochID(b.Tenant, b.Epoch.From))
			broken.Add(d, err, owner, b.Tenant)
			continue
		}
		later[b.Tenant] = append(later[b.Tenant], b.Epoch)
	}
	out := make(map[string]Tenant, len(tenants))
	for _, d := range tenants {
		tenant, err := placing{later[d.ID], periods, before[d.ID].Placement}.tenantOf(d)
		if err != nil {
			broken.Add(d, err, d.ID)
			continue
		}
		out[d.ID] = tenant
	}
	return out, broken, nil
}

// First is what is stored of a tenant when it is registered.
type First struct {
	Created   time.Time
	Retention time.Duration // 0 never ends
	Epoch     sharding.Epoch
	Period    sharding.Period
}

// Document returns the document of the tenant.
func (f First) Document(name string) store.Document {
	return store.NewDocument(Kind, name, tenantBody{
		Created: f.Created.UnixMilli(), RetentionSeconds: int64((f.Retention + time.Second - 1) / time.Second),
		Epoch: f.Epoch, Period: storedPeriod(f.Period),
	})
}

// storedPeriod returns a period as tenant documents have it: months are not written.
func storedPeriod(p sharding.Period) sharding.Period {
	if p == sharding.Month {
		return ""
	}
	return p
}

// Adopted returns the document of another database's tenant with a placement in this one.
func Adopted(d store.Document, e sharding.Epoch, p sharding.Period) (store.Document, error) {
	body, err := changeBody(d, []Change{{set: func(b *tenantBody) error {
		b.Epoch, b.Period = e, storedPeriod(p)
		return nil
	}}})
	return store.Document{Kind: Kind, ID: d.ID, Body: body}, err
}

// placing is the placement of a tenant from other documents.
type placing struct {
	later   []sharding.Epoch
	periods []sharding.PeriodEpoch
	was     *sharding.Placement // nil for none
}

func (x placing) tenantOf(d store.Document) (tenant Tenant, err error) {
	var b tenantBody
	if err := d.Decode(&b); err != nil {
		return tenant, err
	}
	var p *sharding.Placement
	all := append([]sharding.PeriodEpoch{{Period: b.Period}}, x.periods...)
	if x.was != nil {
		p, err = x.was.Renew(append(x.later, b.Epoch), all...)
	} else {
		p, err = sharding.NewPlacement(d.ID, append(x.later, b.Epoch), all...)
	}
	if err != nil {
		return tenant, fmt.Errorf("%s document %q: %w", d.Kind, d.ID, err)
	}
	tenant = Tenant{
		Name:      d.ID,
		Retention: time.Duration(b.RetentionSeconds) * time.Second,
		Placement: p,
		Created:   time.UnixMilli(b.Created).UTC(),
		Lookback:  time.Duration(b.LookbackSeconds) * time.Second,

		Pin:     b.Pin,
		Profile: b.Profile,
		tagged:  b.Tagged,
	}
	if tenant.policies, err = policiesOf(b); err != nil {
		return tenant, fmt.Errorf("%s document %q: %w", d.Kind, d.ID, err)
	}
	tenant.set = setOf(tenant.policies)
	if n := len(tenant.policies); n > 0 {
		tenant.Retention = tenant.policies[n-1].longest()
	}
	if s := b.Suspended; s != nil {
		tenant.Suspended = &Suspension{time.UnixMilli(s.Since).UTC(), s.Reason}
	}
	tenant.Queries = b.Limits.Query
	if b.Limits.Ingest != (Ingest{}) {
		tenant.Ingest = &b.Limits.Ingest
	}
	return tenant, nil
}

// At returns the tenant as it is for a process that read its document at a time. Changes of retention that come into
// force later may still be taken back, so they do not count (rule X5).
func (t Tenant) At(read time.Time) Tenant {
	t.known = read.UnixMilli()
	if begun := begunBy(t.policies, t.known); len(begun) < len(t.policies) {
		t.policies = slices.Clone(begun)
		last := &t.policies[len(begun)-1]
		t.comes, last.until = last.until, 0
	}
	if n := len(t.policies); n > 0 {
		t.Retention = t.policies[n-1].longest()
	}
	return t
}

// Suspension is since when and why queries of a tenant are refused. Its readings are stored as before.
type Suspension struct {
	Since  time.Time
	Reason string
}

// epochBody is an epoch document: docs/internals/format/control.md.
type epochBody struct {
	Tenant  string         `json:"tenant"`
	Created int64          `json:"created"`
	Epoch   sharding.Epoch `json:"epoch"`
}

// epochID sorts by tenant and day. A tenant's name has no dot.
func epochID(tenant string, from telemetry.Day) string { return tenant + "." + from.String() }

// EpochDocument returns the document of a tenant's epoch.
func EpochDocument(tenant string, e sharding.Epoch, created time.Time) store.Document {
	body := epochBody{Tenant: tenant, Created: created.UnixMilli(), Epoch: e}
	return store.NewDocument(KindEpoch, epochID(tenant, e.From), body)
}

// periodPrefix begins the ids of periods. They are documents of kind epoch, which a tenant's name can't begin like: a
// binary that does not know periods refuses all epochs when it finds one, and so places nothing wrongly.
const periodPrefix = "~period."

// periodBody is a period document: docs/internals/format/control.md.
type periodBody struct {
	Created int64 `json:"created"`
	sharding.PeriodEpoch
}

func isPeriod(d store.Document) bool { return strings.HasPrefix(d.ID, periodPrefix) }

func periodID(from telemetry.Day) string { return periodPrefix + from.String() }

// PeriodsOf returns the periods among documents of kind epoch, in the order of their days.
func PeriodsOf(epochs []store.Document) (out []sharding.PeriodEpoch, err error) {
	for _, d := range epochs {
		if !isPeriod(d) {
			continue
		}
		var b periodBody
		if err := d.Decode(&b); err != nil {
			return nil, err
		}
		if d.ID != periodID(b.From) {
			return nil, fmt.Errorf("%s document %q is about %s", d.Kind, d.ID, periodID(b.From))
		}
		out = append(out, b.PeriodEpoch)
	}
	slices.SortFunc(out, func(a, b sharding.PeriodEpoch) int { return int(a.From) - int(b.From) })
	return out, nil
}

// PeriodDocument returns the document of a period.
func PeriodDocument(e sharding.PeriodEpoch, created time.Time) store.Document {
	return store.NewDocument(KindEpoch, periodID(e.From), periodBody{created.UnixMilli(), e})
}

// ErrNoTenant says that a tenant is not registered.
var ErrNoTenant = errors.New("there is no such tenant")

// Tenants lists tenants and changes what operators may change about them. It holds no state and is safe for any number
// of callers.
type Tenants struct{ docs store.Documents }

// NewTenants makes Tenants over the control documents.
func NewTenants(docs store.Documents) *Tenants { return &Tenants{docs} }

// List returns all tenants, by name.
func (t *Tenants) List(ctx context.Context) ([]Tenant, error) {
	docs, err := t.docs.List(ctx, Kind)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	epochs, err := t.docs.List(ctx, KindEpoch)
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	byName, broken, err := Of(docs, epochs, nil)
	if err := cmp.Or(err, broken.First()); err != nil {
		return nil, err
	}
	out := make([]Tenant, 0, len(docs))
	for _, d := range docs {
		out = append(out, byName[d.ID])
	}
	slices.SortFunc(out, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Set changes a tenant, all in one write. Roles know it when they have read the tenants again. Properties that this
// version does not know stay as they are. It fails with ErrNoTenant if there is no such tenant.
func (t *Tenants) Set(ctx context.Context, name string, changes ...Change) error {
	err := store.Contend(ctx, func() error { return t.set(ctx, name, changes) })
	if err != nil {
		return fmt.Errorf("change tenant %s: %w", name, err)
	}
	return nil
}

// set tries Set once. It fails with store.ErrChanged if another process has changed the tenant since it was read.
func (t *Tenants) set(ctx context.Context, name string, changes []Change) error {
	_, changed, err := t.changed(ctx, name, changes)
	if err == nil {
		_, err = t.docs.Replace(ctx, changed)
	}
	return err
}

// Preview returns a tenant now, and with changes that are all in force. It stores nothing.
func (t *Tenants) Preview(ctx context.Context, name string, changes ...Change) (now, then Tenant, err error) {
	was, will, err := t.changed(ctx, name, changes)
	if err != nil {
		return now, then, fmt.Errorf("change tenant %s: %w", name, err)
	}
	epochs, err := t.docs.List(ctx, KindEpoch)
	if err != nil {
		return now, then, fmt.Errorf("list tenants: %w", err)
	}
	for _, x := range []struct {
		of store.Document
		to *Tenant
	}{{was, &now}, {will, &then}} {
		all, broken, err := Of([]store.Document{x.of}, epochs, nil)
		if err != nil {
			return now, then, err
		}
		if broken.Of(name) {
			return now, then, broken.First()
		}
		*x.to = all[name]
	}
	return now, then, nil
}

func (t *Tenants) changed(ctx context.Context, name string, changes []Change) (was, will store.Document, err error) {
	was, found, err := t.docs.Read(ctx, Kind, name)
	if err != nil {
		return was, will, err
	}
	if !found {
		return was, will, ErrNoTenant
	}
	body, err := changeBody(was, changes)
	if err != nil {
		return was, will, err
	}
	return was, store.Document{Kind: Kind, ID: name, Body: body, ETag: was.ETag}, nil
}
