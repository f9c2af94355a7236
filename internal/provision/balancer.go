package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
	"binnacle/sharding/balance"
)

// BalancerConfig is what a Balancer needs. Epochs, Decisions and Loads have no default.
type BalancerConfig struct {
	Epochs    *control.Directory
	Decisions *control.Decisions
	Loads     Loads
	Lease     *control.Leases  // nil for none
	Actions   *control.Actions // nil for none
	Advise    bool             // decisions are stored, and no epoch is
	// From is the time of day, UTC, from which the next day is decided.
	From time.Duration
	// Lead is the time before their day by which epochs are stored.
	Lead   time.Duration `default:"4h"`
	Every  time.Duration `default:"5m"` // between two rounds
	Now    func() time.Time
	Logger *slog.Logger
}

// Balancer has epochs of tomorrow decided, and stores them. A decision is stored before its epochs, and both are only
// ever created: a process that dies at any step leaves the rest to the next one, and two at once do no harm.
type Balancer struct{ cfg BalancerConfig }

// NewBalancer returns a Balancer.
func NewBalancer(cfg BalancerConfig) *Balancer {
	settings.Defaults(&cfg)
	return &Balancer{cfg}
}

// LeaseName is the lease of the process that makes months and decides epochs.
const LeaseName = "provision"

// Run does a round now and then, until ctx ends; then it returns nil.
func (b *Balancer) Run(ctx context.Context) error {
	loop := retry.Loop{Spends: true, Every: b.cfg.Every, Log: b.cfg.Logger, Over: "placement of tomorrow is decided",
		Failing: "placement of tomorrow not decided in full"}
	return loop.Run(ctx, b.Round)
}

// Round decides, for each container, the next day that can be decided now, and stores the epochs that are missing.
func (b *Balancer) Round(ctx context.Context) error {
	now := b.cfg.Now().UTC()
	today := telemetry.DayOf(now.UnixMilli())
	day := today + 1
	start := time.UnixMilli(day.Start()).UTC()
	since := now.Sub(time.UnixMilli(today.Start()).UTC())
	if since < b.cfg.From || now.After(start.Add(-b.cfg.Lead)) {
		return nil // it is too early, or the epochs would be known too late
	}
	if held, err := b.cfg.Lease.Take(ctx, LeaseName, leaseLength); err != nil || !held {
		return err
	}
	v, err := b.cfg.Epochs.Refresh(ctx)
	if err != nil {
		return err
	}
	byContainer := map[string][]tenant.Tenant{}
	for _, t := range v.Tenants() {
		name := t.Placement.ContainerOn(day)
		byContainer[name] = append(byContainer[name], t)
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(byContainer)) {
		if err := b.container(ctx, placing{name, day, today, byContainer[name]}); err != nil {
			faults = append(faults, fmt.Errorf("placement in %s from %s: %w", name, day, err))
		}
	}
	return errors.Join(faults...)
}

func (b *Balancer) container(ctx context.Context, at placing) error {
	like := control.Decision{Container: at.container, Day: at.day, Advice: b.cfg.Advise}
	d, found, err := b.cfg.Decisions.Find(ctx, like)
	if err != nil {
		return err
	}
	if !found {
		var known bool
		if d, known, err = b.decide(ctx, at); err != nil || !known {
			return err
		}
		err = b.cfg.Decisions.Store(ctx, d)
		if errors.Is(err, store.ErrExists) { // another process was faster
			d, found, err = b.cfg.Decisions.Find(ctx, like)
			if err == nil && !found {
				err = errors.New("the decision of another process can't be read yet")
			}
		}
		if err != nil {
			return err
		}
		b.cfg.Logger.InfoContext(ctx, "placement decided", "container", at.container, "from", at.day, "advice", d.Advice,
			"tenants", len(d.Changes), "hottest_before", d.Before, "hottest_after", d.After)
	}
	if d.Advice {
		return nil
	}
	return b.apply(ctx, d, at)
}

// decide returns a new decision; known is false where nothing is known of the load yet.
func (b *Balancer) decide(ctx context.Context, at placing) (d control.Decision, known bool, err error) {
	d = control.Decision{Container: at.container, Day: at.day, Created: b.cfg.Now().UnixMilli(), Advice: b.cfg.Advise}
	in, err := b.cfg.Loads.input(ctx, at, b.cfg.Now())
	if errors.Is(err, store.ErrNoContainer) {
		return d, false, nil // it is made when it is needed, or its month has not come
	}
	if err != nil {
		return d, false, err
	}
	out := balance.Decide(in)
	d.Partitions, d.Before, d.After, d.Changes = out.Partitions, out.Before, out.After, out.Changes
	return d, out.Load > 0, nil
}

// apply stores the epochs of a decision that are not stored yet.
func (b *Balancer) apply(ctx context.Context, d control.Decision, at placing) error {
	stored := make(map[string]bool, len(at.tenants))
	for _, t := range at.tenants {
		stored[t.Name] = t.Placement.EpochOn(d.Day).From == d.Day
	}
	var faults []error
	for _, c := range d.Changes {
		has, known := stored[c.Tenant]
		if has || !known {
			continue
		}
		faults = append(faults, b.add(ctx, c))
	}
	return errors.Join(faults...)
}

// add stores an epoch, and has it known as an action.
func (b *Balancer) add(ctx context.Context, c sharding.EpochChange) error {
	add := func(*control.Action) error {
		err := b.cfg.Epochs.AddEpoch(ctx, c.Tenant, c.Epoch)
		if errors.Is(err, store.ErrExists) { // another process was faster
			return nil
		}
		return err
	}
	return b.cfg.Actions.Do(ctx, control.Action{Verb: "epoch add", Object: c.Epoch.From.String(),
		Tenant: c.Tenant, Detail: map[string]string{
			"reason": c.Reason, "keys": strconv.Itoa(c.KeysAfter), "keys_before": strconv.Itoa(c.KeysBefore),
			"hottest_before": fmt.Sprintf("%.3g", c.Before), "hottest_after": fmt.Sprintf("%.3g", c.After),
		}}, add)
}
