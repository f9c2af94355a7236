package erase

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"binnacle/binning/rollup"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// clearing takes rollups away that may show what an order erases (rule E-R10): no round makes some meanwhile. All that
// it knows is in the store.
type clearing struct {
	*Sweeper
	order  *erasure.Order
	tenant tenant.Tenant
	*clearState
}

// run takes rollups away, and reports whether there were none when they were looked for.
func (c *clearing) run(ctx context.Context, v *control.Snapshot) (isClear bool, err error) {
	days := telemetry.Range{From: c.order.From.Start(), To: c.order.To.Start()}
	isClear = true
	for _, container := range slices.Sorted(slices.Values(v.ContainersOf(c.order.Tenant, days))) {
		_, span, _ := sharding.ParseContainer(container)
		part := telemetry.Range{From: max(days.From, span.Range().From), To: min(days.To, span.Range().To)}
		shards := map[string]bool{} // a shard's days are looked at together
		for _, visit := range c.tenant.Placement.VisitsOf(c.order.Device, part) {
			if visit.Container != container || shards[visit.TenantShard] {
				continue
			}
			shards[visit.TenantShard] = true
			one, err := c.shard(ctx, store.RollupKey{Container: sharding.RollupsContainer(container),
				TenantShard: visit.TenantShard}, part)
			if errors.Is(err, store.ErrNoContainer) {
				continue
			}
			if err != nil {
				return false, fmt.Errorf("clear rollups of %s in %s: %w", visit.TenantShard, container, err)
			}
			isClear = isClear && one
		}
	}
	return isClear, nil
}

// shard removes rollups of a first-level key. A batch shows a device if its series index names it, which is stored
// before the rest of it.
func (c *clearing) shard(ctx context.Context, key store.RollupKey, part telemetry.Range) (isClear bool, err error) {
	days := map[telemetry.Day]bool{}
	hasManifest, err := c.manifests(ctx, key, part, days)
	if err != nil {
		return false, err
	}
	for _, name := range []string{rollup.SeriesIndexKey, rollup.CorrectionsKey} {
		key.Name = name
		err := c.scan(ctx, key, part, func(d *rollup.Document) {
			if c.shows(d) {
				days[d.Day] = true
			}
		})
		if err != nil {
			return false, err
		}
	}
	for _, day := range slices.Sorted(maps.Keys(days)) {
		if err := c.day(ctx, key, day, hasManifest[day]); err != nil {
			return false, err
		}
	}
	return len(days) == 0, nil
}

// manifests returns the days that have a manifest, and adds to days those where it names a device of the order.
func (c *clearing) manifests(ctx context.Context, key store.RollupKey, part telemetry.Range,
	days map[telemetry.Day]bool) (all map[telemetry.Day]bool, err error) {
	all = map[telemetry.Day]bool{}
	key.Name = rollup.ManifestKey
	scan := store.RollupScan{Key: key, Range: part, Charge: func(rus float64) error { return c.pay(ctx, rus) }}
	_, err = c.cfg.Rollups.ScanRollups(ctx, scan, func(doc []byte) error {
		m, err := rollup.ParseManifest(doc)
		if err != nil {
			return err
		}
		if all[m.Day] = true; len(manifestNames(m, c.order)) > 0 {
			days[m.Day] = true
		}
		return nil
	})
	return all, err
}

func manifestNames(m *rollup.Manifest, order *erasure.Order) (out []string) {
	out = slices.Collect(maps.Keys(m.Raw))
	for _, b := range m.Batches {
		out = append(out, b.Devices...)
	}
	return slices.DeleteFunc(out, func(device string) bool { return !order.Matches(device, m.Day) })
}

// shows reports whether a series index names a device that the order is about.
func (c *clearing) shows(d *rollup.Document) bool {
	isNamed := func(s rollup.Series) bool { return s.Device == c.order.Device }
	return c.order.Matches(c.order.Device, d.Day) &&
		(c.order.Device == "" || slices.ContainsFunc(d.SeriesIndex, isNamed))
}

// day removes all rollups of a day, which are then made anew: the manifest first, and series indexes last, so that the
// rest is found after a crash. A manifest that no replica has shown goes too, and does not count.
func (c *clearing) day(ctx context.Context, key store.RollupKey, day telemetry.Day, hasManifest bool) error {
	key.Name = rollup.ManifestKey
	if err := c.remove(ctx, key, rollup.ManifestID(day), hasManifest); err != nil {
		return err
	}
	type place struct{ key, id string }
	var indexes, others []place
	key.Name = ""
	err := c.scan(ctx, key, telemetry.Range{From: day.Start(), To: day.End()}, func(d *rollup.Document) {
		switch {
		case d.Day != day:
		case d.Key == rollup.SeriesIndexKey:
			indexes = append(indexes, place{d.Key, d.ID})
		default:
			others = append(others, place{d.Key, d.ID})
		}
	})
	if err != nil {
		return err
	}
	for _, p := range append(others, indexes...) { // while an index stays, the rest is found again
		key.Name = p.key
		if err := c.remove(ctx, key, p.id, true); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a document, and notes it as removed if it is there.
func (c *clearing) remove(ctx context.Context, key store.RollupKey, id string, isThere bool) error {
	receipt, err := c.cfg.Rollups.DeleteRollup(ctx, key, id)
	if err != nil {
		return err
	}
	if isThere {
		at := store.RollupKey{Container: key.Container, TenantShard: key.TenantShard}
		if c.removed[at] == nil {
			c.removed[at] = map[string]bool{}
		}
		c.removed[at][id] = true
	}
	return c.pay(ctx, receipt.RUs)
}

func (c *clearing) scan(ctx context.Context, key store.RollupKey, r telemetry.Range,
	yield func(*rollup.Document)) error {
	s := store.RollupScan{Key: key, Range: r, Charge: func(rus float64) error { return c.pay(ctx, rus) }}
	_, err := c.cfg.Rollups.ScanRollups(ctx, s, func(doc []byte) error {
		d, err := rollup.Parse(slices.Clone(doc))
		if err == nil {
			yield(d)
		}
		return err
	})
	return err
}
