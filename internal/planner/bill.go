package planner

import (
	"fmt"
	"math"

	"binnacle/internal/cosmos"
	"binnacle/internal/ru"
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
	months             int // of a container
}

func options() (all []option) {
	for _, months := range []int{1, 12} {
		for _, autoscale := range []bool{false, true} {
			for _, rollups := range []bool{false, true} {
				all = append(all, option{autoscale, rollups, months})
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

// bill returns the bill of a month under an option.
func (f *future) bill(l *load, month int, o option) (b bill) {
	query := l.query[chunks]
	if o.rollups {
		query -= l.panels
	}
	b = held{l, chunks, query, month}.bill(f, o)
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

// held is containers of readings in a month, by a model, with so many RU/s of queries.
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
