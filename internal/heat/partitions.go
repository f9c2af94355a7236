// Package heat has the forms of the load: RU, bytes and 429s by first-level key and minute, the RU of devices by day,
// and the RU that is expected by the hour. It encodes and decodes their documents, adds them up, thins them, and
// spreads them over physical partitions.
//
// It is pure: it knows neither a store nor a clock. docs/internals/format/heat.md has the documents.
package heat

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// Partition is the heat of a physical partition, or of any range of the partition hash space.
type Partition struct {
	Range    epk.Range
	Sum      Amount
	Busiest  float64 // RU of the column that has most
	Expected [ForecastHours]float64
	Keys     []KeySum // the hottest first
}

// KeySum is what a key took in a partition.
type KeySum struct {
	Key
	Amount
}

// OnPartitions returns the heat of ranges: of the rows of a grid, and of what is expected. A key lies in the range of
// its hash; where a split has cut inside it, its heat is spread evenly over its ranges. Keys without a name are spread
// over their slot.
func OnPartitions(g Grid, expected []Expected, ranges []epk.Range) []Partition {
	out := make([]Partition, len(ranges))
	for i, r := range ranges {
		out[i].Range = r
	}
	for i := range g.Rows {
		row := &g.Rows[i]
		total := row.Total()
		for p, part := range partsOf(row.Key, ranges) {
			if part == 0 {
				continue
			}
			share := total.times(part)
			out[p].Sum.Add(&share)
			out[p].Keys = append(out[p].Keys, KeySum{row.Key, share})
		}
	}
	for _, e := range expected {
		for p, part := range partsOf(e.Key, ranges) {
			for h, rus := range e.RUs {
				out[p].Expected[h] += part * rus
			}
		}
	}
	for p, columns := range ByPartition(g, ranges) {
		if g.Columns > 0 {
			out[p].Busiest = slices.Max(columns)
		}
		slices.SortStableFunc(out[p].Keys, func(a, b KeySum) int { return cmp.Compare(b.Total(), a.Total()) })
	}
	return out
}

// Needed returns, for each column of a grid, the RU that all ranges together would take if each took as much as the
// hottest one: throughput is given to physical partitions in equal parts.
func Needed(g Grid, ranges []epk.Range) []float64 {
	out := make([]float64, g.Columns)
	for _, columns := range ByPartition(g, ranges) {
		for c := range out {
			out[c] = max(out[c], columns[c]*float64(len(ranges)))
		}
	}
	return out
}

// ByPartition returns the RU of every range by column of a grid.
func ByPartition(g Grid, ranges []epk.Range) [][]float64 {
	out := make([][]float64, len(ranges))
	for p := range out {
		out[p] = make([]float64, g.Columns)
	}
	for i := range g.Rows {
		for p, part := range partsOf(g.Rows[i].Key, ranges) {
			for c := range g.Rows[i].Amounts {
				out[p][c] += part * g.Rows[i].Amounts[c].Total()
			}
		}
	}
	return out
}

func (a *Amount) times(part float64) (out Amount) {
	for k, r := range a.RUs {
		out.RUs[k] = r * part
	}
	out.Bytes, out.Throttled = int64(math.Round(float64(a.Bytes)*part)), int64(math.Round(float64(a.Throttled)*part))
	return out
}

func partsOf(k Key, ranges []epk.Range) []float64 {
	parts := make([]float64, len(ranges))
	sum := 0.0
	if k.Shard == "" {
		from, to := float64(k.Slot)/sharding.Slots, float64(k.Slot+1)/sharding.Slots
		for i, r := range ranges {
			parts[i] = max(0, min(to, Point(r.Max))-max(from, Point(r.Min)))
			sum += parts[i]
		}
	} else {
		prefix := epk.MultiHash(epk.String(k.Shard))
		all := epk.Range{Min: prefix, Max: prefix + epk.Max}
		for i, r := range ranges {
			if r.Overlaps(all) {
				parts[i] = 1
				sum++
			}
		}
	}
	if sum > 0 {
		for i := range parts {
			parts[i] /= sum
		}
	}
	return parts
}

// Point returns where an effective partition key lies in the space, 0 to 1.
func Point(key string) float64 {
	if key == epk.Max {
		return 1
	}
	// digits is the precision of a float64.
	const digits = 13
	head := (key + "0000000000000")[:digits]
	n, err := strconv.ParseUint(head, 16, 64)
	if err != nil {
		return 0 // no key that the service makes
	}
	return math.Ldexp(float64(n), 2-4*digits)
}

// Kind is the kind of work that request units were charged for.
type Kind uint8

// The kinds. Their numbers stand in documents.
const (
	ChunkWrites Kind = iota
	ChunkReads
	RollupReads
	RollupWrites
	Catalog
	// LookUps are requests of ingesters for tails of chains, and for chunks that exist.
	LookUps
	Backfills // chunks of days long past
	Kinds     = int(iota)
)

var kindNames = [Kinds]string{"chunkWrites", "chunkReads", "rollupReads", "rollupWrites", "catalog", "lookUps",
	"backfills"}

// String returns the kind's name, as documents of the API have it.
func (k Kind) String() string {
	if int(k) < Kinds {
		return kindNames[k]
	}
	return "unknown"
}

// Amount counts the requests of a key in some time.
type Amount struct {
	RUs [Kinds]float64
	// Bytes counts the bytes of stored documents.
	Bytes     int64
	Throttled int64 // answers 429
}

// Total returns the RU of all kinds.
func (a *Amount) Total() (rus float64) {
	for _, r := range a.RUs {
		rus += r
	}
	return rus
}

// Add adds b to a.
func (a *Amount) Add(b *Amount) {
	for k, r := range b.RUs {
		a.RUs[k] += r
	}
	a.Bytes += b.Bytes
	a.Throttled += b.Throttled
}

// IsZero reports whether nothing was counted.
func (a *Amount) IsZero() bool { return *a == Amount{} }

// Charge is what one answer of the store cost, and for what.
type Charge struct {
	Container string
	Shard     string // first-level key
	Device    string // "" where it is none's alone
	Kind      Kind
	RUs       float64
	// Bytes is the size of the stored document; 0 if none was stored.
	Bytes     int
	Throttled bool
}
