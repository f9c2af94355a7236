package planner

import (
	"fmt"
	"math"

	"binnacle/internal/charges/ru"
)

// Isolation is what a month costs with tenants apart from each other in one way. Microsoft's guidance of 2026
// recommends a partition key or an account a tenant, and no longer a container a tenant (Azure Architecture Center,
// multitenant/service/cosmos-db).
type Isolation struct {
	Way     string  `json:"way"`
	Dollars float64 `json:"dollars_per_month"`
	More    float64 `json:"more_than_a_key"`
	Note    string  `json:"note"`
}

// Limits of accounts and of fleets of accounts (Azure Cosmos DB docs, concepts-limits, fleet, fleet-pools).
const (
	// maxContainers is the most databases and containers of an account.
	maxContainers = 500
	// fleetspaceAccounts is the most accounts that draw from one pool of throughput.
	fleetspaceAccounts = 1000
	// dedicatedMost is the autoscale maximum of the smallest account in a fleet, in RU/s, and poolDraw what a physical
	// partition draws from the pool beyond it at most.
	dedicatedMost, poolDraw = 1000, 5000
	// poolSpan is the maximum of a pool over its minimum, at most.
	poolSpan = 10
)

// isolation prices what keeps tenants apart, in a month: the largest tenant, and the others alike.
func (f *future) isolation(month int, chosen option) []Isolation {
	l := f.load(month)
	key := f.under(&l, month, chosen, chunks).bill().total()
	n := f.tenants
	if n < 2 {
		return nil
	}
	large, small := f.tenant(f.largest), f.tenant((1-f.largest)/max(1, n-1))
	each := func(of func(*future) float64) float64 { return of(&large) + (n-1)*of(&small) }
	out := []Isolation{{"a partition key a tenant", key, 0, "as it is unless a tenant moves; recommended"}}
	add := func(name string, dollars float64, format string, args ...any) {
		out = append(out, Isolation{name, dollars, dollars - key, fmt.Sprintf(format, args...)})
	}
	containers := 0
	sum := each(func(t *future) float64 {
		h := t.alone(month, func(w way) bool { return w != manual && w != autoscale })
		containers = max(containers, len(h.readings())+len(h.rolled()))
		b := h.bill()
		return b.total() - b[base]
	})
	h := f.under(&l, month, option{way: manual, months: 12}, chunks)
	note := "no longer recommended"
	if all := n*float64(containers) + float64(len(h.stored())); all > maxContainers {
		note += fmt.Sprintf("; %s containers, and an account has %d at most", figure(all), maxContainers)
	}
	add("a container a tenant", sum+h.bill()[base], "%s", note)
	consumes := func(w way) bool { return w != serverless }
	if large.alone(month, consumes).way == serverless {
		sum = each(func(t *future) float64 { return t.alone(month, consumes).bill().total() })
		add("an account a tenant, serverless", sum, "%s accounts, each of one region, that rest for nothing but storage",
			figure(n))
	}
	pool := 0.0
	sum = each(func(t *future) float64 {
		account, draws := t.inFleet(month)
		pool = max(pool, draws)
		return account
	})
	// A pool is sold in steps of 1,000 RU/s here. It rests at its minimum; tenants draw at other times.
	rests := math.Ceil(max(pool, dedicatedMost)/1000) * 1000 / poolSpan
	spaces := math.Ceil(n / fleetspaceAccounts)
	note = "recommended"
	if spaces > 1 {
		note = fmt.Sprintf("in %s fleetspaces; recommended", figure(spaces))
	}
	add("an account a tenant, a fleet with a pool", sum+spaces*dollars(rests, true), "%s accounts of 100 to %d RU/s, a "+
		"pool of %s to %s RU/s; %s", figure(n), dedicatedMost, figure(rests), figure(rests*poolSpan), note)
	return out
}

// tenant returns a tenant with a share of the devices, alone.
func (f *future) tenant(share float64) future {
	t := f.scaled(share)
	t.tenants, t.largest = 1, 1
	first := t.load(0)
	t.first = &first
	return t
}

// alone returns what a tenant keeps in a month under the cheapest option, without some ways.
func (f *future) alone(month int, without func(way) bool) held {
	l := f.load(month)
	return f.under(&l, month, f.cheapest(&l, month, without), chunks)
}

// inFleet returns the bill of an account of one tenant, where all containers share autoscale up to dedicatedMost, and
// the RU/s that the account draws from the pool in its busiest minute.
func (f *future) inFleet(month int) (sum, draws float64) {
	l := f.load(month)
	h := f.under(&l, month, option{way: sharedWay, months: 12}, chunks)
	for _, gb := range h.stored() {
		sum += ru.Storage(gb)
	}
	buys := h.buys(chunks, h.query)
	most := max(dedicatedMost, ru.Floor(h.readings()[0], 0, true))
	sum += dollars(min(most, max(most/10, buys.hour*use)), true) + dollars(max(0, buys.hour*use-most), true)
	return sum * f.regions, min(poolDraw, max(0, buys.most+baseRUs-most))
}

func (p *Plan) isolationRows() [][]string {
	rows := [][]string{{"TENANTS APART BY", "$ A MONTH", "MORE", ""}}
	for _, x := range p.Isolation {
		rows = append(rows, []string{x.Way, cents(x.Dollars), "+" + cents(x.More), x.Note})
	}
	return rows
}
