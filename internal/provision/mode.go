package provision

import (
	"fmt"
	"math"
	"time"

	"binnacle/internal/ru"
	"binnacle/sharding"
)

// forEver is how long a container counts as kept of a tenant without a retention.
const forEver = 365 * 24 * time.Hour

// autoscales reports whether a new container of an owner is made with autoscale, and why. A mode can't be changed, so
// it is the one that costs less over the container's whole life, by the load of the one that is hot now; where that is
// not known for a day, as the policy says.
func (pl *planner) autoscales(owner string, of sharding.Span) (auto bool, why string) {
	if pl.policy.Follow == nil {
		return pl.policy.Autoscale, ""
	}
	for name, load := range pl.of.Loads {
		whose, is, ok := sharding.ParseContainer(name)
		current := is.Range().From <= pl.now.UnixMilli() && pl.now.UnixMilli() < is.Range().To
		if ok && whose == owner && current && len(load.RUs) >= day {
			hot := float64(of.End()-of.First)*24 + pl.policy.HotFor.Hours()
			manual, auto := load.modes(*pl.policy.Follow, hot, pl.kept(owner).Hours())
			return auto < manual, fmt.Sprintf("its throughput for life: manual $%.2f, autoscale $%.2f", manual, auto)
		}
	}
	return pl.policy.Autoscale, ""
}

// kept returns how long the chunks of a container are kept after it was hot.
func (pl *planner) kept(owner string) (longest time.Duration) {
	for _, t := range pl.tenants {
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

// modes returns the dollars of throughput over the life of a container with the load of the last day: so many hours
// hot, and then kept for so many, at its floor. Storage costs the same in both modes.
func (l Load) modes(f Follow, hot, kept float64) (manual, auto float64) {
	last := tail(l.RUs, day)
	most := math.Ceil(max(peak(last)/f.Use, 1000)/1000) * 1000
	gb := l.Stored * hot / 24
	for from := 0; from < day; from += 60 {
		x := peak(last[from : from+60])
		// What is stored grows while it is hot: half of it on average.
		manual += max(math.Ceil(x/f.Use/100)*100, ru.Floor(gb/2, most, false)) * hot / 24
		auto += max(x, most/10, ru.Floor(gb/2, most, true)/10) * hot / 24
	}
	manual += ru.Floor(gb, most, false) * kept
	auto += ru.Floor(gb, most, true) / 10 * kept
	return ru.Price(ru.Priced{RUs: manual}).Most / ru.HoursPerMonth,
		ru.Price(ru.Priced{RUs: auto, Autoscale: true}).Most / ru.HoursPerMonth
}
