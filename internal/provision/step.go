package provision

import (
	"binnacle/internal/charges/ru"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/sharding"
)

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
