// Package provision keeps the containers of chunks in the shape that their age asks for: made before they are needed,
// with the throughput of their tier, dropped when no retention covers them.
//
// Plan is a pure function of time, policy and what was observed; Provisioner observes, plans and applies in a
// loop. The package knows nothing of Cosmos DB's protocol: it is given what manages containers. The tiers are
// explained in docs/operate/throughput.md.
package provision

import (
	"math"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/sharding"
)

// Tier is the throughput class of a container by the age of its month.
type Tier string

// The tiers, in the order in which a container passes through them. Base is the tier of containers without chunks.
const (
	Next    Tier = "next"
	Hot     Tier = "hot"
	Warm    Tier = "warm"
	Cold    Tier = "cold"
	Expired Tier = "expired"
	Base    Tier = "base"
)

// Policy says which containers there are, and how much throughput each has.
type Policy struct {
	// RU/s of a container in each tier; with Autoscale, the maximum.
	NextRUs int // its month has not begun
	HotRUs  int // its month is the current one, or ended a moment ago
	WarmRUs int // late readings and queries about the last weeks
	ColdRUs int // queries about long ago
	// SharedRUs is the least throughput that containers share, where they do.
	SharedRUs int
	// Follow lets the throughput of hot containers follow their load, from HotRUs on, and gives new containers the mode
	// that costs less; nil keeps it at HotRUs, and manual.
	Follow *Follow
	// PerPartition says that autoscale is billed by physical partition, as in accounts made after 2024-09-25 (Azure
	// Cosmos DB docs, provision-throughput-autoscale).
	PerPartition bool
	// RollupsRUs is the autoscale maximum of the containers of rollups, one for each container of chunks; 0 makes none.
	RollupsRUs int

	Ahead       time.Duration // how long before its first day a container is made
	RaiseBefore time.Duration // how long before its month begins a container is hot
	HotFor      time.Duration // how long after its month's end a container stays hot
	WarmFor     time.Duration // how long it is warm after that
	// Grace is how long a container is kept after the end of the last retention, and after it was asked for.
	Grace time.Duration

	// MaxRUs is the most throughput of all containers of the account together; of autoscale the maximum counts. What is
	// bought already stays. 0: ten times what the first plan of a Provisioner wants, at least 10,000.
	MaxRUs int
	// MaxContainers is the most databases and containers of the account: 500 (Azure Cosmos DB docs, concepts-limits).
	MaxContainers int
	// MaxChanges is the most changes of throughput in any ChangesWithin: 25 in 5 minutes for an account (same source).
	MaxChanges    int
	ChangesWithin time.Duration
}

// DefaultPolicy returns for a small production account.
func DefaultPolicy() Policy {
	return Policy{
		NextRUs: 400, HotRUs: 4000, WarmRUs: 1000, ColdRUs: 400, SharedRUs: 400,
		Ahead: 72 * time.Hour, RaiseBefore: time.Hour, HotFor: 48 * time.Hour, WarmFor: 60 * 24 * time.Hour,
		Grace:         24 * time.Hour,
		MaxContainers: 500, MaxChanges: 25, ChangesWithin: 5 * time.Minute,
	}
}

// DevPolicy returns the policy for one machine and a few devices: small budgets, each tier with another one.
func DevPolicy() Policy {
	p := DefaultPolicy()
	p.HotRUs, p.WarmRUs = 2000, 800
	return p
}

// Validate reports every fault of the throughput that flags set.
func (p Policy) Validate() error {
	var faults settings.Faults
	step, least := int(ru.Step(false)), int(ru.Floor(0, 0, false))
	for _, t := range []struct {
		tier Tier
		rus  int
	}{{Next, p.NextRUs}, {Hot, p.HotRUs}, {Warm, p.WarmRUs}, {Cold, p.ColdRUs}} {
		faults.Check(t.rus >= least && t.rus%step == 0, "%d RU/s of tier %s: at least %d in steps of %d", t.rus, t.tier,
			least, step)
	}
	ofRollups, steps := int(ru.Floor(0, 0, true)), int(ru.Step(true))
	faults.Check(p.RollupsRUs == 0 || p.RollupsRUs >= ofRollups && p.RollupsRUs%steps == 0,
		"%d RU/s for rollups: at least %d in steps of %d, or none", p.RollupsRUs, ofRollups, steps)
	faults.Check(p.MaxRUs >= 0, "%d RU/s at most for all containers: must not be negative", p.MaxRUs)
	faults.Check(p.SharedRUs >= least && p.SharedRUs%step == 0, "%d RU/s to share: at least %d in steps of %d",
		p.SharedRUs, least, step)
	return faults.Err()
}

// Tier returns the tier of a container of a span at now, as far as age decides.
func (p Policy) Tier(of sharding.Span, now time.Time) Tier {
	r, at := of.Range(), now.UnixMilli()
	hotUntil := r.To + p.HotFor.Milliseconds()
	switch {
	case at < r.From-p.RaiseBefore.Milliseconds():
		return Next
	case at < hotUntil:
		return Hot
	case at < hotUntil+p.WarmFor.Milliseconds():
		return Warm
	}
	return Cold
}

func (p Policy) rus(t Tier) int {
	switch t {
	case Next:
		return p.NextRUs
	case Hot:
		return p.HotRUs
	case Warm:
		return p.WarmRUs
	}
	return p.ColdRUs
}

// growthRoom is by how much a container's load may grow, within its physical partitions, over what the one before it
// has: throughput that follows the load is not raised beyond them.
const growthRoom = 1.5

// birth returns the throughput that a container is made with. One that will be hot gets as many physical partitions as
// that takes, since a raise beyond them would split for hours; the next round lowers it to its tier. Physical
// partitions never go away.
//
// hot is the throughput that it will have when it is hot, autoscale its mode.
func (p Policy) birth(t Tier, hot int, autoscale bool) store.Throughput {
	rus := p.rus(t)
	if t == Hot {
		rus = hot
	}
	rus = int(ru.Sold(float64(rus), autoscale))
	if t == Next {
		room := float64(hot)
		if p.Follow != nil {
			room *= growthRoom
		}
		partitions := int(math.Ceil(room / ru.PartitionRUs))
		for ru.Partitions(float64(rus), autoscale) < partitions {
			rus += int(ru.Step(autoscale))
		}
	}
	return store.Throughput{RUs: rus, Autoscale: autoscale}
}

// wanted returns throughput for an existing container: in the steps of its mode, and no less than the service
// accepts.
func (p Policy) wanted(rus int, seen store.ContainerState) store.Throughput {
	return store.Throughput{RUs: rounded(seen, float64(rus)), Autoscale: seen.Throughput.Autoscale}
}
