package simulation_test

import (
	"math"

	"binnacle/internal/charges/ru"
)

// option is a throughput of an hour, and what it refuses.
type option struct{ rus, refused float64 }

// oracle knew the load. It buys for each hour what its minutes take, in the mode that is cheaper over the container's
// life, within the same floors, and refuses what saves most, up to the bound.
type oracle struct {
	manual bool       // it buys manual throughput alone
	hours  [][]option // of containers that may refuse, by hour
	fixed  bill       // storage, and containers for which autoscale is cheaper
	asked  float64
}

// refusedAt returns what is refused of an hour's minutes by so many RU/s. A wait ends with its hour.
func refusedAt(minutes []float32, rus float64) (refused float64) {
	waits := 0.0
	for _, x := range minutes {
		if waits = max(0, waits+float64(x)-rus); waits > 0 {
			refused += waits
		}
	}
	return refused
}

func (h *hour) peak() (peak float64) {
	for _, x := range h.minutes {
		peak = max(peak, float64(x))
	}
	return peak
}

// add adds a container with all of its hours.
func (o *oracle) add(c *container) {
	var manual, auto bill
	options := make([][]option, len(c.hours))
	highest, peakOfAll := 0.0, 0.0
	for i := range c.hours {
		peakOfAll = max(peakOfAll, c.hours[i].peak())
	}
	autoMax := roundUp(max(1000, peakOfAll), 1000)
	for i := range c.hours {
		h := &c.hours[i]
		peak := h.peak()
		floor := ru.Floor(h.gb, highest, false)
		need := max(floor, roundUp(peak, 100))
		highest = max(highest, need)
		manual.add(need, false, h.gb)
		options[i] = append(options[i], option{rus: need})
		for rus := need - 100; rus >= floor && len(options[i]) < 12; rus -= 100 {
			options[i] = append(options[i], option{rus, refusedAt(h.minutes, rus)})
		}
		most := ru.Floor(h.gb, autoMax, true)
		if len(h.minutes) > 0 {
			most = max(most, autoMax)
		}
		auto.add(max(most/10, peak, min(h.late+peak, most)), true, h.gb)
	}
	o.asked += c.total
	if !o.manual && auto.throughput < manual.throughput {
		o.fixed.plus(auto)
		return
	}
	o.fixed.storage += manual.storage
	o.hours = append(o.hours, options...)
}

// bill returns the lowest bill whose refusals are within a part of what was asked for: a weight of refusals in RU/s of
// an hour is searched by halves.
func (o *oracle) bill(within float64) bill {
	at := func(weight float64) (b bill, refused float64) {
		rus := 0.0
		for _, options := range o.hours {
			best, cost := option{}, math.Inf(1)
			for _, x := range options {
				if c := x.rus + weight*x.refused; c < cost {
					best, cost = x, c
				}
			}
			rus, refused = rus+best.rus, refused+best.refused
		}
		b = o.fixed
		b.throughput += ru.Price(ru.Priced{RUs: rus}).Most / ru.HoursPerMonth
		return b, refused
	}
	low, high := 1e-6, 1e6
	for range 30 {
		middle := math.Sqrt(low * high)
		if _, refused := at(middle); refused > within*o.asked {
			low = middle
		} else {
			high = middle
		}
	}
	b, _ := at(high)
	return b
}

// others returns what the same containers cost (a) with throughput for the peak of all hours while they are in use,
// and (b) with autoscale of that maximum, for good.
func others(all []*container) (flat, autoscale bill) {
	peaks := map[string]float64{}
	for _, c := range all {
		for i := range c.hours {
			peaks[c.owner] = max(peaks[c.owner], c.hours[i].peak())
		}
	}
	for _, c := range all {
		peak := peaks[c.owner]
		for i := range c.hours {
			h := &c.hours[i]
			rus := ru.Floor(h.gb, peak, false)
			if len(h.minutes) > 0 {
				rus = max(rus, roundUp(peak, 100))
			}
			flat.add(rus, false, h.gb)
			most := max(ru.Floor(h.gb, 0, true), roundUp(peak, 1000))
			autoscale.add(max(most/10, h.peak(), min(h.late+h.peak(), most)), true, h.gb)
		}
	}
	return flat, autoscale
}
