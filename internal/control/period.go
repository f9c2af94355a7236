package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// periodPrefix begins the ids of periods. They are documents of kind epoch, which a tenant's name can't begin like: a
// binary that does not know periods refuses all epochs when it finds one, and so places nothing wrongly.
const periodPrefix = "~period."

// periodBody is a period document: docs/format/control.md.
type periodBody struct {
	Created int64 `json:"created"`
	sharding.PeriodEpoch
}

func isPeriod(d Document) bool { return strings.HasPrefix(d.ID, periodPrefix) }

func periodID(from telemetry.Day) string { return periodPrefix + from.String() }

// periodsOf returns the periods among documents of kind epoch, in the order of their days.
func periodsOf(epochs []Document) (out []sharding.PeriodEpoch, err error) {
	for _, d := range epochs {
		if !isPeriod(d) {
			continue
		}
		var b periodBody
		if err := decode(d, &b); err != nil {
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

// Periods returns the periods of containers that are stored for all tenants, in the order of their days.
func (v *Snapshot) Periods() []sharding.PeriodEpoch { return v.periods }

// Period returns the period of containers that was decided last, of days to come as well. New tenants begin with it.
func (v *Snapshot) Period() sharding.Period {
	if len(v.periods) == 0 {
		return sharding.Month
	}
	return v.periods[len(v.periods)-1].Period
}

// SharedOn returns the container that tenants share on a day: that of the first tenant that has no containers of its
// own then, else the one that a new tenant would have.
func (v *Snapshot) SharedOn(day telemetry.Day) string {
	for _, t := range v.Tenants() {
		if !t.Placement.EpochOn(day).Dedicated {
			return t.Placement.ContainerOn(day)
		}
	}
	return sharding.Container("", v.Period().Of(day))
}

// NextPeriod returns how long containers would be, and from which day on, if a period were set at now: the first day
// that begins the lead and the margin after it, and after all days from which on a period is stored. It is false where
// the period was decided already.
func (d *Directory) NextPeriod(v *Snapshot, period sharding.Period, now time.Time) (e sharding.PeriodEpoch, ok bool) {
	if v.Period() == period {
		return e, false
	}
	e = sharding.PeriodEpoch{From: telemetry.DayOf(now.Add(d.cfg.Lead+d.cfg.Margin).UnixMilli()) + 1, Period: period}
	if n := len(v.periods); n > 0 {
		e.From = max(e.From, v.periods[n-1].From+1)
	}
	return e, true
}

// SetPeriod stores how long the containers of all tenants are from a day on, which NextPeriod says (rule W1). Periods
// that are stored never change. It costs nothing where the period was decided already. After an error the outcome is
// unknown, and the same period may be set again.
func (d *Directory) SetPeriod(ctx context.Context, period sharding.Period) error {
	if !slices.Contains(sharding.Periods, period) {
		return fmt.Errorf("set the period of containers: %q is none", period)
	}
	v, err := d.Refresh(ctx)
	for err == nil {
		now := d.cfg.Now().UTC()
		e, ok := d.NextPeriod(v, period, now)
		if !ok {
			return nil
		}
		if err := d.addPeriod(ctx, e, now); err != nil && !errors.Is(err, ErrExists) {
			return fmt.Errorf("set the period of containers to %s from %s: %w", e.Period, e.From, err)
		}
		// What another process has stored meanwhile counts, as soon as this one can read it.
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
	body := periodBody{Created: now.UnixMilli(), PeriodEpoch: e}
	_, err := d.cfg.Documents.Create(ctx, newDocument(KindEpoch, periodID(e.From), body))
	if err == nil {
		d.cfg.Logger.Info("period of containers added", "from", e.From, "period", e.Period)
	}
	return err
}
