package emulator

import (
	"math"
	"time"

	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/engine"
)

// Overview is the account as the page at /_emulator shows it. All request units are modelled.
type Overview struct {
	Note string `json:"note"` // says so
	// Now is the time by the Server's clock.
	Now        time.Time           `json:"now"`
	Unlimited  bool                `json:"unlimited"`
	Faults     int                 `json:"faults"` // rules by which it fails on purpose
	Metadata   BudgetOverview      `json:"metadata"`
	Containers []ContainerOverview `json:"containers"`
}

// BudgetOverview is a budget and what was charged to it, in request units.
type BudgetOverview struct {
	Budget float64 `json:"budgetRUs"` // a second
	budget.Totals
}

// ContainerOverview is one container. Splits counts the physical partitions that are no more.
type ContainerOverview struct {
	Database   string              `json:"database"`
	Container  string              `json:"container"`
	Throughput engine.Provision    `json:"throughput"`
	Items      int64               `json:"items"`
	Bytes      int64               `json:"bytes"`
	Splits     int                 `json:"splits"`
	LastSecond float64             `json:"lastSecondRUs"`
	LastMinute float64             `json:"lastMinuteRUs"`
	Throttled  int64               `json:"throttled"`
	Partitions []PartitionOverview `json:"partitions"`
}

// PartitionOverview is one physical partition. Heat is a bar over the last ten minutes, the oldest
// cell first: in each, the share of the budget that its busiest second was charged, 1 being all of it,
// and more than 1 what a second was overdrawn by.
type PartitionOverview struct {
	engine.State
	CellSeconds int       `json:"cellSeconds"`
	Heat        []float64 `json:"heat"`
	Refused     []int     `json:"refused"` // answered 429, by cell
}

// cellSeconds is how long a cell of a heat bar is.
const cellSeconds = 5

// Overview returns what every container of the account holds and does.
func (s *Server) Overview() Overview {
	now := s.cfg.Now()
	out := Overview{
		Note: "request units are modelled", Now: now.UTC(), Unlimited: s.cfg.Unlimited,
		Faults: len(s.faults.State().Rules), Containers: []ContainerOverview{},
		Metadata: BudgetOverview{s.master.PerSecond(), s.masterMeter.Totals(now)},
	}
	for _, co := range s.account.Containers() {
		out.Containers = append(out.Containers, overview(co, now))
	}
	return out
}

func overview(co *engine.Container, now time.Time) ContainerOverview {
	out := ContainerOverview{
		Throughput: co.Provision(now), Partitions: []PartitionOverview{},
	}
	out.Database, out.Container = co.Names()
	gone := map[string]bool{}
	for _, p := range co.States(now) {
		for _, id := range p.Parents {
			gone[id] = true
		}
		out.Items += p.Items
		out.Bytes += p.Bytes
		out.LastSecond += p.LastSecond
		out.LastMinute += p.LastMinute
		out.Throttled += p.Throttled
		out.Partitions = append(out.Partitions, overviewOf(p, now))
	}
	out.Splits = len(gone)
	return out
}

func overviewOf(p engine.State, now time.Time) PartitionOverview {
	const cells = budget.HistorySeconds / cellSeconds
	out := PartitionOverview{
		State: p, CellSeconds: cellSeconds, Heat: make([]float64, cells), Refused: make([]int, cells),
	}
	// Cells begin at multiples of their length, so that they do not change as the bar moves on.
	first := now.Unix() - budget.HistorySeconds
	oldest := (first+budget.HistorySeconds-1)/cellSeconds - cells + 1
	out.History = nil // the bar shows it
	for i, m := range p.History {
		cell := (first+int64(i))/cellSeconds - oldest
		if cell < 0 {
			continue // half of a cell that has left the bar
		}
		share := math.Round(1000*float64(m.RUs)/p.Budget) / 1000
		out.Heat[cell] = max(out.Heat[cell], share)
		out.Refused[cell] += int(m.Throttled)
	}
	return out
}
