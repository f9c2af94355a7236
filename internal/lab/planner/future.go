package planner

import (
	"math"
	"math/rand/v2"

	"binnacle/internal/charges/ru"
	"binnacle/sharding"
)

// The planner's own figures. docs/reference/cost.md has the bases of peaks, use and rollups.
const (
	// indexShare is the stored bytes over the bytes of the documents.
	indexShare = 1.1
	// use is the utilisation of throughput that follows the load.
	use         = 0.95
	lookUp      = 3.3  // RU for the tail of a chain, before a late chunk
	rollupPanel = 78.0 // RU of a panel from rollups, for each day of its span
	rollupDay   = 1900 // RU of ten metrics of a tenant and a day
	rollupEach  = 9.5  // RU more for each device
	// rollupShare is the bytes of rollups over the bytes of chunks.
	rollupShare = 0.45
	keySeeks    = 5
	prefixSeeks = 4
)

// future is one way in which the workload may turn out.
type future struct {
	fleets                              []drawnFleet
	queries                             []drawnQuery
	growth, retention, regions, tenants float64
	largest                             float64
	// planned is the number of months of the plan, and first the load of the first one.
	planned int
	first   *load
}

type drawnFleet struct {
	devices, late float64
	device        encoded
}

type drawnQuery struct {
	pattern             Pattern
	rate, span, devices float64
}

// draw returns a future; without a source of chance the middle one.
func (p *planner) draw(r *rand.Rand) future {
	at := func() float64 {
		if r == nil {
			return 0
		}
		return place(r)
	}
	w := p.of
	f := future{growth: w.Growth.at(at()), retention: max(aDay, w.Retention.at(at())),
		regions: max(1, math.Round(w.Regions.at(at()))), tenants: max(1, math.Round(w.Tenants.Count.at(at()))),
		largest: w.Tenants.Largest.at(at()), planned: w.Months}
	for i := range w.Fleets {
		x := &w.Fleets[i]
		f.fleets = append(f.fleets, drawnFleet{max(1, x.Devices.at(at())), x.Late.at(at()),
			p.surfaces[i].at(at(), at())})
	}
	for _, q := range w.Queries {
		f.queries = append(f.queries, drawnQuery{q.Pattern, q.Rate.at(at()), q.Span.at(at()), max(1, q.Devices.at(at()))})
	}
	first := f.load(0)
	f.first = &first
	return f
}

// model is a way to keep readings.
type model int

const (
	chunks model = iota
	single
	hundred
	models
)

// load is what a month of a future takes. RU are a second.
type load struct {
	devices, readings, values, documents float64 // documents: chunks a second
	write, query, gb                     [models]float64
	each                                 [models]float64 // RU of one write
	queryEach                            [][models]float64
	panels                               float64 // RU a second of panels from chunks
	rollupWrite, rollupQuery, rollupGB   float64
	peak                                 float64
}

// load returns the load of a month, from 0.
func (f *future) load(month int) load {
	var l load
	grown := math.Pow(1+f.growth, float64(month))
	typical := typical(f)
	for i := range f.fleets {
		x := &f.fleets[i]
		n, e := x.devices*grown, &x.device
		perDay := n / aDay
		l.devices += n
		l.readings += perDay * e.readings
		l.values += perDay * e.values
		late := min(1, x.late*e.readings) // a further chunk of a device and day
		lateBytes := e.overhead + x.late*e.bytes
		l.documents += perDay * (e.chunks + late)
		l.write[chunks] += perDay * (e.rus + late*(chunkWrite(lateBytes)+lookUp))
		l.gb[chunks] += n * 30.4 * (e.bytes + late*lateBytes) * indexShare / 1e9
		l.write[single] += perDay * e.readings * e.singleRUs
		l.gb[single] += n * 30.4 * e.readings * e.single * indexShare / 1e9
		l.write[hundred] += perDay * e.readings / e.perHundred * e.hundredRUs
		l.gb[hundred] += n * 30.4 * e.readings / e.perHundred * e.hundred * indexShare / 1e9
		perTenant := math.Ceil(e.values / max(1, e.readings)) // metrics
		l.rollupWrite += perTenant / 10 * (f.tenants*rollupDay + n*rollupEach) / aDay
	}
	l.each = [models]float64{l.write[chunks] / max(1e-12, l.documents), typical.singleRUs, typical.hundredRUs}
	l.rollupGB = rollupShare * l.gb[chunks]
	// Busiest minute over the mean: 2.5 for 5,000 devices, 1.8 for 50,000.
	l.peak = min(3, max(1.5, 2.5-0.7*math.Log10(l.devices/5000)))
	for _, q := range f.queries {
		each := q.cost(&typical)
		l.queryEach = append(l.queryEach, each)
		for m, rus := range each {
			l.query[m] += q.rate * rus
		}
		if q.pattern == Panel {
			l.panels += q.rate * each[chunks]
			l.rollupQuery += q.rate * q.rollups()
		}
	}
	return l
}

func (q *drawnQuery) rollups() float64 { return rollupPanel * max(1, math.Ceil(q.span/aDay)) }

// cost returns the RU of a query of a device like others, in each model.
func (q *drawnQuery) cost(e *encoded) (out [models]float64) {
	days := q.span / aDay
	documents := [models]float64{days * e.chunks, days * e.readings, days * e.readings / e.perHundred}
	kb := [models]float64{e.bytes / max(1e-12, e.chunks) / 1024, e.single / 1024, e.hundred / 1024}
	for m := range models {
		n, keys, seeks := 1.0, 1.0, keySeeks
		if q.pattern != Latest {
			n = max(1, documents[m])
		}
		if q.pattern == Panel {
			n *= q.devices
			keys, seeks = min(q.devices, sharding.DefaultSlots), prefixSeeks
			if m != chunks {
				keys = 1 // a prefix of the key: the tenant
			}
		}
		out[m] = keys * ru.Stepped.Query(ru.QueryWork{Seeks: seeks, Docs: int(math.Ceil(n / keys)),
			Scattered: max(0, int(n/keys)-seeks) * int(min(1, q.devices-1)), ExtraKB: n / keys * max(0, kb[m]-1)})
	}
	return out
}

// typical returns the figures of a device on average over fleets.
func typical(f *future) (sum encoded) {
	devices := 0.0
	for i := range f.fleets {
		n := f.fleets[i].devices
		devices += n
		for j, field := range f.fleets[i].device.fields() {
			*sum.fields()[j] += n * *field
		}
	}
	for _, field := range sum.fields() {
		*field /= devices
	}
	return sum
}
