package heatmap

import (
	"cmp"
	"slices"

	"binnacle/ingest/queue"
)

// Row is the heat of keys that are neighbours in the hash: at first one key, after Compact maybe several.
type Row struct {
	First string    // the first key; "" for keys without a name
	Last  string    // the last key, First where there is one
	Keys  int       // how many
	Range int       // physical partition, an index into the map's
	At    float64   // where the first key lies in the space of the hash, 0 to 1
	Sums  []float64 // one for each column
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
	p := newPairs()
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

func newPairs() pairs {
	return pairs{queue.NewHeap(func(p *pair) *int32 { return &p.place }, func(a, b *pair) bool {
		return cmp.Or(cmp.Compare(a.total, b.total), cmp.Compare(a.first, b.first)) < 0
	})}
}

// offer adds a node and its neighbour, if they lie in the same physical partition.
func (p *pairs) offer(nodes []node, first int) {
	a := &nodes[first]
	if a.after >= len(nodes) || nodes[a.after].Range != a.Range {
		return
	}
	b := &nodes[a.after]
	p.Put(&pair{first: first, second: a.after, total: a.total + b.total, version: a.version + b.version})
}
