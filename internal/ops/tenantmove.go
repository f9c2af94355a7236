package ops

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/internal/text/duration"
	"binnacle/sharding"
)

// moveLead is how long before its first day a move must be given, at least: epochs must be known by then.
const moveLead = 3 * time.Hour

// The placements of a tenant.
const (
	placementShared    = "shared"
	placementDedicated = "dedicated"
)

func placementText(e sharding.Epoch) string {
	if e.Dedicated {
		return placementDedicated
	}
	return placementShared
}

// move stores a tenant's readings of a day, and of later ones, in containers of the tenant, or in containers that it
// shares with others. Nothing is copied: queries read both. Without a day it is the first of the next container.
func (o tenantOperator) move(ctx context.Context, name, placement, from string) error {
	if placement != placementShared && placement != placementDedicated {
		return unfit("placement %q: must be %s or %s", placement, placementShared, placementDedicated)
	}
	if err := o.check(ctx, name); err != nil {
		return err
	}
	directory := o.directory()
	v, err := directory.Refresh(ctx)
	if err == nil {
		err = o.checkClock(ctx)
	}
	if err != nil {
		return err
	}
	t, known := v.Tenant(name)
	if !known {
		return fmt.Errorf("tenant %s: %w", name, tenant.ErrNoTenant)
	}
	now := time.Now()
	day := nextContainer(t.Placement, now)
	if from != "" {
		var begins bool
		if day, begins, err = duration.ParseDayOf(from, now); err != nil || !begins {
			return unfit("from %q: must be a UTC day such as 2026-12-01", from)
		}
	}
	e, err := movedEpoch(t.Placement, placement == placementDedicated, day)
	if err != nil {
		return unfitError{err}
	}
	if earliest := now.Add(moveLead); day.Start() < earliest.UnixMilli() {
		return unfit("%s begins less than %s from now: ingesters may have stored readings of it; take a later day",
			dayText(day), moveLead)
	}
	if e.Dedicated {
		tenants := v.Tenants()
		i := slices.IndexFunc(tenants, func(x tenant.Tenant) bool { return x.Name == name })
		if tenants[i].Placement, err = sharding.NewPlacement(name, append(t.Placement.Epochs(), e)); err != nil {
			return err
		}
		if err := checkContainers(v, tenants); err != nil {
			return fmt.Errorf("tenant %s can't have containers of its own: %w", name, err)
		}
	}
	a := control.Action{Verb: "tenant move", Tenant: name,
		Detail: map[string]string{"placement": placement, "from": dayText(day)}}
	return o.actions.Do(ctx, a, func(*control.Action) error { return directory.AddEpoch(ctx, name, e) })
}

// nextContainer returns the first day of the first container of a tenant for which a move can still be given.
func nextContainer(p *sharding.Placement, now time.Time) telemetry.Day {
	day := telemetry.DayOf(p.SpanOn(telemetry.DayOf(now.UnixMilli())).Range().To)
	if day.Start() < now.Add(moveLead).UnixMilli() {
		day = telemetry.DayOf(p.SpanOn(day).Range().To)
	}
	return day
}

// movedEpoch returns the epoch of a move: with the keys that the tenant has by then.
func movedEpoch(p *sharding.Placement, dedicated bool, from telemetry.Day) (sharding.Epoch, error) {
	epochs := p.Epochs()
	last := epochs[len(epochs)-1]
	switch {
	case last.Dedicated == dedicated && len(epochs) == 1:
		return last, fmt.Errorf("the tenant is placed so already")
	case last.Dedicated == dedicated:
		return last, fmt.Errorf("the tenant is placed so already, or will be from %s on", dayText(last.From))
	case from <= last.From && len(epochs) > 1:
		return last, fmt.Errorf("its keys change on %s: a move must begin later", dayText(last.From))
	}
	return sharding.Epoch{From: from, Slots: slices.Clone(last.Slots), Heavy: maps.Clone(last.Heavy),
		Dedicated: dedicated}, nil
}

// MoveTenant is what `binnacle tenant move` works with.
type MoveTenant struct {
	Tenant    string `arg:"" help:"Name of the tenant."`
	Placement string `arg:"" help:"dedicated: containers of its own; shared: those of all other tenants." enum:"dedicated,shared"`
	From      string `help:"First UTC day of event times that is stored there. Default: the first one of the next container." placeholder:"YYYY-MM-DD"`

	Output `kong:"embed"`
}

// Run places a tenant in its own containers, or in shared ones, from a day on, and prints the tenant.
func (cfg MoveTenant) Run(ctx context.Context, client *cosmos.Client, env Env) error {
	o := cfg.on(client, env)
	return o.changed(ctx, cfg.Tenant, nil, o.move(ctx, cfg.Tenant, cfg.Placement, cfg.From))
}

func (r tenantRequest) moveTenant() (int, any, error) {
	var to struct{ Placement, From string }
	if err := r.body(&to); err != nil {
		return 0, nil, err
	}
	return r.changed(nil, r.move(r.Context(), r.tenant, to.Placement, to.From))
}
