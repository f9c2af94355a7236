package planner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Way compares a way to buy with the others. Dollars are a month's, on average over the months of the plan.
type Way struct {
	Way  string `json:"way"`
	With string `json:"with,omitempty"` // containers and rollups
	Figure
	More float64 `json:"more_than_the_cheapest"`
	// Why says why a way can't be had.
	Why string `json:"why_not,omitempty"`
	// Pays says for how many devices like these the way is the cheapest: without reservations and the free tier, with
	// reservations for those, with the free tier for it.
	Pays string `json:"pays"`
}

// compare fills in what each way to buy costs with its best containers, the cheapest first, and where it begins to pay.
func (p *Plan) compare(all []outcome, regrets []float64, middle *future) {
	average := func(i int) func(*outcome) float64 {
		return func(x *outcome) float64 { return x.dollars[i] / float64(p.Workload.Months) }
	}
	pays := middle.pays(p.Workload.Months - 1)
	var lacking []Way
	for _, w := range ways {
		i := bestOf(w, regrets)
		o := options()[i]
		c := Way{Way: string(w), Pays: pays[w], Figure: named(string(w), "$", Assumed)}
		if math.IsInf(regrets[i], 1) {
			c.Why = cmp.Or(p.Workload.leavesOut(w), middle.fault(p.Workload.Months-1, o), "it can't be had in each future")
			lacking = append(lacking, c)
			continue
		}
		c.With, c.Figure = o.with(), over(all, c.Figure, average(i))
		p.Ways = append(p.Ways, c)
	}
	slices.SortStableFunc(p.Ways, func(a, b Way) int { return cmp.Compare(a.P50, b.P50) })
	for i := range p.Ways {
		p.Ways[i].More = p.Ways[i].P50 - p.Ways[0].P50
	}
	p.Ways = append(p.Ways, lacking...)
	for _, months := range spans {
		o := option{p.option.way, p.option.rollups, months}
		p.Spans = append(p.Spans, over(all, named(o.span(), "$", Assumed), average(slices.Index(options(), o))))
	}
}

// bestOf returns the index of the option with the least regret of a way.
func bestOf(w way, regrets []float64) (best int) {
	best = -1
	for i, o := range options() {
		if o.way == w && (best < 0 || regrets[i] < regrets[best]-fraction) {
			best = i
		}
	}
	return best
}

// fault returns why an option can't be had in a month, or is not made; "" where it can.
func (f *future) fault(month int, o option) string {
	if o.months == allTime {
		return "provision makes containers of a year at most"
	}
	l := f.load(month)
	return f.under(&l, month, o, chunks).fault()
}

// scaled returns the future with times as many devices that are asked for as often each.
func (f *future) scaled(times float64) future {
	g := *f
	g.fleets, g.queries = slices.Clone(f.fleets), slices.Clone(f.queries)
	for i := range g.fleets {
		g.fleets[i].devices *= times
	}
	for i := range g.queries {
		g.queries[i].rate *= times
	}
	first := g.load(0)
	g.first = &first
	return g
}

// cheapest returns the cheapest option of a month among those that provision makes, without some ways.
func (f *future) cheapest(l *load, month int, without func(way) bool) (best option) {
	least := math.Inf(1)
	for _, o := range options() {
		if without(o.way) || o.months == allTime {
			continue
		}
		h := f.under(l, month, o, chunks)
		if h.fault() != "" {
			continue
		}
		if d := h.bill().total(); d < least-fraction {
			best, least = o, d
		}
	}
	return best
}

// fraction is the difference of dollars that counts as none.
const fraction = 1e-6

// The fleets for which ways are compared: each has a tenth more devices than the one before.
const (
	fewestDevices, mostDevices = 1, 1e8
	fleetStep                  = 1.1
)

// pays says for how many devices each way is the cheapest: of those without a condition, with reservations, and with
// the free tier.
func (f *future) pays(month int) map[way]string {
	type span struct{ from, to float64 }
	found := map[way]*span{}
	l := f.load(month)
	for devices := float64(fewestDevices); devices <= mostDevices; devices *= fleetStep {
		g := f.scaled(devices / l.devices)
		at := g.load(month)
		for _, without := range []func(way) bool{
			way.conditional,
			func(w way) bool { return w == freeTier },
			func(way) bool { return false },
		} {
			w := g.cheapest(&at, month, without).way
			if found[w] == nil {
				found[w] = &span{from: devices}
			}
			found[w].to = devices
		}
	}
	out := map[way]string{}
	for _, w := range ways {
		s := found[w]
		switch {
		case s == nil:
			out[w] = "never"
		case s.from == fewestDevices && s.to*fleetStep > mostDevices:
			out[w] = "always"
		case s.from == fewestDevices:
			out[w] = "up to " + rounded(s.to) + " devices"
		case s.to*fleetStep > mostDevices:
			out[w] = "from " + rounded(s.from) + " devices on"
		default:
			out[w] = fmt.Sprintf("%s to %s devices", rounded(s.from), rounded(s.to))
		}
	}
	return out
}

// rounded returns a number of devices with two digits.
func rounded(n float64) string {
	scale := math.Pow10(max(0, int(math.Log10(max(1, n)))-1))
	return figure(math.Round(n/scale) * scale)
}
