package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// Register makes a tenant known, with the defaults of the configuration, unless it is known already, and returns a
// snapshot that has it. The tenant document holds the first epoch, so both appear at once. The snapshot was read after
// the document was stored: a writer for the new name sees which containers were expired before.
func (d *Directory) Register(ctx context.Context, name string) (*Snapshot, error) {
	known := d.Snapshot()
	if known.has(name) {
		return known, nil
	}
	if err := telemetry.CheckTenant(name); err != nil {
		return nil, err
	}
	now := d.cfg.Now()
	first := tenant.First{Created: now, Retention: d.cfg.Retention, Epoch: sharding.FirstEpoch(name, d.cfg.Slots),
		Period: known.Period().Period}
	_, err := d.cfg.Documents.Create(ctx, first.Document(name))
	if err != nil && !errors.Is(err, store.ErrExists) {
		return nil, fmt.Errorf("register tenant %s: %w", name, err)
	}
	if err == nil {
		d.cfg.Logger.Info("tenant registered", "tenant", name, "slots", d.cfg.Slots, "retention", d.cfg.Retention)
	}
	v, err := d.refreshUntil(ctx, func(v *Snapshot) bool { return v.has(name) || v.Damaged(name) != nil })
	if err == nil && !v.has(name) {
		err = v.Damaged(name)
	}
	if err != nil {
		return nil, fmt.Errorf("register tenant %s: %w", name, err)
	}
	return v, nil
}

// AddEpoch stores that a tenant is placed differently from a day on. It fails when that day begins
// sooner than the lead from now (rule W1), with store.ErrExists when the tenant has an epoch from that day,
// and when the tenant is unknown. Epochs are never changed. With any other error the outcome is
// unknown, and the same epoch may be added again.
func (d *Directory) AddEpoch(ctx context.Context, name string, e sharding.Epoch) error {
	if _, err := sharding.NewPlacement(name, []sharding.Epoch{e}); err != nil {
		return err
	}
	v, err := d.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := v.Damaged(name); err != nil {
		return fmt.Errorf("epoch of tenant %s: %w", name, err)
	}
	if err := d.cfg.Check(); err != nil {
		return fmt.Errorf("epoch of tenant %s: %w", name, err)
	}
	if !v.has(name) {
		return fmt.Errorf("epoch of tenant %s: no such tenant", name)
	}
	now, start := d.cfg.Now().UTC(), time.UnixMilli(e.From.Start()).UTC()
	if start.Before(now.Add(d.cfg.Lead)) {
		return fmt.Errorf("epoch of tenant %s from %s: that day begins at %s, less than %s after now, %s",
			name, e.From, start.Format(time.RFC3339), d.cfg.Lead, now.Format(time.RFC3339))
	}
	if err := d.createSoon(ctx, tenant.EpochDocument(name, e, now)); err != nil {
		return fmt.Errorf("epoch of tenant %s from %s: %w", name, e.From, err)
	}
	d.cfg.Logger.Info("epoch added", "tenant", name, "from", e.From, "slots", len(e.Slots), "dedicated", e.Dedicated)
	return nil
}

// refreshUntil reads until a copy satisfies ok: a replica may lag behind what was just written.
func (d *Directory) refreshUntil(ctx context.Context, ok func(*Snapshot) bool) (*Snapshot, error) {
	pauses := store.Lagging.Begin()
	for {
		v, err := d.Refresh(ctx)
		if err != nil || ok(v) {
			return v, err
		}
		if err := pauses.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

func (v *Snapshot) has(tenant string) bool {
	_, ok := v.tenants[tenant]
	return ok
}

// Periods returns the periods of containers that are stored for all tenants, in the order of their days.
func (v *Snapshot) Periods() []sharding.PeriodEpoch { return v.periods }

// Period returns what was decided last of containers, for days to come as well: months at first. New tenants begin with
// it.
func (v *Snapshot) Period() sharding.PeriodEpoch {
	if len(v.periods) == 0 {
		return sharding.PeriodEpoch{Period: sharding.Month}
	}
	return v.periods[len(v.periods)-1]
}

// SharedOn returns the container that tenants share on a day: the container of the first tenant without a dedicated
// one, else the one that a new tenant would have.
func (v *Snapshot) SharedOn(day telemetry.Day) string {
	for _, t := range v.Tenants() {
		if !t.Placement.EpochOn(day).Dedicated {
			return t.Placement.ContainerOn(day)
		}
	}
	return sharding.Container("", v.Period().Period.Of(day))
}

// NextPeriod returns what would be stored of containers if it were set at now to be like another period, whatever day
// that begins on: from the first day that begins the lead and the margin after now, and after all days from which on a
// period is stored. It is false where it was decided already.
func (d *Directory) NextPeriod(v *Snapshot, like sharding.PeriodEpoch, now time.Time) (sharding.PeriodEpoch, bool) {
	last := v.Period()
	if last.Period == like.Period && last.Shared == like.Shared {
		return last, false
	}
	like.From = telemetry.DayOf(now.Add(d.cfg.Lead+d.cfg.Margin).UnixMilli()) + 1
	if len(v.periods) > 0 {
		like.From = max(like.From, last.From+1)
	}
	return like, true
}

// SetPeriod stores how long the containers of all tenants are, and whether they share throughput, from a day on that
// NextPeriod says (rule W1). Periods that are stored never change. It costs nothing where the same was decided already.
// After an error the outcome is unknown, and the same may be set again.
func (d *Directory) SetPeriod(ctx context.Context, like sharding.PeriodEpoch) error {
	if !slices.Contains(sharding.Periods, like.Period) {
		return fmt.Errorf("set the period of containers: %q is none", like.Period)
	}
	v, err := d.Refresh(ctx)
	for err == nil {
		now := d.cfg.Now().UTC()
		e, ok := d.NextPeriod(v, like, now)
		if !ok {
			return nil
		}
		if err := d.cfg.Check(); err != nil {
			return fmt.Errorf("set the period of containers: %w", err)
		}
		err = d.createSoon(ctx, tenant.PeriodDocument(e, now))
		if err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("set the period of containers to %s from %s: %w", e.Period, e.From, err)
		}
		// A period that another process has stored counts as soon as this one can read it.
		v, err = d.refreshUntil(ctx, func(v *Snapshot) bool {
			return slices.ContainsFunc(v.periods, func(o sharding.PeriodEpoch) bool { return o.From == e.From })
		})
	}
	return err
}

// createSoon creates an epoch or a period. Its lead counts from the moment it can be read: a create that takes longer
// than the margin allows for must not succeed late.
func (d *Directory) createSoon(ctx context.Context, doc store.Document) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Margin/3)
	defer cancel()
	_, err := d.cfg.Documents.Create(ctx, doc)
	return err
}
