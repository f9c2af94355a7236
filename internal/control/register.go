package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// Register makes a tenant known, with the defaults of the configuration, unless it is known already, and returns a
// snapshot that has it. The tenant document holds the first epoch, so both appear at once. The snapshot was read after
// the document was stored: a writer for the new tenant sees which containers were expired before.
func (d *Directory) Register(ctx context.Context, tenant string) (*Snapshot, error) {
	known := d.Snapshot()
	if known.has(tenant) {
		return known, nil
	}
	if err := telemetry.CheckTenant(tenant); err != nil {
		return nil, err
	}
	now := d.cfg.Now()
	body := tenantBody{
		Created:          now.UnixMilli(),
		RetentionSeconds: int64((d.cfg.Retention + time.Second - 1) / time.Second),
		Epoch:            sharding.FirstEpoch(tenant, d.cfg.Slots),
	}
	if p := known.Period().Period; p != sharding.Month {
		body.Period = p
	}
	_, err := d.cfg.Documents.Create(ctx, newDocument(KindTenant, tenant, body))
	if err != nil && !errors.Is(err, ErrExists) {
		return nil, fmt.Errorf("register tenant %s: %w", tenant, err)
	}
	if err == nil {
		d.cfg.Logger.Info("tenant registered", "tenant", tenant, "slots", d.cfg.Slots, "retention", d.cfg.Retention)
	}
	v, err := d.refreshUntil(ctx, func(v *Snapshot) bool { return v.has(tenant) || v.Damaged(tenant) != nil })
	if err == nil && !v.has(tenant) {
		err = v.Damaged(tenant)
	}
	if err != nil {
		return nil, fmt.Errorf("register tenant %s: %w", tenant, err)
	}
	return v, nil
}

// AddEpoch stores that a tenant is placed differently from a day on. It fails when that day begins
// sooner than the lead from now (rule W1), with ErrExists when the tenant has an epoch from that day,
// and when the tenant is unknown. Epochs are never changed. With any other error the outcome is
// unknown, and the same epoch may be added again.
func (d *Directory) AddEpoch(ctx context.Context, tenant string, e sharding.Epoch) error {
	if _, err := sharding.NewPlacement(tenant, []sharding.Epoch{e}); err != nil {
		return err
	}
	v, err := d.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := v.Damaged(tenant); err != nil {
		return fmt.Errorf("epoch of tenant %s: %w", tenant, err)
	}
	if err := d.cfg.Check(); err != nil {
		return fmt.Errorf("epoch of tenant %s: %w", tenant, err)
	}
	if !v.has(tenant) {
		return fmt.Errorf("epoch of tenant %s: no such tenant", tenant)
	}
	now, start := d.cfg.Now().UTC(), time.UnixMilli(e.From.Start()).UTC()
	if start.Before(now.Add(d.cfg.Lead)) {
		return fmt.Errorf("epoch of tenant %s from %s: that day begins at %s, less than %s after now, %s",
			tenant, e.From, start.Format(time.RFC3339), d.cfg.Lead, now.Format(time.RFC3339))
	}
	// The lead counts from the moment the epoch can be read: a create that takes longer than the margin
	// allows for must not succeed late.
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Margin/3)
	defer cancel()
	body := epochBody{Tenant: tenant, Created: now.UnixMilli(), Epoch: e}
	if _, err := d.cfg.Documents.Create(ctx, newDocument(KindEpoch, epochID(tenant, e.From), body)); err != nil {
		return fmt.Errorf("epoch of tenant %s from %s: %w", tenant, e.From, err)
	}
	d.cfg.Logger.Info("epoch added", "tenant", tenant, "from", e.From, "slots", len(e.Slots), "dedicated", e.Dedicated)
	return nil
}

// refreshUntil reads until a copy satisfies ok: a replica may lag behind what was just written.
func (d *Directory) refreshUntil(ctx context.Context, ok func(*Snapshot) bool) (*Snapshot, error) {
	pauses := lagging.Begin()
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
