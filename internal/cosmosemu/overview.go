package cosmosemu

import (
	"cmp"
	"math"
	"slices"
	"time"

	"binnacle/internal/cosmosemu/budget"
)

// Overview is the account as the page at /_emulator shows it. All request units are modelled.
type Overview struct {
	Note       string              `json:"note"` // says so
	Now        time.Time           `json:"now"`  // by the Server's clock
	Unlimited  bool                `json:"unlimited"`
	Metadata   BudgetOverview      `json:"metadata"`
	Containers []ContainerOverview `json:"containers"`
}

// BudgetOverview is a budget and what was charged to it, in request units.
type BudgetOverview struct {
	Budget     float64 `json:"budgetRUs"` // a second
	LastSecond float64 `json:"lastSecondRUs"`
	LastMinute float64 `json:"lastMinuteRUs"`
	Throttled  int64   `json:"throttled"` // answered 429
}

// ContainerOverview is one container. Splits counts the physical partitions that are no more.
type ContainerOverview struct {
	Database   string              `json:"database"`
	Container  string              `json:"container"`
	Throughput ThroughputOverview  `json:"throughput"`
	Items      int64               `json:"items"`
	Bytes      int64               `json:"bytes"`
	Splits     int                 `json:"splits"`
	LastSecond float64             `json:"lastSecondRUs"`
	LastMinute float64             `json:"lastMinuteRUs"`
	Throttled  int64               `json:"throttled"`
	Partitions []PartitionOverview `json:"partitions"`
}

// ThroughputOverview is what is provisioned: for the container, or for its whole database when shared.
// Scaled is what autoscale was at in the last whole second, ScaledHour the most in the current hour of
// the clock: the sum over physical partitions, as in accounts with dynamic scaling. With manual
// throughput they are all the same.
type ThroughputOverview struct {
	RUs        float64 `json:"rus"` // manual RU/s, or the autoscale maximum
	Autoscale  bool    `json:"autoscale"`
	Shared     bool    `json:"shared"`
	Pending    bool    `json:"pending"` // waits for splits
	Minimum    float64 `json:"minimumRUs"`
	Scaled     float64 `json:"scaledRUs"`
	ScaledHour float64 `json:"scaledHourRUs"`
}

// PartitionOverview is one physical partition. Heat is a strip over the last ten minutes, the oldest
// cell first: in each, the share of the budget that its busiest second was charged, 1 being all of it,
// and more than 1 what a second was overdrawn by.
type PartitionOverview struct {
	ID          string    `json:"id"`
	Min         string    `json:"minInclusive"`
	Max         string    `json:"maxExclusive"`
	Parents     []string  `json:"parents"`
	Items       int64     `json:"items"`
	Bytes       int64     `json:"bytes"`
	Budget      float64   `json:"budgetRUs"`
	LastSecond  float64   `json:"lastSecondRUs"`
	LastMinute  float64   `json:"lastMinuteRUs"`
	Peak        float64   `json:"peakRUs"` // in one second, since the Server was opened
	Requests    int64     `json:"requests"`
	Throttled   int64     `json:"throttled"`
	CellSeconds int       `json:"cellSeconds"`
	Heat        []float64 `json:"heat"`
	Refused     []int     `json:"refused"` // answered 429, by cell
}

// cellSeconds is how long a cell of a heat strip is.
const cellSeconds = 5

// Overview tells what every container of the account holds and does.
func (s *Server) Overview() Overview {
	now := s.cfg.Now()
	out := Overview{
		Note: "request units are modelled", Now: now.UTC(), Unlimited: s.cfg.Unlimited, Containers: []ContainerOverview{},
	}
	master := s.masterMeter.Totals(now)
	out.Metadata = BudgetOverview{s.master.PerSecond(), master.LastSecond, master.LastMinute, master.Throttled}
	s.catalog.mu.RLock()
	defer s.catalog.mu.RUnlock()
	for _, db := range s.catalog.databases {
		for _, co := range db.containers {
			out.Containers = append(out.Containers, co.overview(now))
		}
	}
	slices.SortFunc(out.Containers, func(a, b ContainerOverview) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Container, b.Container))
	})
	return out
}

// overview is the container's. catalog.mu is held.
func (c *container) overview(now time.Time) ContainerOverview {
	out := ContainerOverview{Database: c.database.id, Container: c.record.Definition.ID, Partitions: []PartitionOverview{}}
	o := owned{c.record.Offer, c.database, c}
	if o.offer == nil {
		o = owned{c.database.record.Offer, c.database, nil}
		out.Throughput.Shared = true
	}
	out.Throughput.fill(o, now)
	gone := map[string]bool{}
	for _, p := range c.parts() {
		v := p.overview(now)
		for _, id := range v.Parents {
			gone[id] = true
		}
		out.Items += v.Items
		out.Bytes += v.Bytes
		out.LastSecond += v.LastSecond
		out.LastMinute += v.LastMinute
		out.Throttled += v.Throttled
		out.Partitions = append(out.Partitions, v)
	}
	out.Splits = len(gone)
	return out
}

func (t *ThroughputOverview) fill(o owned, now time.Time) {
	t.RUs, t.Autoscale, t.Minimum, t.Pending = o.offer.RUs, o.offer.Autoscale, o.floor(), o.offer.Pending != nil
	t.Scaled, t.ScaledHour = t.RUs, t.RUs
	if !t.Autoscale {
		return
	}
	t.Scaled, t.ScaledHour = 0, 0
	for _, b := range o.budgets() {
		second, hour := b.Scale(now)
		t.Scaled += second
		t.ScaledHour += hour
	}
}

// stats is what the partition holds and has done.
func (p *partition) stats(now time.Time) PartitionStats {
	p.mu.Lock()
	s := PartitionStats{ID: p.id, Min: p.keys.Min, Max: p.keys.Max, Items: p.count.items, Bytes: p.count.bytes}
	p.mu.Unlock()
	s.Budget = p.budget.PerSecond()
	t := p.meter.Totals(now)
	s.RUs, s.Requests, s.Throttled = t.RUs, t.Requests, t.Throttled
	s.LastSecond, s.LastMinute, s.Peak = t.LastSecond, t.LastMinute, t.Peak
	return s
}

func (p *partition) overview(now time.Time) PartitionOverview {
	s := p.stats(now)
	out := PartitionOverview{
		ID: s.ID, Min: s.Min, Max: s.Max, Parents: []string{}, Items: s.Items, Bytes: s.Bytes, Budget: s.Budget,
		LastSecond: s.LastSecond, LastMinute: s.LastMinute, Peak: s.Peak, Requests: s.Requests, Throttled: s.Throttled,
		CellSeconds: cellSeconds, Heat: make([]float64, budget.HistorySeconds/cellSeconds), Refused: make([]int, budget.HistorySeconds/cellSeconds),
	}
	for _, a := range p.ancestors {
		out.Parents = append(out.Parents, a.ID)
	}
	// Cells begin at multiples of their length, so that they do not change as the strip moves on.
	first := now.Unix() - budget.HistorySeconds
	oldest := (first+budget.HistorySeconds-1)/cellSeconds - int64(len(out.Heat)) + 1
	for i, m := range p.meter.Last(now, budget.HistorySeconds) {
		cell := (first+int64(i))/cellSeconds - oldest
		if cell < 0 {
			continue // half of a cell that has left the strip
		}
		share := math.Round(1000*float64(m.RUs)/s.Budget) / 1000
		out.Heat[cell] = max(out.Heat[cell], share)
		out.Refused[cell] += int(m.Throttled)
	}
	return out
}
