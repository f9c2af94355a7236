package provision

import (
	"context"
	"errors"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/heat"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// Profile is a way to buy throughput: for all containers together, or for each.
type Profile string

// The profiles. Small has few containers, of a year each, which share throughput. Large has containers of a month with
// throughput of their own by age. Auto begins with Small and changes to Large, from a day on, where that costs less.
const (
	Small Profile = "small"
	Large Profile = "large"
	Auto  Profile = "auto"
)

// Shares reports whether a new account is made for containers that share throughput.
func (f Profile) Shares() bool { return f == Small || f == Auto }

const (
	// maxShared is the most containers that share the throughput of one database (Azure Cosmos DB docs, concepts-limits).
	maxShared = 25
	// headroom is the throughput that is shared, over what the busiest minute took.
	headroom = 1.5
	// peakEvery is the time between two looks at the load.
	peakEvery = 10 * time.Minute
)

// sharedLoad is what a Provisioner knows of throughput that is shared. Its owner is the one of Run.
type sharedLoad struct {
	none bool // the database has none, and never will
	peak float64
	// at is when peak was read.
	at time.Time
}

// isShared reports whether containers of a database can share its throughput.
func isShared(seen []store.ContainerState) bool {
	return slices.ContainsFunc(seen, func(s store.ContainerState) bool { return s.Name == store.Database })
}

// like returns the length and the throughput that new containers should get.
func (p *Provisioner) like(v *control.Snapshot, peak float64) sharding.PeriodEpoch {
	last := v.Period()
	like := last
	switch f := p.cfg.Profile; {
	case p.isServerless: // few containers, as each pays for a GB at least
		like.Shared = true
	case p.shared.none && f != Small:
		like.Shared = false
	case f == Small, f == Auto && len(v.Periods()) == 0:
		like.Shared = true
	case f == Large, f == Auto && peak*headroom > p.cfg.BreakEven(v.Tenants()):
		like.Shared = false
	}
	switch {
	case p.cfg.Period != "":
		like.Period = p.cfg.Period
	case like.Shared && !last.Shared:
		like.Period = sharding.Year
	case last.Shared && !like.Shared:
		like.Period = sharding.Month
	}
	return like
}

// sharedPeak returns the RU/s of the busiest minute of the last day, of all containers that share throughput. What
// control takes is in no heat: it is next to nothing.
func (p *Provisioner) sharedPeak(ctx context.Context, seen []store.ContainerState, now time.Time) (float64, error) {
	if p.cfg.Heat == nil || !isShared(seen) || now.Sub(p.shared.at) < peakEvery {
		return p.shared.peak, nil
	}
	at := now.UnixMilli() / heat.Minute * heat.Minute
	frames, err := p.cfg.Heat.Frames(ctx, heat.Span{From: at - heat.Day, To: at, Step: heat.Minute})
	if err != nil {
		if errors.Is(err, store.ErrNoContainer) {
			err = nil // no heat is written yet
		}
		return p.shared.peak, err
	}
	shared := map[string]bool{}
	for _, s := range seen {
		shared[s.Name] = s.Throughput.Shared
	}
	p.shared.peak, p.shared.at = peakOf(frames, shared), now
	return p.shared.peak, nil
}

// peakOf returns the RU/s of the busiest minute of frames, in named containers. A coarser frame counts as even.
func peakOf(frames []heat.Frame, within map[string]bool) (peak float64) {
	minutes := map[int64]float64{}
	for _, f := range frames {
		seconds := float64(f.To-f.From) / 1000
		for i := range f.Cells {
			if c := &f.Cells[i]; within[c.Container] && seconds > 0 {
				minutes[f.From] += c.Total() / seconds
			}
		}
	}
	for _, rus := range minutes {
		peak = max(peak, rus)
	}
	return peak
}

// Comparison is what profiles cost in a month, by list prices, with the least storage that is billed.
type Comparison struct {
	PeakRUs float64 // RU/s of the busiest minute of the last day; 0: not known
	// SharedRUs is the throughput that sharing needs.
	SharedRUs int
	// BreakEvenRUs is the shared throughput at which Auto changes to Large.
	BreakEvenRUs float64
	Small, Large ru.Bill
}

// Compare returns what profiles cost for the tenants and the load that there are.
func (p *Provisioner) Compare(ctx context.Context) (c Comparison, err error) {
	v, err := p.cfg.Directory.Refresh(ctx)
	if err != nil {
		return c, err
	}
	seen, err := p.observe(ctx)
	if err != nil {
		return c, err
	}
	if c.PeakRUs, err = p.sharedPeak(ctx, seen, p.cfg.Now()); err != nil {
		return c, err
	}
	pl := planner{policy: p.cfg.Policy, of: Found{SharedPeak: c.PeakRUs}}
	c.SharedRUs = pl.sharedStep(store.ContainerState{}).Wanted.RUs
	c.Small = p.cfg.smallBill(v.Tenants(), float64(c.SharedRUs))
	c.Large, c.BreakEvenRUs = p.cfg.LargeBill(v.Tenants()), p.cfg.BreakEven(v.Tenants())
	return c, nil
}

// BreakEven returns the throughput, shared by all containers, with which Small costs as much as Large at rest. It is
// at most the throughput of one physical partition: beyond it a database splits, and the service decides which
// container's keys lie where.
func (c Config) BreakEven(tenants []tenant.Tenant) float64 {
	left := c.LargeBill(tenants).Least - c.smallBill(tenants, 0).Least
	return min(left/ru.Price(ru.Priced{RUs: 1}).Least, ru.PartitionRUs)
}

// smallBill returns the monthly bill of the containers of Small, which share throughput: base containers, containers
// of the years that tenants keep, and the next one.
func (c Config) smallBill(tenants []tenant.Tenant, shared float64) ru.Bill {
	sum := ru.Price(ru.Priced{RUs: shared})
	for range c.Base {
		sum = sum.Plus(ru.Price(ru.Priced{Container: true}))
	}
	for range c.spans(sharding.Year, tenants) {
		sum = sum.Plus(ru.Price(ru.Priced{Container: true}))
		if c.Policy.RollupsRUs > 0 {
			sum = sum.Plus(ru.Price(ru.Priced{Container: true}))
		}
	}
	return sum
}

// LargeBill returns the monthly bill of the containers of Large: the base containers, containers of the months that
// tenants keep, and the next one.
func (c Config) LargeBill(tenants []tenant.Tenant) (sum ru.Bill) {
	for _, s := range c.Base {
		sum = sum.Plus(ru.Price(Priced(s)))
	}
	for _, of := range c.spans(sharding.Month, tenants) {
		sum = sum.Plus(ru.Price(ru.Priced{RUs: float64(c.Policy.rus(c.Policy.Tier(of, c.Now()))), Container: true}))
		if c.Policy.RollupsRUs > 0 {
			sum = sum.Plus(ru.Price(ru.Priced{RUs: float64(c.Policy.RollupsRUs), Autoscale: true, Container: true}))
		}
	}
	return sum
}

// forEver is how long a container counts as kept of a tenant without a retention.
const forEver = 365 * 24 * time.Hour

// spans returns the days of a period's containers that tenants keep, and of the next one. Endless counts as a year.
func (c Config) spans(period sharding.Period, tenants []tenant.Tenant) (all []sharding.Span) {
	kept := time.Duration(0)
	for _, t := range tenants {
		if t.Retention <= 0 {
			kept = max(kept, forEver)
		}
		kept = max(kept, t.Retention)
	}
	today := telemetry.DayOf(c.Now().UnixMilli())
	for of := period.Of(max(0, today-telemetry.Day(kept.Hours()/24))); of.First <= period.Of(today).End(); of = of.Next() {
		all = append(all, of)
	}
	return all
}

// Priced returns what is paid for a container, or for the throughput that containers share.
func Priced(s store.ContainerState) ru.Priced {
	return ru.Priced{RUs: float64(s.Throughput.RUs), Autoscale: s.Throughput.Autoscale,
		Container: s.Name != store.Database, GB: s.GB}
}
