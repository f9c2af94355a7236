package control

import (
	"context"
	"errors"
	"fmt"
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
	// The lead counts from the moment the epoch can be read: a create that takes longer than the margin
	// allows for must not succeed late.
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Margin/3)
	defer cancel()
	if _, err := d.cfg.Documents.Create(ctx, tenant.EpochDocument(name, e, now)); err != nil {
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
