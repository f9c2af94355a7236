package provision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/heat"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
	"binnacle/sharding/balance"
	"binnacle/sharding/epk"
)

// Ranges reads the physical partitions of a container; *cosmos.Client is one.
type Ranges interface {
	RangesOf(ctx context.Context, container string) ([]epk.Range, error)
}

// Heat reads the load; *heatlog.Reader is one.
type Heat interface {
	Frames(ctx context.Context, span heat.Span) ([]heat.Frame, error)
	Weights(ctx context.Context, day telemetry.Day) ([]heat.Weights, error)
}

// Loads makes what the balancer decides by: ranges, and the load of the last 24 hours and eight days.
type Loads struct {
	Ranges Ranges
	Heat   Heat
}

const (
	week = 7
	// bytesPerRU is what a request unit stores in documents of 32 KB, which store most.
	bytesPerRU = 32 << 10 / 13.1
	// fullGrowth is the growth of a full key from which on it may fill within a month, in bytes a day.
	fullGrowth = 0.2e9
)

// placing is a container and a day to be decided.
type placing struct {
	container  string
	day, today telemetry.Day
	tenants    []tenant.Tenant
}

// input returns the balancer's input for a container and day. It fails with store.ErrNoContainer without one.
func (l Loads) input(ctx context.Context, at placing, now time.Time) (in balance.Input, err error) {
	in = balance.Input{Day: at.day, Measured: at.today}
	if in.Ranges, err = l.Ranges.RangesOf(ctx, at.container); err != nil {
		return in, err
	}
	owner, _, _ := sharding.ParseContainer(at.container)
	measured := sharding.Container(owner, at.tenants[0].Placement.SpanOn(at.today))
	hour := now.UnixMilli() / heat.Hour * heat.Hour
	span := heat.Span{From: hour + heat.Hour - heat.Day, To: hour + heat.Hour, Step: heat.Minute}
	hours, err := l.Heat.Frames(ctx, span)
	if errors.Is(err, store.ErrNoContainer) {
		return in, nil
	}
	if err != nil {
		return in, err
	}
	span.Step = heat.Day
	loads := byTenant(heat.NewGrid(measured, span, hours))
	days, err := l.days(ctx, at)
	if err != nil {
		return in, err
	}
	devices, err := l.devices(ctx, at.today)
	if err != nil {
		return in, err
	}
	for _, t := range at.tenants {
		x := balance.Tenant{Name: t.Name, Placement: t.Placement, Pin: t.Pin, Keys: loads[t.Name], Days: days[t.Name]}
		x.Fan = fanOf(x.Keys)
		if d := devices[t.Name]; d != nil {
			x.Devices, x.Rest = d.list, d.rest
			in.Full = append(in.Full, fullKeys(t, d.list, at.today)...)
		}
		in.Tenants = append(in.Tenants, x)
	}
	return in, nil
}

// byTenant returns the load of first-level keys by tenant.
func byTenant(g heat.Grid) map[string][]balance.Key {
	out := map[string][]balance.Key{}
	for i := range g.Rows {
		row := &g.Rows[i]
		if row.Shard == "" {
			continue // the least loads, of several tenants together
		}
		sum := row.Total()
		writes := sum.RUs[heat.ChunkWrites]
		out[row.Tenant()] = append(out[row.Tenant()],
			balance.Key{Shard: row.Shard, Writes: writes, Others: sum.Total() - writes})
	}
	return out
}

// fanOf returns about what a key costs its readers a day: no more than the key that is read least.
func fanOf(keys []balance.Key) float64 {
	if len(keys) == 0 {
		return 0
	}
	return slices.MinFunc(keys, func(a, b balance.Key) int { return int(a.Others - b.Others) }).Others
}

// days returns the RU of tenants by day, the newest first: today, which has not ended, and seven before it.
func (l Loads) days(ctx context.Context, at placing) (map[string][]float64, error) {
	first := at.today - week
	span := heat.Span{From: first.Start(), To: (at.today + 1).Start(), Step: heat.Day}
	frames, err := l.Heat.Frames(ctx, span)
	if err != nil {
		return nil, err
	}
	out := map[string][]float64{}
	for _, f := range frames {
		day := int(at.today - telemetry.DayOf(f.From))
		if day < 0 || day > week {
			continue
		}
		for i := range f.Cells {
			c := &f.Cells[i]
			if _, _, ok := sharding.ParseContainer(c.Container); !ok || c.Shard == "" {
				continue
			}
			if out[c.Tenant()] == nil {
				out[c.Tenant()] = make([]float64, week+1)
			}
			out[c.Tenant()][day] += c.Total()
		}
	}
	return out, nil
}

// deviceLoads is the load of a tenant's devices.
type deviceLoads struct {
	list []balance.Device
	rest []float64
}

// devices returns the loads of devices of the last whole day, and what they were in the week that it ends.
func (l Loads) devices(ctx context.Context, today telemetry.Day) (map[string]*deviceLoads, error) {
	out := map[string]*deviceLoads{}
	index := map[string]map[string]int{}
	for back := telemetry.Day(1); back <= week; back++ {
		all, err := l.Heat.Weights(ctx, today-back)
		if err != nil {
			return nil, fmt.Errorf("weights of %s: %w", today-back, err)
		}
		for _, w := range all {
			d := out[w.Tenant]
			if d == nil {
				if back > 1 {
					continue // too light to be listed by now
				}
				d = &deviceLoads{rest: w.Rest}
				out[w.Tenant], index[w.Tenant] = d, map[string]int{}
			}
			d.add(w, index[w.Tenant], back == 1)
		}
	}
	for _, d := range out {
		for i := range d.list {
			d.list[i].Usual /= week
		}
	}
	return out, nil
}

func (d *deviceLoads) add(w heat.Weights, index map[string]int, newest bool) {
	for _, x := range w.Devices {
		i, ok := index[x.Device]
		if !ok {
			i = len(d.list)
			index[x.Device] = i
			d.list = append(d.list, balance.Device{Name: x.Device})
		}
		at := &d.list[i]
		if newest {
			at.RUs = x.RUs
		}
		at.Usual, at.Peak = at.Usual+x.RUs, max(at.Peak, x.RUs)
	}
}

// fullKeys returns the devices that may fill a logical partition. What they store follows from what they are charged:
// no document stores more for a request unit than a full one.
func fullKeys(t tenant.Tenant, devices []balance.Device, today telemetry.Day) (out []balance.FullKey) {
	elapsed := float64(today - t.Placement.SpanOn(today).First)
	for _, d := range devices {
		if growth := max(d.Usual, d.RUs) * bytesPerRU; growth > fullGrowth {
			out = append(out, balance.FullKey{Tenant: t.Name, Device: d.Name, Bytes: growth * elapsed, Growth: growth})
		}
	}
	return out
}
