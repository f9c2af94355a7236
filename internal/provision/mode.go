package provision

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/internal/tenant"
	"binnacle/sharding"
)

// autoscales reports whether a new container of an owner is made with autoscale, and why. A mode can't be changed, so
// it is the one that costs less over the rest of the container's life, by the load that it is expected to have.
func (pl *planner) autoscales(owner string, of sharding.Span) (auto bool, why string) {
	if pl.policy.Follow == nil {
		return false, ""
	}
	begin := max(pl.now.UnixMilli(), of.Range().From)
	hot := max(0, of.Range().To+pl.policy.HotFor.Milliseconds()-begin)
	load, from := Load{}, "at rest"
	if hot > 0 {
		load, from = pl.loadOf(owner)
	}
	manual, scaled := pl.policy.modes(load, stay{time.Duration(hot) * time.Millisecond, pl.kept(owner)})
	return scaled < manual, fmt.Sprintf("its throughput %s: manual $%.2f, autoscale $%.2f", from, manual, scaled)
}

// Late returns the throughput of a new container for readings of long ago that are kept for this time; 0: without
// end.
func (p Policy) Late(kept time.Duration) store.Throughput {
	auto := false
	if p.Follow != nil {
		manual, scaled := p.modes(Load{}, stay{kept: cmp.Or(kept, forEver)})
		auto = scaled < manual
	}
	return p.birth(Cold, 0, auto)
}

// loadOf returns what a new container of an owner is expected to be asked for, and what that was taken from where it
// is not the container of now: the tenant's part of the shared one, if it is about to leave that, or else what the
// container of now has been given, HotRUs at first, in each minute.
func (pl *planner) loadOf(owner string) (load Load, from string) {
	for name, load := range pl.of.Loads {
		has, is, ok := sharding.ParseContainer(name)
		current := is.Range().From <= pl.now.UnixMilli() && pl.now.UnixMilli() < is.Range().To
		if ok && has == owner && current && len(load.RUs) >= day {
			return load, "for life"
		}
	}
	if load, ok := pl.of.Moving[owner]; ok && len(load.RUs) >= day {
		return load, "for life by its tenant's load"
	}
	all, hot := make([]float64, day), pl.hotRUs(owner)
	for i := range all {
		all[i] = pl.policy.Follow.Use * float64(hot)
	}
	return Load{RUs: all}, fmt.Sprintf("for life with %d RU/s", hot)
}

// kept returns how long the chunks of a container are kept after it was hot. Without a registered tenant it is the
// retention of the tenants that will come, and without end where that is unknown.
func (pl *planner) kept(owner string) (longest time.Duration) {
	tenants := pl.tenants
	if len(tenants) == 0 && pl.of.Comes == nil {
		return forEver
	} else if len(tenants) == 0 {
		tenants = []tenant.Tenant{*pl.of.Comes}
	}
	for _, t := range tenants {
		switch {
		case owner != "" && t.Name != owner:
		case t.Retention <= 0:
			longest = max(longest, forEver)
		default:
			longest = max(longest, t.Retention)
		}
	}
	return longest
}

// stay is how long a container is hot, and then kept at its floor.
type stay struct{ hot, kept time.Duration }

// modes returns the dollars of throughput over a stay with the load of the last day. Storage costs the same in both
// modes. Autoscale is billed by the use in the busiest minute of each hour, at least a tenth of its maximum: the
// hottest physical partition's for all, or with PerPartition each one's (Azure Cosmos DB docs,
// provision-throughput-autoscale).
func (p Policy) modes(l Load, s stay) (manual, auto float64) {
	last := tail(l.RUs, day)
	most := math.Ceil(max(peak(last)/p.Follow.Use, 1000)/1000) * 1000
	hot := s.hot.Hours()
	gb := l.Stored * hot / 24
	for from := 0; from < day && hot > 0; from += 60 {
		x := peak(last[from : from+60])
		// What is stored grows while it is hot: half of it on average.
		manual += max(math.Ceil(x/p.Follow.Use/100)*100, ru.Floor(gb/2, most, false)) * hot / 24
		if p.PerPartition {
			x = l.byPartition(from, most)
		}
		auto += max(x, most/10, ru.Floor(gb/2, most, true)/10) * hot / 24
	}
	manual += ru.Floor(gb, most, false) * s.kept.Hours()
	auto += ru.Floor(gb, most, true) / 10 * s.kept.Hours()
	return ru.Price(ru.Priced{RUs: manual}).Most / ru.HoursPerMonth,
		ru.Price(ru.Priced{RUs: auto, Autoscale: true}).Most / ru.HoursPerMonth
}

// byPartition returns the RU/s that autoscale bills for an hour of the last day, where each physical partition scales
// separately: the sum of their busiest minutes, each at least a tenth of its part of the maximum.
func (l Load) byPartition(from int, most float64) (sum float64) {
	if len(l.Partitions) == 0 {
		return peak(tail(l.RUs, day)[from : from+60])
	}
	for _, minutes := range l.Partitions {
		sum += max(peak(tail(minutes, day)[from:from+60]), most/10/float64(len(l.Partitions)))
	}
	return sum
}
