package planner

import (
	"fmt"
	"math"

	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
)

// line is a line of the bill.
type line int

const (
	writes line = iota
	queries
	rollups
	storage
	base
	minimums
	mode
	lines
)

var lineNames = [lines]string{"writes", "queries", "rollups", "storage", "base containers", "minimums", "mode"}

// bill is dollars of a month by line.
type bill [lines]float64

func (b bill) total() (sum float64) {
	for _, v := range b {
		sum += v
	}
	return sum
}

// option is a way to run the account.
type option struct {
	autoscale, rollups bool
	// months is the number of months in one container.
	months int
	shared bool // all containers share the throughput of the database, as provision --profile small makes them
}

func options() (all []option) {
	for _, rollups := range []bool{false, true} {
		all = append(all, option{rollups: rollups, months: 12, shared: true})
	}
	for _, months := range []int{1, 12} {
		for _, autoscale := range []bool{false, true} {
			for _, rollups := range []bool{false, true} {
				all = append(all, option{autoscale: autoscale, rollups: rollups, months: months})
			}
		}
	}
	return all
}

// String names the option.
func (o option) String() string {
	name, span := "manual throughput that follows the load", "a month"
	if o.autoscale {
		name = "autoscale"
	}
	if o.months > 1 {
		span = "a year"
	}
	if o.shared {
		name = "throughput that all containers share (provision --profile small)"
	}
	name = fmt.Sprintf("%s, a container for %s", name, span)
	if o.rollups {
		return name + ", rollups"
	}
	return name + ", no rollups"
}

// rollupMost is the autoscale maximum of a container of rollups.
const rollupMost = 2000

// dollars returns the price of throughput for a month.
func dollars(rus float64, autoscale bool) float64 {
	return ru.Price(ru.Priced{RUs: rus, Autoscale: autoscale}).Most
}

// containers returns the GB of the containers that are there in a month, the hot one first.
func (f *future) containers(month, months int, gb float64) []float64 {
	var out []float64
	kept := f.retention / aMonth
	at := -1
	for age := 0; age <= month && float64(age) < kept+1; age++ {
		if group := (month - age) / months; group != at {
			out, at = append(out, 0), group
		}
		out[len(out)-1] += gb / math.Pow(1+f.growth, float64(age)) * min(1, max(0, kept-float64(age)+1))
	}
	return out
}

// bought is the throughput of the hot container.
type bought struct{ hour, most float64 } // the average of hours' highest, and the highest, RU/s

func (l *load) buys(m model, query float64) bought {
	peak := l.peak
	if m != chunks { // readings come evenly, and so do their documents
		peak = 1.2
	}
	return bought{(l.write[m]*(1+peak)/2 + query) / use, (l.write[m]*peak + query) / use}
}

// asked returns the RU/s of queries of chunks under an option.
func (l *load) asked(o option) float64 {
	if o.rollups {
		return l.query[chunks] - l.panels
	}
	return l.query[chunks]
}

// bill returns the bill of a month under an option.
func (f *future) bill(l *load, month int, o option) (b bill) {
	if o.shared {
		return f.sharedBill(l, month, o)
	}
	b = held{l, chunks, l.asked(o), month}.bill(f, o)
	if o.rollups {
		for i, gb := range f.containers(month, o.months, l.rollupGB) {
			rus := 0.0
			if i == 0 {
				rus = (l.rollupWrite + l.rollupQuery) / use
			}
			b[rollups] += dollars(max(rus, rollupMost/10, ru.Floor(gb, rollupMost, true)/10), true)
			b[storage] += max(ru.LeastGB, gb) * ru.StoragePerGB
		}
	}
	for _, c := range cosmos.Base() {
		b[base] += ru.Price(ru.Priced{RUs: float64(c.Throughput.RUs), Autoscale: c.Throughput.Autoscale,
			Container: true}).Least
	}
	for i := range b {
		b[i] *= f.regions
	}
	return b
}

// baseRUs is what leases, the catalog and the heat of keys take of shared throughput, in RU/s.
const baseRUs = 20

// fits reports whether an option works in a month: shared throughput should not exceed a physical partition,
// because beyond one, a user cannot choose which container's keys lie where.
func (f *future) fits(l *load, month int, o option) bool {
	if !o.shared {
		return true
	}
	rus, gb := f.shared(l, month, o)
	return rus <= ru.PartitionRUs && gb <= ru.PartitionGB
}

// shared returns the throughput that all containers share in a month, in RU/s, and what they store, in GB.
func (f *future) shared(l *load, month int, o option) (rus, gb float64) {
	need := l.buys(chunks, l.asked(o)).most + baseRUs
	stored := f.containers(month, o.months, l.gb[chunks])
	if o.rollups {
		need += (l.rollupWrite + l.rollupQuery) / use
		stored = append(stored, f.containers(month, o.months, l.rollupGB)...)
	}
	for _, each := range stored {
		gb += each
	}
	return max(math.Ceil(need/100)*100, ru.Floor(gb, need, false)), gb
}

// sharedBill returns the bill of a month where all containers share throughput.
func (f *future) sharedBill(l *load, month int, o option) (b bill) {
	query := l.asked(o)
	rus, _ := f.shared(l, month, o)
	buys := l.buys(chunks, query)
	b[queries] = dollars(query/use, false)
	b[writes] = max(0, dollars(buys.hour, false)-b[queries])
	if o.rollups {
		b[rollups] = dollars((l.rollupWrite+l.rollupQuery)/use, false)
	}
	b[minimums] = dollars(rus, false) - b[queries] - b[writes] - b[rollups]
	all := f.containers(month, o.months, l.gb[chunks])
	if o.rollups {
		all = append(all, f.containers(month, o.months, l.rollupGB)...)
	}
	for _, gb := range all {
		b[storage] += max(ru.LeastGB, gb) * ru.StoragePerGB
	}
	b[base] = float64(len(cosmos.Base())) * ru.Price(ru.Priced{Container: true}).Least
	for i := range b {
		b[i] *= f.regions
	}
	return b
}

// held is a month's containers of readings, by a model, with query RU/s of queries.
type held struct {
	*load
	by    model
	query float64
	month int
}

// bill returns what the containers cost.
func (h held) bill(f *future, o option) (b bill) {
	buys := h.buys(h.by, h.query)
	b[queries] = dollars(h.query/use, false)
	b[writes] = max(0, dollars(buys.hour, false)-b[queries])
	var manual, auto float64
	most := math.Ceil(max(1000, buys.most)/1000) * 1000
	for i, gb := range f.containers(h.month, o.months, h.gb[h.by]) {
		b[storage] += max(ru.LeastGB, gb) * ru.StoragePerGB
		if i == 0 {
			manual += dollars(max(math.Ceil(buys.hour/100)*100, ru.Floor(gb, buys.most, false)), false)
			auto += dollars(max(buys.hour*use, most/10, ru.Floor(gb, most, true)/10), true)
			continue
		}
		manual += dollars(ru.Floor(gb, buys.most, false), false)
		auto += dollars(ru.Floor(gb, most, true)/10, true)
	}
	b[minimums] = manual - b[writes] - b[queries]
	if o.autoscale {
		b[mode] = auto - manual
	}
	return b
}

// other returns the cheaper bill of another model in containers of a month, in either mode.
func (f *future) other(l *load, m model, month int) bill {
	h := held{l, m, l.query[m], month}
	best := h.bill(f, option{months: 1})
	if b := h.bill(f, option{months: 1, autoscale: true}); b.total() < best.total() {
		best = b
	}
	for i := range best {
		best[i] *= f.regions
	}
	return best
}
