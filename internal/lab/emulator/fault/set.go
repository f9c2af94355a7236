package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Set is the rules of one emulator. The zero value has none. It is safe for concurrent use.
type Set struct {
	some atomic.Bool // there are rules

	mu      sync.Mutex
	rules   []*counted // mu guards all below
	seed    uint64
	changed chan struct{} // closed when the rules change; nil without rules
}

// counted is a rule with its counts and its source of chance.
type counted struct {
	Rule
	matched int
	hits    int
	chance  *rand.Rand
}

// Counts is a rule with its counts since it was set.
type Counts struct {
	Rule
	// Matched counts the requests that the rule covers.
	Matched int `json:"matched"`
	// Hits counts the matched requests that the rule hit.
	Hits int `json:"hits"`
}

// State is the rules of a Set. The same rules with the same seed do the same to the same requests.
type State struct {
	Seed  uint64   `json:"seed"`
	Rules []Counts `json:"rules"`
}

// Effect is what a rule does to one request.
type Effect struct {
	Rule
	Latency time.Duration // with its jitter
	// Changed is closed when the rules change: nothing waits any longer then.
	Changed <-chan struct{}
}

// Replace replaces all rules, if all of the new ones are valid. When several rules hit a request, the first one
// counts. The seed decides all that depends on chance.
func (s *Set) Replace(seed uint64, rules ...Rule) error {
	var all []error
	next := make([]*counted, len(rules))
	for i, r := range rules {
		for _, err := range r.mistakes() {
			all = append(all, fmt.Errorf("rule %d: %w", i, err))
		}
		next[i] = &counted{Rule: r, chance: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	s.rules, s.seed = next, seed
	if len(next) > 0 {
		s.changed = make(chan struct{})
	}
	s.some.Store(len(next) > 0)
	return nil
}

// Clear removes all rules.
func (s *Set) Clear() {
	if err := s.Replace(0); err != nil {
		panic("fault: no rules are invalid: " + err.Error())
	}
}

// State returns the rules with their counts.
func (s *Set) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := State{Seed: s.seed, Rules: make([]Counts, len(s.rules))}
	for i, r := range s.rules {
		out.Rules[i] = Counts{r.Rule, r.matched, r.hits}
	}
	return out
}

// On reports whether there are rules. It costs next to nothing.
func (s *Set) On() bool { return s.some.Load() }

// Match returns what happens to a request, and reports whether anything does.
func (s *Set) Match(q Request) (Effect, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rules {
		if r.matches(q) && r.hit() {
			latency := time.Duration(r.LatencyMs) * time.Millisecond
			if r.JitterMs > 0 {
				latency += time.Duration(r.chance.Int64N(int64(r.JitterMs)*int64(time.Millisecond) + 1))
			}
			return Effect{Rule: r.Rule, Latency: latency, Changed: s.changed}, true
		}
	}
	return Effect{}, false
}

func (c *counted) hit() bool {
	c.matched++
	switch {
	case c.matched <= c.Skip, c.Count > 0 && c.hits >= c.Count:
		return false
	case c.Probability > 0 && c.chance.Float64() >= c.Probability:
		return false
	}
	c.hits++
	return true
}
