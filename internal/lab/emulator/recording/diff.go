package recording

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Cost is what requests were charged in two recordings.
type Cost struct {
	Name   string `json:"name"` // all, a kind of operation, or a request
	Before Sum    `json:"before"`
	After  Sum    `json:"after"`
	// Change is the change of the request units: for a request, of its mean charge; else of the sum.
	Change float64 `json:"changePercent"`
}

// Sum is a number of requests and what they were charged together.
type Sum struct {
	Requests int     `json:"requests"`
	RU       float64 `json:"ru"`
}

func (s Sum) each() float64 { return s.RU / float64(max(1, s.Requests)) }

// Difference is what changed between two recordings.
type Difference struct {
	All   Cost   `json:"all"`
	Kinds []Cost `json:"kinds"`
	// Requests lists the requests with another charge or another count, and requests of one recording only.
	Requests []Cost `json:"requests"`
	// Regressions are what costs more than before by more than the tolerance: all requests together, and each request
	// that both recordings have, by its mean charge.
	Regressions []Cost `json:"regressions"`
}

// least is the smallest change of a mean charge, in RU, that is one: charges are rounded to hundredths.
const least = 0.01

// Diff compares two recordings. tolerance is in per cent.
func Diff(before, after []Exchange, tolerance float64) Difference {
	d := Difference{
		All: Cost{Name: "all"}, Kinds: []Cost{}, Requests: []Cost{}, Regressions: []Cost{},
	}
	kinds, requests := map[string]*Cost{}, map[string]*Cost{}
	for i, list := range [][]Exchange{before, after} {
		for _, e := range list {
			for _, c := range []*Cost{&d.All, named(kinds, e.Kind), named(requests, e.request())} {
				sum := &c.Before
				if i == 1 {
					sum = &c.After
				}
				sum.Requests++
				sum.RU += e.RU
			}
		}
	}
	for _, costs := range []map[string]*Cost{kinds, requests, {"": &d.All}} {
		for c := range maps.Values(costs) {
			c.Before.RU, c.After.RU = hundredths(c.Before.RU), hundredths(c.After.RU)
		}
	}
	d.All.Change = percent(d.All.Before.RU, d.All.After.RU)
	if d.All.Change > tolerance {
		d.Regressions = append(d.Regressions, d.All)
	}
	for _, c := range sorted(kinds) {
		c.Change = percent(c.Before.RU, c.After.RU)
		d.Kinds = append(d.Kinds, c)
	}
	for _, c := range sorted(requests) {
		c.Change = percent(c.Before.each(), c.After.each())
		more := c.After.each() - c.Before.each()
		both := c.Before.Requests > 0 && c.After.Requests > 0
		if both && more >= least && c.Change > tolerance {
			d.Regressions = append(d.Regressions, c)
		}
		if c.Before.Requests != c.After.Requests || more >= least || more <= -least {
			d.Requests = append(d.Requests, c)
		}
	}
	return d
}

func named(costs map[string]*Cost, name string) *Cost {
	if costs[name] == nil {
		costs[name] = &Cost{Name: name}
	}
	return costs[name]
}

// sorted returns costs, what has grown most first.
func sorted(costs map[string]*Cost) []Cost {
	var out []Cost
	for _, c := range costs {
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b Cost) int {
		return cmp.Or(cmp.Compare(b.After.RU-b.Before.RU, a.After.RU-a.Before.RU), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// percent returns how much more b is than a; 100 for something instead of nothing.
func percent(a, b float64) float64 {
	switch {
	case a == b:
		return 0
	case a == 0:
		return 100
	}
	return hundredths((b - a) / a * 100)
}

func hundredths(f float64) float64 { return math.Round(f*100) / 100 }
