package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// maxViewAge bounds how old a copy of the map may be that answers for event times which it can't place. A writer
// places readings at most as far ahead as it accepts the future, from a copy no older than its refresh; the lead of an
// epoch exceeds both together and a margin (rule W1). So what a younger copy can't place nobody has written.
const maxViewAge = time.Minute

// plan is where the chunks of an answer can be.
type plan struct {
	tenant control.Tenant
	known  bool // the tenant
	parts  []part
	doubt  bool // a newer copy of the map may show more
}

// part is the visits that share a range: a month of one epoch, cut at the query's ends.
type part struct {
	telemetry.Range
	visits []sharding.Visit
}

// plan finds the parts of a request in the order of the answer. A copy of the map that is older than the heads'
// snapshot may lack a tenant or a container in which rows were stored before the snapshot; where that may be, the map is
// read again (rule R1).
func (q *Querier) plan(ctx context.Context, r Request, taken time.Time) (plan, error) {
	v := q.cfg.Directory.View()
	p := q.planBy(v, r)
	if !p.doubt || v.ReadAt.After(taken) {
		return p, nil
	}
	var err error
	if p.known {
		v, err = q.cfg.Directory.Refresh(ctx)
	} else {
		v, err = q.refreshForStranger(ctx, taken)
	}
	if err != nil {
		return p, unavailable(ctx, "read the map of tenants", err)
	}
	return q.planBy(v, r), nil
}

func (q *Querier) planBy(v *control.View, r Request) plan {
	var p plan
	if p.tenant, p.known = v.Tenant(r.Tenant); !p.known {
		p.doubt = true
		return p
	}
	p.doubt = !v.Places(r.Range.To-1) && q.cfg.Now().Sub(v.ReadAt) > maxViewAge
	months := monthsWithContainers(v, r.Tenant)
	devices := placeable(r.Devices)
	for m := telemetry.MonthOf(r.Range.From); m <= telemetry.MonthOf(r.Range.To-1); m++ {
		of := m.Range()
		if !months[m] { // a range may span thousands of months that nobody has written to
			p.doubt = p.doubt || v.Places(of.From)
			continue
		}
		if devices != nil && len(devices) == 0 {
			continue
		}
		of.From, of.To = max(of.From, r.Range.From), min(of.To, r.Range.To)
		for _, visit := range p.tenant.Placement.Visits(devices, of) {
			if !v.HasContainer(visit.Container) {
				p.doubt = true
				continue
			}
			if n := len(p.parts); n == 0 || p.parts[n-1].Range != visit.Range {
				p.parts = append(p.parts, part{Range: visit.Range})
			}
			last := &p.parts[len(p.parts)-1]
			last.visits = append(last.visits, visit)
		}
	}
	if r.Descending {
		slices.Reverse(p.parts)
	}
	return p
}

// monthsWithContainers is the months for which the shared container or the tenant's own is there.
func monthsWithContainers(v *control.View, tenant string) map[telemetry.Month]bool {
	out := make(map[telemetry.Month]bool)
	for _, c := range v.Containers() {
		if owner, m, ok := sharding.ParseContainer(c.Container); ok && (owner == "" || owner == tenant) && v.HasContainer(c.Container) {
			out[m] = true
		}
	}
	return out
}

// placeable is the devices whose id can be in a key; others have no readings. It keeps nil, which is all devices.
func placeable(devices []string) []string {
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

// strangers holds back queries of unknown tenants, so that made-up names can't hammer the store.
type strangers struct {
	turn chan struct{} // full while no read of the map may be made for a stranger
}

// strangersEvery is the least time between two reads of the map for unknown tenants.
const strangersEvery = time.Second

func newStrangers() strangers { return strangers{make(chan struct{}, 1)} }

// refreshForStranger answers a copy of the map that was read after taken, but reads at most one a second.
func (q *Querier) refreshForStranger(ctx context.Context, taken time.Time) (*control.View, error) {
	select {
	case q.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if v := q.cfg.Directory.View(); v.ReadAt.After(taken) { // somebody else has read it meanwhile
		<-q.turn
		return v, nil
	}
	defer time.AfterFunc(strangersEvery, func() { <-q.turn })
	return q.cfg.Directory.Refresh(ctx)
}

// unavailable is the error of a failed read, unless the caller has gone.
func unavailable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
