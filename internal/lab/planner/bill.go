package planner

import (
	"fmt"
	"math"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
)

type line int

const (
	writes line = iota
	queries
	rollups
	expiry
	storage
	base
	minimums
	mode
	discount
	lines
)

var lineNames = [lines]string{"writes", "queries", "rollups", "expiry", "storage", "base containers", "minimums",
	"mode", "discount"}

// bill is dollars of a month by line.
type bill [lines]float64

func (b bill) total() (sum float64) {
	for _, v := range b {
		sum += v
	}
	return sum
}

// baseContainers are the containers that every account has.
var baseContainers = cosmos.Base()

const (
	// rollupMost is the autoscale maximum of a container of rollups.
	rollupMost = 2000
	// baseRUs is what leases, the catalog and the heat of keys take of shared throughput at most, in RU/s.
	baseRUs = 20
	// background is what the same take in a month of a small fleet, in RU.
	background = 1e6
	// monthSeconds is the length of the month that prices are given for.
	monthSeconds = ru.HoursPerMonth * 3600
)

func dollars(rus float64, autoscale bool) float64 {
	return ru.Price(ru.Priced{RUs: rus, Autoscale: autoscale}).Most
}

// containers returns the GB of the containers that are there in a month, the hot one first. Each holds months of
// readings, or all of them.
func (f *future) containers(month, months int, gb float64) []float64 {
	var out []float64
	kept := f.retention / aMonth
	at := -1
	for age := 0; age <= month && float64(age) < kept+1; age++ {
		group := 0
		if months != allTime {
			group = (month - age) / months
		}
		if group != at {
			out, at = append(out, 0), group
		}
		out[len(out)-1] += gb / math.Pow(1+f.growth, float64(age)) * min(1, max(0, kept-float64(age)+1))
	}
	return out
}

// bought is the throughput of the hot container: the average of hours' highest, and the highest, RU/s.
type bought struct{ hour, most float64 }

func (l *load) buys(m model, query float64) bought {
	peak := l.peak
	if m != chunks { // readings come evenly, and so do their documents
		peak = 1.2
	}
	return bought{(l.write[m]*(1+peak)/2 + query) / use, (l.write[m]*peak + query) / use}
}

// held is what a model keeps in a month of a future, and how it is bought.
type held struct {
	*future
	*load
	option
	by    model
	month int
	// query is the RU/s of queries of readings.
	query float64
}

// under returns what a model keeps in a month under an option. Chunks alone have rollups and base containers.
func (f *future) under(l *load, month int, o option, by model) held {
	h := held{f, l, o, by, month, l.query[by]}
	if by != chunks {
		h.rollups = false
	} else if o.rollups {
		h.query -= l.panels
	}
	return h
}

// readings returns the GB of each container of readings, the hot one first, and rolled those of rollups.
func (h held) readings() []float64 { return h.containers(h.month, h.months, h.gb[h.by]) }

func (h held) rolled() []float64 {
	if !h.rollups {
		return nil
	}
	return h.containers(h.month, h.months, h.rollupGB)
}

// stored returns the GB of every container that the account is billed for.
func (h held) stored() []float64 {
	all := append(h.readings(), h.rolled()...)
	if h.by == chunks {
		all = append(all, make([]float64, len(baseContainers))...)
	}
	return all
}

// maxSharing is the most containers that share the throughput of one database (Azure Cosmos DB docs, concepts-limits).
const maxSharing = 25

// fault returns why an option can't be had; "" where it can.
func (h held) fault() string {
	switch {
	case h.way == serverless && h.regions > 1:
		return "a serverless account has one region"
	case h.way.reserved() && h.planned < 12:
		return "a reservation is for a year or three, and the plan for less"
	}
	stored, gb := h.stored(), 0.0
	for _, each := range stored {
		gb += each
	}
	most := h.buys(h.by, h.query).most
	switch serves := ru.ServerlessRUs(int(math.Ceil(stored[0] / ru.PartitionGB))); {
	case h.way == serverless && most > serves:
		return fmt.Sprintf("a serverless container serves %s RU/s, and the busiest minute takes %s", figure(serves),
			figure(most))
	case h.way.shared() && len(stored) > maxSharing:
		return fmt.Sprintf("%d containers share throughput at most", maxSharing)
	case h.way.shared() && (h.throughput() > ru.PartitionRUs || gb > ru.PartitionGB):
		// Beyond one physical partition, a user cannot choose which container's keys lie where.
		return "a physical partition has not the throughput or the room that all containers would share"
	}
	return ""
}

func (h held) bill() (b bill) {
	switch {
	case h.way == serverless:
		b = h.consumed()
	case h.way.shared():
		b = h.sharing()
	default:
		b = h.dedicated()
	}
	for _, gb := range append(h.readings(), h.rolled()...) {
		b[storage] += ru.Storage(gb)
	}
	for i := range b {
		b[i] *= h.regions
	}
	b[discount] = -min(h.saves(), b.total())
	return b
}

// consumed returns what is paid for the request units of a serverless account: those of documents that expire are
// charged as their deletes (Azure Cosmos DB docs, time-to-live).
func (h held) consumed() (b bill) {
	b[writes] = ru.Consumed(h.write[h.by] * monthSeconds)
	b[queries] = ru.Consumed(h.query * monthSeconds)
	made := h.write[h.by]
	if h.rollups {
		b[rollups] = ru.Consumed((h.rollupWrite + h.rollupQuery) * monthSeconds)
		made += h.rollupWrite
	}
	age := h.retention / aMonth
	over := min(1, max(0, float64(h.month)+1-age)) // part of the month in which documents expire
	b[expiry] = ru.Consumed(over * made / math.Pow(1+h.growth, age) * monthSeconds)
	if h.by == chunks {
		b[base] = ru.Consumed(background) + float64(len(baseContainers))*ru.Storage(0)
	}
	return b
}

// throughput returns the RU/s that all containers share.
func (h held) throughput() float64 {
	need, gb := h.buys(h.by, h.query).most, 0.0
	if h.by == chunks {
		need += baseRUs
	}
	if h.rollups {
		need += (h.rollupWrite + h.rollupQuery) / use
	}
	for _, each := range append(h.readings(), h.rolled()...) {
		gb += each
	}
	return max(math.Ceil(need/100)*100, ru.Floor(gb, need, false))
}

// sharing returns what throughput costs that all containers share.
func (h held) sharing() (b bill) {
	h.used(&b)
	if h.rollups {
		b[rollups] = dollars((h.rollupWrite+h.rollupQuery)/use, false)
	}
	b[minimums] = dollars(h.throughput(), false) - b[queries] - b[writes] - b[rollups]
	if h.by == chunks {
		b[base] = float64(len(baseContainers)) * ru.Storage(0)
	}
	return b
}

// used sets what writes and queries use of throughput.
func (h held) used(b *bill) {
	b[queries] = dollars(h.query/use, false)
	b[writes] = max(0, dollars(h.buys(h.by, h.query).hour, false)-b[queries])
}

// manually returns the RU/s of manual throughput of each container of readings, on average.
func (h held) manually() (all []float64) {
	buys := h.buys(h.by, h.query)
	for i, gb := range h.readings() {
		rus := ru.Floor(gb, buys.most, false)
		if i == 0 {
			rus = max(rus, math.Ceil(buys.hour/100)*100)
		}
		all = append(all, rus)
	}
	return all
}

// dedicated returns what containers cost that have throughput each.
func (h held) dedicated() (b bill) {
	h.used(&b)
	buys := h.buys(h.by, h.query)
	var manual, auto float64
	most := math.Ceil(max(1000, buys.most)/1000) * 1000
	for _, rus := range h.manually() {
		manual += dollars(rus, false)
	}
	for i, gb := range h.readings() {
		rests := ru.Floor(gb, most, true) / 10
		if i == 0 {
			rests = max(rests, buys.hour*use, most/10)
		}
		auto += dollars(rests, true)
	}
	b[minimums] = manual - b[writes] - b[queries]
	if h.way == autoscale {
		b[mode] = auto - manual
	}
	for i, gb := range h.rolled() {
		rus := max(rollupMost/10, ru.Floor(gb, rollupMost, true)/10)
		if i == 0 {
			rus = max(rus, (h.rollupWrite+h.rollupQuery)/use)
		}
		b[rollups] += dollars(rus, true)
	}
	if h.by == chunks {
		for _, c := range baseContainers {
			b[base] += ru.Price(ru.Priced{RUs: float64(c.Throughput.RUs), Autoscale: c.Throughput.Autoscale,
				Container: true}).Least
		}
	}
	return b
}

// saves returns what the free tier or a reservation takes off the bill. A reservation is of the manual throughput of
// the first month, which the account has from then on.
func (h held) saves() float64 {
	switch h.way {
	case freeTier:
		gb := 0.0
		for _, each := range h.stored() {
			gb += max(ru.LeastGB, each)
		}
		return dollars(min(ru.FreeRUs, h.throughput()*h.regions), false) + min(ru.FreeGB, gb*h.regions)*ru.StoragePerGB
	case sharedReserved, manualReserved:
		first := h
		first.load, first.month = h.first, 0
		first.query = h.future.under(h.first, 0, h.option, h.by).query
		rus := first.throughput()
		if h.way == manualReserved {
			rus = 0
			for _, each := range first.manually() {
				rus += each
			}
		}
		part := ru.ReservedYear
		if h.planned >= 36 {
			part = ru.ReservedThreeYears
		}
		return part * dollars(rus*h.regions, false)
	}
	return 0
}

// other returns the cheapest bill of another model, in containers of a month or in one, by a way without a condition.
func (f *future) other(l *load, month int, m model) bill {
	var best bill
	for _, w := range ways {
		if w.conditional() {
			continue
		}
		for _, months := range []int{1, allTime} {
			h := f.under(l, month, option{way: w, months: months}, m)
			if h.fault() != "" {
				continue
			}
			if b := h.bill(); best == (bill{}) || b.total() < best.total() {
				best = b
			}
		}
	}
	return best
}
