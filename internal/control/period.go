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
		if err := d.addPeriod(ctx, e, now); err != nil && !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("set the period of containers to %s from %s: %w", e.Period, e.From, err)
		}
		// A period that another process has stored counts as soon as this one can read it.
		v, err = d.refreshUntil(ctx, func(v *Snapshot) bool {
			return slices.ContainsFunc(v.periods, func(o sharding.PeriodEpoch) bool { return o.From == e.From })
		})
	}
	return err
}

// addPeriod creates the document of a period. The lead counts from the moment it can be read, as that of an epoch does.
func (d *Directory) addPeriod(ctx context.Context, e sharding.PeriodEpoch, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Margin/3)
	defer cancel()
	_, err := d.cfg.Documents.Create(ctx, tenant.PeriodDocument(e, now))
	if err == nil {
		d.cfg.Logger.Info("period of containers added", "from", e.From, "period", e.Period, "shared", e.Shared)
	}
	return err
}
