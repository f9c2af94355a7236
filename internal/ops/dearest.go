package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/charges"
	"binnacle/internal/control"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
)

// devices returns the dearest devices of a tenant, as far back as weights are kept. Those of a process are written
// every six hours.
func (c *Costs) devices(ctx context.Context, of billedTenant) ([]charges.Dearest, error) {
	month, err := charges.ParseMonth(of.bill.Month, c.now())
	if err != nil {
		return nil, err
	}
	now := c.now()
	from := telemetry.DayOf(max(month.Begin().UnixMilli(), now.Add(-heatlog.KeepWeights).UnixMilli()))
	to := telemetry.DayOf(min(month.End().UnixMilli()-1, now.UnixMilli()))
	reader := heatlog.NewReader(c.client.Heat())
	sums := map[string]*charges.Dearest{}
	add := func(name string, rus float64) {
		if sums[name] == nil {
			sums[name] = &charges.Dearest{Name: name}
		}
		sums[name].RUs += rus
	}
	for day := from; day <= to; day++ {
		all, err := reader.Weights(ctx, day)
		if errors.Is(err, store.ErrNoContainer) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if w.Tenant != of.tenant {
				continue
			}
			for _, d := range w.Devices {
				add(d.Device, d.RUs)
			}
			for _, rus := range w.Rest {
				add(charges.Other, rus)
			}
		}
	}
	return charges.TopDearest(sums, of.top), nil
}

// sampledChunks is how many chunks in each first-level key are read for shares of metrics.
const sampledChunks = 50

// errSampled ends a scan.
var errSampled = errors.New("the sample is large enough")

// metrics shares the RU of a tenant's writes among its metrics by their values, and what it stores by their bytes and
// by the retention of devices, in a sample of the month's last chunks. The least that a chunk costs, and what packs of
// columns save, is shared so too: it is an estimate.
func (c *Costs) metrics(ctx context.Context, of billedTenant, rus float64, out *charges.TenantCost) error {
	month, err := charges.ParseMonth(of.bill.Month, c.now())
	if err != nil || rus == 0 {
		return err
	}
	snapshot, err := control.NewDirectory(control.DirectoryConfig{Documents: c.client.Documents()}).Refresh(ctx)
	if err != nil {
		return err
	}
	t, known := snapshot.Tenant(of.tenant)
	if !known {
		return nil
	}
	to := min(month.End().UnixMilli(), c.now().UnixMilli()+1)
	values, sum := map[string]float64{}, 0.0
	bytes, kept, stored := map[string]float64{}, map[time.Duration]float64{}, 0.0
	for _, from := range []int64{to - 2*telemetry.DayMillis, 0} { // the whole month if its end is empty
		r := telemetry.Range{From: max(from, month.Begin().UnixMilli()), To: to}
		for _, visit := range t.Placement.Visits(nil, r) {
			err := c.sample(ctx, visit, func(x *chunk.Chunk) {
				if h := &x.Header; len(snapshot.Erasures(of.tenant).Of(h.Device, h.ID.Day)) > 0 {
					return
				}
				taken := x.ColumnBytes()
				for i, column := range x.Columns() {
					values[column.Metric] += float64(column.Stats.Values())
					sum += float64(column.Stats.Values())
					bytes[column.Metric] += taken[i]
					kept[t.RetentionOf(x.Header.Device, x.Header.ID.Day)] += taken[i]
					stored += taken[i]
				}
			})
			if err != nil {
				return err
			}
		}
		if sum > 0 {
			break
		}
	}
	shares := map[string]*charges.Dearest{}
	for name, n := range values {
		shares[name] = &charges.Dearest{Name: name, RUs: rus * n / sum, GB: out.GBMonths * bytes[name] / stored}
	}
	out.Metrics = charges.TopDearest(shares, of.top)
	for _, keep := range slices.Sorted(maps.Keys(kept)) {
		k := charges.Kept{Days: keep.Hours() / 24, GB: out.GBMonths * kept[keep] / stored}
		if keep > 0 {
			k.Saves = out.Dollars.Storage * kept[keep] / stored / 2
		}
		out.Retention = append(out.Retention, k)
	}
	return nil
}

// sample reads some chunks of a first-level key.
func (c *Costs) sample(ctx context.Context, visit sharding.Visit, take func(*chunk.Chunk)) error {
	n := 0
	scan := store.Scan{Key: visit.Key, Range: visit.Range, Descending: true}
	_, err := c.client.Chunks().Scan(ctx, scan, func(doc []byte) error {
		x, err := chunk.Parse(doc)
		if err != nil {
			return fmt.Errorf("read a chunk of %s: %w", visit.TenantShard, err)
		}
		take(x)
		if n++; n == sampledChunks {
			return errSampled
		}
		return nil
	})
	if errors.Is(err, errSampled) || errors.Is(err, store.ErrNoContainer) {
		return nil
	}
	return err
}
