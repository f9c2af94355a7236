package planner

import (
	"math"
	"slices"

	"binnacle/internal/charges/ru"
)

// Keeping is what a retention costs once readings are that old, with the devices of the last month.
type Keeping struct {
	Days    float64 `json:"days"`
	GB      float64 `json:"gb"`
	Way     string  `json:"way"` // the cheapest
	With    string  `json:"with"`
	Dollars float64 `json:"dollars_per_month"`
	// Storage is the part of the dollars that storage takes.
	Storage float64 `json:"dollars_for_storage"`
	// Forced is the lowest throughput that stored data allows the containers, in RU/s of manual throughput.
	Forced float64 `json:"least_ru_per_second"`
}

// Storage is what the workload keeps once its retention is over, of all regions.
type Storage struct {
	DataGB  float64 `json:"gb_of_data"`
	IndexGB float64 `json:"gb_of_index"`
	MonthGB float64 `json:"gb_of_a_month"`
	// LargestGB is the part of the largest tenant.
	LargestGB float64      `json:"gb_of_the_largest_tenant"`
	Classes   []ClassStore `json:"classes"`
}

// ClassStore is what the devices of a fleet keep, which may be a class of retention.
type ClassStore struct {
	Fleet string  `json:"fleet"`
	GB    float64 `json:"gb"`
	// Saves is what half the retention of these devices alone saves, in dollars a month.
	Saves   float64       `json:"dollars_saved_by_half_the_retention"`
	Metrics []MetricStore `json:"metrics"`
}

// MetricStore is what the metrics of a kind keep, of a fleet.
type MetricStore struct {
	Metric string  `json:"metric"`
	GB     float64 `json:"gb"`
}

// full returns a month in which the oldest readings expire.
func (f *future) full() int { return int(math.Ceil(f.retention/aMonth)) + 1 }

// retentions are those that a plan compares, in days.
var retentions = []float64{30, 90, 365, 730, 1825}

func (f *future) keeping(month int, chosen option) (out []Keeping) {
	l := f.load(month)
	all := append(slices.Clone(retentions), math.Round(f.retention/aDay))
	slices.Sort(all)
	for _, days := range slices.Compact(all) {
		g := *f
		g.retention = days * aDay
		o := g.cheapest(&l, g.full(), func(w way) bool { return w.reserved() || w == freeTier && chosen.way != freeTier })
		h := g.under(&l, g.full(), o, chunks)
		b := h.bill()
		k := Keeping{Days: days, Way: string(o.way), With: o.with(), Dollars: b.total(), Storage: b[storage]}
		for _, gb := range append(h.readings(), h.rolled()...) {
			k.GB += gb * f.regions
			k.Forced += ru.Floor(gb, 0, false)
		}
		if o.way.shared() {
			k.Forced = ru.Floor(k.GB/f.regions, 0, false)
		}
		out = append(out, k)
	}
	return out
}

// storage sums up what a workload keeps.
func (p *planner) storage(f *future, o option) (s Storage) {
	l := f.load(p.of.Months - 1)
	sum := func(of *load) (gb float64) {
		for _, each := range f.under(of, f.full(), o, chunks).readings() {
			gb += each * f.regions
		}
		return gb
	}
	all := sum(&l)
	s = Storage{DataGB: all / indexShare, IndexGB: all - all/indexShare, MonthGB: l.gb[chunks] * f.regions,
		LargestGB: all * f.largest}
	for i := range f.fleets {
		one := *f
		one.fleets = f.fleets[i : i+1]
		of := one.load(p.of.Months - 1)
		c := ClassStore{Fleet: p.of.Fleets[i].Name, GB: sum(&of)}
		c.Saves = c.GB / 2 * ru.StoragePerGB
		for _, m := range p.surfaces[i].shares {
			c.Metrics = append(c.Metrics, MetricStore{m.Metric, m.GB * c.GB})
		}
		s.Classes = append(s.Classes, c)
	}
	return s
}
