package ingest

import (
	"maps"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/ingest/bins"
	"binnacle/internal/charges/ru"
	"binnacle/internal/heat"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// expectation is how tenants' readings are spread over the day, for a forecast. The caller of Forecast owns it.
type expectation struct {
	tenants    map[string]*arrivals
	partitions []*partition // partitions held at the last forecast
	at         time.Time    // time of the last forecast
}

// arrivals is what has come of a tenant in this process, in bytes of documents.
type arrivals struct {
	open float64 // bytes in bins at the last forecast
	day  [heat.Pieces]float64
	last [heat.Pieces]int64 // day of every piece
}

// chunkTerms is the index units of a chunk: its id, and the four properties that are indexed.
const chunkTerms = 5 * ru.Scalar

// Forecast returns the RU that the open bins, and what follows them, are expected to take by the hour. stored is what
// was written since the last forecast, by tenant. It is called by one goroutine, at equal times. With holds below
// worker.LongHold there is no forecast: the next hours do not follow from open bins then.
func (in *Ingester) Forecast(now time.Time, stored map[string]int64) []heat.Expected {
	if in.cfg.Config.WithDefaults().Hold < bins.LongHold {
		return nil
	}
	held := in.held()
	open := map[string]float64{}
	byKey := map[string][]heat.OpenBin{}
	snapshot := in.stores.Directory.Snapshot()
	for _, p := range held {
		p.worker.Bins().VisitOpenBins(func(all []bins.OpenBin) {
			var yesterday bins.OpenBin
			for _, b := range all {
				open[b.Tenant] += b.Bytes
				if b.Day.End() <= now.UnixMilli() && b.Day > yesterday.Day {
					yesterday = b
				}
			}
			tenant, ok := snapshot.Tenant(all[0].Tenant)
			if !ok {
				return
			}
			for _, b := range all {
				o := in.openBin(b, tenant, now)
				if o.Before.To == 0 && b.Day == yesterday.Day+1 {
					o.Before, o.BeforeBytes = heat.Span{From: yesterday.From, To: yesterday.Day.End()}, yesterday.Bytes
				}
				byKey[b.Tenant] = append(byKey[b.Tenant], o)
			}
		})
	}
	in.expected.observe(now, held, arrived{open, stored})
	f := heat.NewForecaster(now.UnixMilli(), func(bytes float64) float64 {
		return ru.Stepped.Write(int(bytes), chunkTerms)
	})
	for tenant, all := range byKey {
		shape := in.expected.shape(tenant, now)
		for i := range all {
			f.Add(&all[i], &shape)
		}
	}
	return f.Forecast().Cells
}

func (in *Ingester) openBin(b bins.OpenBin, tenant tenant.Tenant, now time.Time) heat.OpenBin {
	o := heat.OpenBin{DayEnd: b.Day.End(), Began: b.From, Bytes: b.Bytes, Cutting: b.Cutting}
	if b.Before.To > b.Before.From {
		o.Before, o.BeforeBytes = b.Before, b.Cutting.Target
	}
	o.Due = o.DayEnd + binning.FirstHold(b.Device, in.cfg.Config.WithDefaults().Hold).Milliseconds()
	keys := func(day telemetry.Day, number uint32) (out []heat.Key) {
		n := len(tenant.Placement.Keys(b.Device, day))
		for i := range n {
			k := tenant.Placement.Key(b.Device, day, number+uint32(i))
			out = append(out, heat.KeyOf(k.Container, k.TenantShard))
		}
		return out
	}
	o.Keys = keys(b.Day, b.Number)
	if o.DayEnd > now.UnixMilli() {
		o.Tomorrow = keys(b.Day+1, 0)
	}
	return o
}

// arrived has the bytes that are open now, and the bytes stored since the last time, by tenant.
type arrived struct {
	open   map[string]float64
	stored map[string]int64
}

// observe counts what has come since the last time. Where partitions have come or gone nothing is counted: what is open
// has changed with them.
func (e *expectation) observe(now time.Time, held []*partition, a arrived) {
	if e.tenants == nil {
		e.tenants = map[string]*arrivals{}
	}
	comparable := !e.at.IsZero() && now.Sub(e.at) < 24*time.Hour/heat.Pieces && sameParts(e.partitions, held)
	day := telemetry.DayOf(now.UnixMilli() - 1)
	at := int((now.UnixMilli() - 1 - day.Start()) * heat.Pieces / heat.Day)
	for name := range a.open {
		if e.tenants[name] == nil {
			e.tenants[name] = &arrivals{}
		}
	}
	for name, t := range e.tenants {
		if comparable {
			if t.last[at] != int64(day) {
				t.last[at], t.day[at] = int64(day), 0
			}
			t.day[at] += max(0, a.open[name]-t.open+float64(a.stored[name]))
		}
		t.open = a.open[name]
	}
	maps.DeleteFunc(e.tenants, func(_ string, t *arrivals) bool {
		return t.open == 0 && int64(day)-slices.Max(t.last[:]) > 1
	})
	e.partitions, e.at = held, now
}

func sameParts(a, b []*partition) bool {
	isLost := func(p *partition) bool { return !slices.Contains(b, p) }
	return len(a) == len(b) && !slices.ContainsFunc(a, isLost)
}

// shape returns how a tenant's readings are spread over the day, by the last day; even until a day has been seen.
func (e *expectation) shape(tenant string, now time.Time) heat.Shape {
	t := e.tenants[tenant]
	today := int64(telemetry.DayOf(now.UnixMilli()))
	if t == nil {
		return heat.NewShape([heat.Pieces]float64{})
	}
	for _, day := range t.last {
		if day < today-1 {
			return heat.NewShape([heat.Pieces]float64{})
		}
	}
	return heat.NewShape(t.day)
}
