package provision

import (
	"context"
	"fmt"
	"slices"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
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

// Action is what a step does to a container.
type Action string

// The actions.
const (
	None   Action = "-"
	Create Action = "create"
	Scale  Action = "scale"
	// Keep marks the month as asked for: it was expired, or it was not asked for before.
	Keep   Action = "keep"
	Expire Action = "expire" // tell writers to keep off; a later round drops it
	Drop   Action = "drop"
)

// Step is what the plan says about one container.
type Step struct {
	Container string
	Tier      Tier
	Action    Action
	Now       store.Throughput // zero when the container is not there
	// Wanted is zero for a container that must go.
	Wanted store.Throughput
	GB     float64 // data and index, as far as they are known
	Waits  string  // why the action is not done now; empty when it is
	Why    string  // why something is done; empty when nothing is
	Beyond int     // RU/s that are wanted beyond Policy.MaxRUs, and not bought

	// month is the stored month of the container, or of its chunks' container, at the time of the decision.
	month control.Month
}

func (s Step) bill(t store.Throughput) ru.Bill {
	if t == (store.Throughput{}) {
		return ru.Bill{} // there is no container
	}
	return ru.Price(Priced(store.ContainerState{Name: s.Container, Throughput: t, GB: s.GB}))
}

func (s Step) ofRollups() bool {
	_, _, ok := sharding.ParseRollupsContainer(s.Container)
	return ok
}

// raise reports whether the step adds throughput to a container that is there.
func (s Step) raise() bool { return s.Action == Scale && s.Wanted.RUs > s.Now.RUs }

// after returns what the container has when the step was done, or was not.
func (s Step) after() store.Throughput {
	if s.Waits != "" || s.Action == Keep || s.Action == Expire {
		return s.Now
	}
	return s.Wanted
}

// The ceiling of what is bought where Policy.MaxRUs says none.
const (
	ceilingFactor = 10     // times what the plan at the start of the process wants
	leastCeiling  = 10_000 // RU/s: what one physical partition serves
)

func ceilingOf(steps []Step) int {
	sum := 0
	for i := range steps {
		sum += steps[i].Wanted.RUs
	}
	return max(leastCeiling, ceilingFactor*sum)
}

// bound lowers what a step buys to the rest under the ceiling, and returns how much of that it takes. A container
// that does not even get the least that the service sells waits.
func (p Policy) bound(s *Step, left int) (takes int) {
	buys := s.Action == Scale || s.Action == Create
	more := s.Wanted.RUs - s.Now.RUs
	if p.MaxRUs <= 0 || s.Waits != "" || !buys || more <= 0 {
		return 0
	}
	isThere := s.Action == Create && s.Tier == Base && !s.ofRollups() // or is as every account has it
	if more <= left || isThere {
		return more
	}
	auto := s.Wanted.Autoscale
	step, least := int(ru.Step(auto)), s.Now.RUs+1
	if s.Action == Create {
		least = int(ru.Floor(0, 0, auto))
	}
	wanted := s.Wanted.RUs
	fits := (s.Now.RUs + max(0, left)) / step * step
	s.Why += fmt.Sprintf("; %d RU/s are wanted, and all containers together may have %d (--max-rus)", wanted, p.MaxRUs)
	if fits < least {
		s.Waits, s.Beyond = atCeiling, more
		return 0
	}
	s.Wanted.RUs, s.Beyond = fits, wanted-fits
	return fits - s.Now.RUs
}

// atCeiling is why a step waits that would buy more than all containers together may have.
const atCeiling = "--max-rus is reached"

// reportCeiling logs that the ceiling holds back what is wanted, and that it does no more.
func (p *Provisioner) reportCeiling(ctx context.Context, steps []Step) {
	bought, beyond := 0, 0
	for i := range steps {
		bought += steps[i].after().RUs
		beyond += steps[i].Beyond
	}
	p.metrics.beyond.Set(float64(beyond))
	if was := p.isBound; was == (beyond > 0) {
		return
	}
	if p.isBound = beyond > 0; p.isBound {
		p.cfg.Logger.WarnContext(ctx, "throughput is at its ceiling: more is wanted than --max-rus lets all containers have",
			"max_rus", p.cfg.Policy.MaxRUs, "rus", bought, "wanted_beyond", beyond)
		return
	}
	p.cfg.Logger.InfoContext(ctx, "throughput is below its ceiling again", "max_rus", p.cfg.Policy.MaxRUs, "rus", bought)
}

// MaxRUs returns the ceiling of what is bought; 0 before the first plan where the policy has none.
func (p *Provisioner) MaxRUs() int { return p.cfg.Policy.MaxRUs }
