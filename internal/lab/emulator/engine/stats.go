package engine

import (
	"sync"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
)

// Stats is what one physical partition holds and has done since the Server was opened, or
// since ResetStats.
type Stats struct {
	ID    string `json:"id"`
	Min   string `json:"minInclusive"` // effective partition keys
	Max   string `json:"maxExclusive"`
	Items int64  `json:"items"` // stored, expired ones that are not removed yet included
	// Bytes is the size of the items' minified JSON without system properties.
	Bytes int64 `json:"bytes"`
	// Budget is RU/s; containers of a database with shared throughput share it.
	Budget float64 `json:"budgetRUs"`
	budget.Totals
	// Interval bounds the charged request units.
	Interval ru.Interval `json:"chargedInterval"`
}

// bill is what a partition has charged by all models. It is safe for concurrent use.
type bill struct {
	mu  sync.Mutex
	sum ru.Interval
}

func (b *bill) add(rus ru.Interval) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum = b.sum.Plus(rus)
}

func (b *bill) total() ru.Interval {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum
}

func (b *bill) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum = ru.Interval{}
}

func (p *partition) stats(now time.Time) Stats {
	s := Stats{ID: p.ID, Min: p.Min, Max: p.Max}
	p.mu.Lock()
	s.Items, s.Bytes = p.count.items, p.count.bytes
	p.mu.Unlock()
	s.Budget = p.budget.PerSecond()
	s.Totals, s.Interval = p.meter.Totals(now), p.bill.total()
	return s
}

// Stats returns what the physical partitions hold and have done, in the order of their ranges.
func (c *Container) Stats(now time.Time) []Stats { return statsOf(c.parts(), now) }

// RetiredStats returns what the physical partitions that were split since the account was opened had done
// until then. They hold nothing.
func (c *Container) RetiredStats(now time.Time) []Stats {
	out := statsOf(c.past(), now)
	for i := range out {
		out[i].Items, out[i].Bytes, out[i].Budget = 0, 0, 0
	}
	return out
}

func statsOf(parts []*partition, now time.Time) []Stats {
	out := make([]Stats, len(parts))
	for i, p := range parts {
		out[i] = p.stats(now)
	}
	return out
}

// State is a physical partition with where it came from and what it did in the last
// budget.HistorySeconds.
type State struct {
	Stats
	Parents []string        `json:"parents"` // ids of the partitions that it came from by splits, the oldest first
	History []budget.Second `json:"-"`
}

// States returns the physical partitions in the order of their ranges.
func (c *Container) States(now time.Time) []State {
	parts := c.parts()
	out := make([]State, len(parts))
	for i, p := range parts {
		out[i] = State{p.stats(now), p.parents(), p.meter.Last(now, budget.HistorySeconds)}
	}
	return out
}

// Range is a physical partition as clients route by it.
type Range struct {
	ID       string
	Min, Max string   // effective partition keys, half-open
	Parents  []string // ids of the partitions that it came from by splits, the oldest first
	Since    int      // number of the split that made it; 0 for none
	// LSN is the sequence number of the last write.
	LSN uint64
}

// Ranges returns the physical partitions in the order of their ranges.
func (c *Container) Ranges() []Range {
	parts := c.parts()
	out := make([]Range, len(parts))
	for i, p := range parts {
		out[i] = Range{p.ID, p.Min, p.Max, p.parents(), p.Since, p.sequence.last.Load()}
	}
	return out
}

func (p *partition) parents() []string {
	out := make([]string, len(p.Parents))
	for i, a := range p.Parents {
		out[i] = a.ID
	}
	return out
}
