// Package heatmap makes the picture of the load that operators look at: the key space over time. Rows are first-level
// keys in the order of their hash, compacted to what a screen has; columns are steps of time, the forecast beyond now.
//
// A row is a key, and not a physical partition: so a split moves rows to another partition and invents no heat. Keys
// that were counted together, the rest of a slot, are shared among the partitions that the slot overlaps, by width.
package heatmap

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"binnacle/ingest/queue"
	"binnacle/internal/heat"
	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// Kind is what is shown.
type Kind string

// The kinds.
const (
	RUs       Kind = "rus"
	Bytes     Kind = "bytes"
	Throttled Kind = "throttled"
)

// Map is the heat of a container.
type Map struct {
	Container string      `json:"container"`
	Kind      Kind        `json:"kind"`
	From      int64       `json:"from"` // ms, of the first column
	Step      int64       `json:"step"` // ms
	Columns   int         `json:"columns"`
	Now       int         `json:"now"` // first column that is a forecast; Columns for none
	Ranges    []Partition `json:"ranges"`
	Rows      []Row       `json:"rows"`
	Keys      int         `json:"keys"`    // before they were compacted
	Folded    int         `json:"folded"`  // keys that processes counted together by slot
	Lost      float64     `json:"lostRUs"` // RU that could not be written, and are in no row
	Marks     []Mark      `json:"marks"`
	Findings  []string    `json:"findings"`
}

// Partition is a physical partition of the container as it is now.
type Partition struct {
	Min   string  `json:"min"`
	Max   string  `json:"max"`
	Start float64 `json:"start"` // place in the space of the hash, 0 to 1
	End   float64 `json:"end"`
	Sum   float64 `json:"sum"` // RU of the time shown, up to now
}

// Mark is drawn over the map: a split that this process has seen, or the first day of an epoch.
type Mark struct {
	At   int64  `json:"at"`   // ms
	Kind string `json:"kind"` // split, epoch
	Text string `json:"text"`
}

// Input is what a map is made of.
type Input struct {
	Kind     Kind
	Grid     heat.Grid
	Forecast heat.Forecast
	Ranges   []epk.Range
	Now      int64 // ms
	Rows     int   // at most
	Marks    []Mark
}

// New makes a map.
func New(in Input) Map {
	m := Map{Container: in.Grid.Container, Kind: in.Kind, From: in.Grid.From, Step: in.Grid.Step, Columns: in.Grid.Columns,
		Folded: in.Grid.Folded, Lost: in.Grid.Lost, Marks: in.Marks, Rows: []Row{}, Findings: []string{}}
	m.Now = int(min(int64(m.Columns), max(0, (in.Now-m.From+m.Step-1)/m.Step)))
	if in.Kind != RUs { // only RU are forecast
		m.Now = m.Columns
	}
	for _, r := range in.Ranges {
		m.Ranges = append(m.Ranges, Partition{Min: r.Min, Max: r.Max, Start: heat.Point(r.Min), End: heat.Point(r.Max)})
	}
	rows := m.rows(in)
	m.Keys = len(rows)
	for _, r := range Compact(rows, in.Rows) {
		for i, v := range r.Sums {
			r.Sums[i] = math.Round(1000*v) / 1000
			if i < m.Now {
				m.Ranges[r.Range].Sum += v
			}
		}
		m.Rows = append(m.Rows, r)
	}
	m.find(rows)
	if m.Marks == nil {
		m.Marks = []Mark{}
	}
	return m
}

// rows returns the rows of all keys, in the order of the hash.
func (m *Map) rows(in Input) (rows []Row) {
	sums := map[heat.Key][]float64{}
	add := func(k heat.Key) []float64 {
		if sums[k] == nil {
			sums[k] = make([]float64, m.Columns)
		}
		return sums[k]
	}
	for i := range in.Grid.Rows {
		r := &in.Grid.Rows[i]
		values := add(r.Key)
		for col := range min(len(r.Amounts), m.Now) {
			values[col] += amountOf(in.Kind, &r.Amounts[col])
		}
	}
	for i := range in.Forecast.Cells {
		if c := &in.Forecast.Cells[i]; in.Kind == RUs && c.Container == m.Container {
			m.expect(add(c.Key), in.Forecast, c)
		}
	}
	for k, values := range sums {
		rows = append(rows, m.placed(k, values)...)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(a.First, b.First)) })
	return rows
}

func amountOf(kind Kind, a *heat.Amount) float64 {
	switch kind {
	case Bytes:
		return float64(a.Bytes)
	case Throttled:
		return float64(a.Throttled)
	}
	return a.Total()
}

// expect adds the RU of a forecast to the columns from now on, each hour evenly.
func (m *Map) expect(values []float64, f heat.Forecast, c *heat.Expected) {
	for h, rus := range c.RUs {
		start, end := max(f.Start(h), f.At), f.Start(h+1)
		for col := m.Now; col < m.Columns && end > start; col++ {
			from := m.From + int64(col)*m.Step
			if over := min(end, from+m.Step) - max(start, from); over > 0 {
				values[col] += rus * float64(over) / float64(end-start)
			}
		}
	}
}

// placed returns the row of a key; of the rest of a slot one for each physical partition that it overlaps.
func (m *Map) placed(k heat.Key, values []float64) (rows []Row) {
	if k.Shard != "" {
		hash := epk.MultiHash(epk.String(k.Shard))
		at := heat.Point(hash)
		return []Row{{First: k.Shard, Last: k.Shard, Keys: 1, Range: m.rangeAt(at), At: at, Sums: values}}
	}
	start, end := float64(k.Slot)/sharding.Slots, float64(k.Slot+1)/sharding.Slots
	for i, p := range m.Ranges {
		from, to := max(start, p.Start), min(end, p.End)
		if to <= from {
			continue
		}
		share := make([]float64, len(values))
		for col, v := range values {
			share[col] = v * (to - from) / (end - start)
		}
		rows = append(rows, Row{Keys: 1, Range: i, At: from, Sums: share})
	}
	return rows
}

// rangeAt returns the physical partition at a place of the hash.
func (m *Map) rangeAt(at float64) int {
	i, exact := slices.BinarySearchFunc(m.Ranges, at, func(p Partition, at float64) int {
		return cmp.Compare(p.Start, at)
	})
	if exact {
		return i
	}
	return max(0, i-1)
}

// find describes in words what is unusual, the most important first.
func (m *Map) find(rows []Row) {
	total, hot := 0.0, 0
	for i, p := range m.Ranges {
		total += p.Sum
		if p.Sum > m.Ranges[hot].Sum {
			hot = i
		}
	}
	unit := map[Kind]string{RUs: "RU", Bytes: "bytes", Throttled: "429s"}[m.Kind]
	if total == 0 {
		m.Findings = append(m.Findings, fmt.Sprintf("No %s in this time.", unit))
		return
	}
	n := float64(len(m.Ranges))
	share := m.Ranges[hot].Sum / total
	most, name := 0.0, ""
	for _, r := range rows {
		sum := 0.0
		for _, v := range r.Sums[:m.Now] {
			sum += v
		}
		if sum > most && r.First != "" {
			most, name = sum, r.First
		}
	}
	switch {
	case len(m.Ranges) == 1:
		m.Findings = append(m.Findings, "The container has one physical partition.")
	case share*n > 1.15:
		m.Findings = append(m.Findings, fmt.Sprintf("Partition %d of %d takes %.0f %% of the %s, %.2f times the mean.", hot,
			len(m.Ranges), 100*share, unit, share*n))
	default:
		m.Findings = append(m.Findings, fmt.Sprintf("The %s are even: the hottest of %d partitions takes %.2f times the "+
			"mean.", unit, len(m.Ranges), share*n))
	}
	if name != "" && most/total*n > 0.5 {
		m.Findings = append(m.Findings, fmt.Sprintf("The key %s alone takes %.0f %%.", name, 100*most/total))
	}
	if m.Folded > 0 {
		m.Findings = append(m.Findings, fmt.Sprintf("%d keys were counted together, by slot.", m.Folded))
	}
	if m.Lost > 0 {
		m.Findings = append(m.Findings, fmt.Sprintf("%.0f RU could not be written as heat and are missing.", m.Lost))
	}
}

// Row is the heat of keys that are neighbours in the hash: at first one key, after Compact maybe several.
type Row struct {
	First string    `json:"first,omitempty"` // the first key; "" for keys without a name
	Last  string    `json:"last,omitempty"`  // the last key, First where there is one
	Keys  int       `json:"keys"`            // how many
	Range int       `json:"range"`           // physical partition, an index into the map's
	At    float64   `json:"at"`              // where the first key lies in the space of the hash, 0 to 1
	Sums  []float64 `json:"values"`          // one for each column
}

func (r *Row) total() (sum float64) {
	for _, v := range r.Sums {
		sum += v
	}
	return sum
}

// Compact merges neighbours until at most that many rows are left. Nothing is dropped: each column keeps its sum. The
// coldest neighbours are merged first, so that hot rows stay separate; rows of different physical partitions are not
// merged, which leaves one row for each partition.
func Compact(rows []Row, most int) []Row {
	nodes := make([]node, len(rows))
	for i := range rows {
		nodes[i] = node{Row: rows[i], total: rows[i].total(), before: i - 1, after: i + 1}
	}
	p := pairs{queue.NewHeap(func(p *pair) *int32 { return &p.place },
		func(p *pair) int64 { return int64(math.Float64bits(p.total)) })}
	for i := range nodes[:max(0, len(nodes)-1)] {
		p.offer(nodes, i)
	}
	for left := len(nodes); left > most && p.Len() > 0; {
		next := p.First()
		p.Remove(next)
		a, b := &nodes[next.first], &nodes[next.second]
		if a.gone || b.gone || a.version+b.version != next.version {
			continue
		}
		sums := slices.Clone(a.Sums)
		for i, v := range b.Sums {
			sums[i] += v
		}
		a.Sums, a.total, a.Last, a.Keys = sums, a.total+b.total, cmp.Or(b.Last, a.Last), a.Keys+b.Keys
		a.First = cmp.Or(a.First, b.First)
		a.after, b.gone = b.after, true
		a.version += b.version + 1
		if a.after < len(nodes) {
			nodes[a.after].before = next.first
		}
		left--
		p.offer(nodes, next.first)
		if a.before >= 0 {
			p.offer(nodes, a.before)
		}
	}
	var out []Row
	for i := range nodes {
		if !nodes[i].gone {
			out = append(out, nodes[i].Row)
		}
	}
	return out
}

// node is a row among its neighbours.
type node struct {
	Row
	total         float64
	before, after int
	version       int // grows with each merge
	gone          bool
}

// pair is two neighbours that may be merged.
type pair struct {
	first, second int
	total         float64
	version       int   // both rows' versions when they were weighed
	place         int32 // index in pairs
}

// pairs are the pairs, the coldest first.
type pairs struct{ queue.Heap[*pair] }

// offer adds a node and its neighbour, if they lie in the same physical partition.
func (p *pairs) offer(nodes []node, first int) {
	a := &nodes[first]
	if a.after >= len(nodes) || nodes[a.after].Range != a.Range {
		return
	}
	b := &nodes[a.after]
	p.Put(&pair{first: first, second: a.after, total: a.total + b.total, version: a.version + b.version})
}
