package provision

import (
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/store"
	"binnacle/sharding"
)

func anyServerless(seen []store.ContainerState) bool {
	return slices.ContainsFunc(seen, func(s store.ContainerState) bool { return s.Throughput.Serverless })
}

// isMixed reports whether containers were read before and after their account became provisioned.
func isMixed(seen []store.ContainerState) bool {
	return anyServerless(seen) &&
		slices.ContainsFunc(seen, func(s store.ContainerState) bool { return !s.Throughput.Serverless })
}

// noteCapacity keeps whether the account is serverless, and logs once that it has become provisioned.
func (p *Provisioner) noteCapacity(seen []store.ContainerState) {
	was := p.isServerless
	if p.isServerless = anyServerless(seen) || was && len(seen) == 0; !was || p.isServerless {
		return
	}
	rus := 0
	for _, s := range seen {
		rus += s.Throughput.RUs
	}
	p.cfg.Logger.Info("the account has become provisioned: its containers are taken over", "rus", rus,
		"dollars_per_hour", float64(rus)/100*ru.ManualPer100)
}

// Capacity returns the mode of the account as of the last look: provisioned or serverless.
func (p *Provisioner) Capacity() string {
	if p.isServerless {
		return "serverless"
	}
	return "provisioned"
}

// grew reports whether a container has what it got when its account became provisioned: manual throughput beyond what
// one of its kind is made with, or instead of autoscale. The mode can't be changed.
func grew(seen, made store.Throughput) bool {
	return seen.RUs > 0 && !seen.Autoscale && made.RUs > 0 &&
		(made.Autoscale || seen.RUs > made.RUs && seen.RUs%ru.GrownPerPartition == 0)
}

// follows reports whether the throughput of a container follows its load: that of hot chunks, and of the catalog, of
// heat and of rollups where it grew.
func (p Policy) follows(s store.ContainerState, base []store.ContainerState, now time.Time) bool {
	if _, of, ok := sharding.ParseContainer(s.Name); ok {
		return p.Tier(of, now) == Hot
	}
	if _, _, ok := sharding.ParseRollupsContainer(s.Name); ok {
		return grew(s.Throughput, store.Throughput{RUs: p.RollupsRUs, Autoscale: true})
	}
	return slices.ContainsFunc(base, func(b store.ContainerState) bool {
		return b.Name == s.Name && b.Throughput.Autoscale && grew(s.Throughput, b.Throughput)
	})
}

// takeOver brings down what a container without chunks got when its account became provisioned. It follows its load
// where one of its kind is made with autoscale, if anything does; else it gets what its kind is made with.
func (pl *planner) takeOver(s *Step, seen store.ContainerState, made store.Throughput) {
	if !grew(seen.Throughput, made) {
		return
	}
	rus, why := made.RUs, "its account was serverless"
	if made.Autoscale && pl.policy.Follow != nil {
		rus = seen.Throughput.RUs
		if load, known := pl.of.Loads[s.Container]; known {
			rus, why = pl.policy.Follow.Wanted(pl.now, seen, load, pl.of.Changed[s.Container])
		}
	}
	if s.Wanted = pl.policy.wanted(min(rus, seen.Throughput.RUs), seen); made.Autoscale && rus > seen.Throughput.RUs {
		s.Wanted = pl.policy.wanted(rus, seen)
	}
	if s.Wanted == s.Now {
		return
	}
	if s.Action, s.Why = Scale, why; seen.Pending {
		s.Waits = "a change is under way"
	}
}
