package heat_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"binnacle/internal/heat"
)

// fleet is devices of mixed pace that report as they like: what a forecast is held against. It knows nothing of
// forecasts, and cuts as ingesters do.
type fleet struct {
	devices  []device
	tenants  int
	behavior behavior
	now      int64 // ms; the fleet's first day is that of now, and the one before it
}

type behavior struct {
	name              string
	diurnal, silences bool
}

type device struct {
	tenant int
	pace   float64 // bytes a ms
	phase  float64 // part of the hold
	place  float64 // of its key in the hash space, 0 to 1
	silent [2]int64
	noise  uint64
}

const (
	target    = 31 << 10
	alone     = 1.25 * target
	holdMs    = 12 * heat.Hour
	sizeError = 0.02
)

// charged is what a create of so many bytes is charged: the table of sizes, a line between its rows.
func charged(bytes float64) float64 {
	kb := []float64{0, 1, 2, 4, 8, 16, 32, 64}
	units := []float64{26, 26, 33, 35, 37, 50, 59, 119}
	i := min(max(1, sort.SearchFloat64s(kb, bytes/1024)), len(kb)-1)
	part := (bytes/1024 - kb[i-1]) / (kb[i] - kb[i-1])
	return (units[i-1] + part*(units[i]-units[i-1]) + 10) * 4 / 21
}

func newFleet(n int, b behavior, now int64, r *rand.Rand) fleet {
	f := fleet{tenants: 10, behavior: b, now: now}
	for range n {
		d := device{tenant: r.IntN(f.tenants), phase: r.Float64(), place: r.Float64(), noise: r.Uint64()}
		seconds := 300.0
		switch x := r.Float64(); {
		case x < 0.1:
			seconds = 1
		case x < 0.4:
			seconds = 10
		case x < 0.8:
			seconds = 60
		}
		d.pace = 10 * 0.8 / seconds / 1000 * math.Exp(0.15*r.NormFloat64())
		if b.silences && r.Float64() < 0.1 {
			from := now + int64((r.Float64()*18-12)*float64(heat.Hour))
			d.silent = [2]int64{from, from + int64(r.ExpFloat64()*4*float64(heat.Hour))}
		}
		f.devices = append(f.devices, d)
	}
	return f
}

// activity returns how much a device reports by half hour, of its mean, from the day before now on.
func (f *fleet) activity(d *device) (out [4 * heat.Pieces]float64) {
	r := rand.New(rand.NewPCG(d.noise, 1))
	level := 1.0
	midnight := f.now - f.now%heat.Day - heat.Day
	for k := range out {
		if k%heat.Pieces == 0 {
			level = math.Exp(0.05 * r.NormFloat64())
		}
		a := level * (1 + 0.05*r.NormFloat64())
		if f.behavior.diurnal {
			a *= 1 + 0.6*math.Sin(2*math.Pi*(float64(k)/heat.Pieces+float64(d.tenant)/float64(f.tenants)))
		}
		at := midnight + int64(k)*heat.Day/heat.Pieces
		if at >= d.silent[0] && at < d.silent[1] {
			a = 0
		}
		out[k] = max(0, a)
	}
	return out
}

// cut is a chunk that is created.
type cut struct {
	at   int64
	rus  float64
	rest bool
}

// run cuts a device's bins of the day before now, of its day and of the next. It returns what is cut after now, and the
// bins that are open then.
func (f *fleet) run(d *device, activity *[4 * heat.Pieces]float64) (cuts []cut, open []heat.OpenBin) {
	const piece = heat.Day / heat.Pieces
	noise := rand.New(rand.NewPCG(d.noise, 2))
	midnight := f.now - f.now%heat.Day - heat.Day
	var before heat.Span
	size := 0.0
	for day := range int64(3) {
		start := midnight + day*heat.Day
		end := start + heat.Day
		due := end + int64(d.phase*float64(holdMs))
		limit := func() float64 { return target * (1 + sizeError*noise.NormFloat64()) }
		fill, began, most, held := 0.0, start, limit(), heat.OpenBin{Began: start}
		held.Before, held.BeforeBytes = before, size
		for at := start; at < end; {
			until := min(end, (at/piece+1)*piece)
			if at < f.now && f.now < until {
				until = f.now
			}
			rate := d.pace * activity[(at-midnight)/piece]
			if need := (most - fill) / max(rate, 1e-12); float64(at)+need > float64(until) {
				fill += rate * float64(until-at)
				at = until
			} else {
				at += max(1, int64(need))
				fill = most
				if most < alone*0.99 && fill+fill/float64(max(1, at-began))*float64(end-at) <= alone {
					most = alone
					continue
				}
				if at > f.now {
					cuts = append(cuts, cut{at: at, rus: charged(fill)})
				}
				before, size = heat.Span{From: began, To: at}, fill
				fill, began, most = 0, at, limit()
			}
			if at == f.now {
				held = heat.OpenBin{Bytes: fill, Began: began, Before: before, BeforeBytes: size}
			}
		}
		if fill > 0 && due > f.now {
			cuts = append(cuts, cut{due, charged(fill), true})
		}
		if end <= f.now {
			held = heat.OpenBin{Bytes: fill, Began: began}
			before, size = heat.Span{}, 0.0
			if due <= f.now {
				continue // nothing is known of the day before any more
			}
			before, size = heat.Span{From: began, To: end}, fill
		}
		if start <= f.now {
			held.DayEnd, held.Due = end, due
			open = append(open, held)
		}
	}
	return cuts, open
}

// yesterday returns what each tenant's devices sent in the half hours of the day before now.
func (f *fleet) yesterday() [][heat.Pieces]float64 {
	out := make([][heat.Pieces]float64, f.tenants)
	for i := range f.devices {
		d := &f.devices[i]
		activity := f.activity(d)
		for k := range heat.Pieces {
			out[d.tenant][k] += d.pace * activity[k]
		}
	}
	return out
}

// layout returns the first points of n equal partitions, after so many splits.
func layout(n, splits int, r *rand.Rand) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i) / float64(n)
	}
	for range splits {
		p := r.IntN(len(out))
		end := 1.0
		if p+1 < len(out) {
			end = out[p+1]
		}
		out = slices.Insert(out, p+1, out[p]+(end-out[p])*(1+r.Float64())/3)
	}
	return out
}

func partitionAt(layout []float64, place float64) int {
	return sort.Search(len(layout), func(i int) bool { return layout[i] > place }) - 1
}
