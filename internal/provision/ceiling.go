package provision

import (
	"context"
	"fmt"

	"binnacle/internal/charges/ru"
)

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
