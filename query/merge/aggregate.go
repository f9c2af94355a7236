package merge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
)

// Aggregate is a function of the values that a group has in a bucket, defined in docs/reference/api.md.
type Aggregate struct {
	name     string
	of       func(*bucket, *Aggregate) float64 // NaN for none
	needs    needs
	quantile float64
}

// String returns its name.
func (a Aggregate) String() string { return a.name }

// needs lists the state of a bucket that an aggregate uses beside count, least, greatest and sum.
type needs struct {
	ends    bool // the first and the last value
	moments bool // for the standard deviation
	values  bool // every value
	pairs   bool // differences between consecutive values of a series
}

func (n needs) with(m needs) needs {
	return needs{n.ends || m.ends, n.moments || m.moments, n.values || m.values, n.pairs || m.pairs}
}

// none marks an absent value. Aggregates ignore values that are not finite, so no value equals it.
var none = math.NaN()

// aggregates are those with a name of their own.
var aggregates = []Aggregate{
	{name: "count", of: func(b *bucket, _ *Aggregate) float64 { return float64(b.count) }},
	{name: "min", of: func(b *bucket, _ *Aggregate) float64 { return b.number(b.least) }},
	{name: "max", of: func(b *bucket, _ *Aggregate) float64 { return b.number(b.greatest) }},
	{name: "sum", of: func(b *bucket, _ *Aggregate) float64 { return b.number(b.sum.total()) }},
	{name: "avg", of: func(b *bucket, _ *Aggregate) float64 { return b.average() }},
	{name: "first", of: func(b *bucket, _ *Aggregate) float64 { return b.number(b.first) }, needs: needs{ends: true}},
	{name: "last", of: func(b *bucket, _ *Aggregate) float64 { return b.number(b.last) }, needs: needs{ends: true}},
	{name: "stddev", of: (*bucket).deviation, needs: needs{moments: true}},
	{name: "median", of: (*bucket).percentile, needs: needs{values: true}, quantile: 0.5},
	{name: "delta", of: func(b *bucket, _ *Aggregate) float64 { return b.between(b.delta) }, needs: needs{pairs: true}},
	{name: "increase", of: func(b *bucket, _ *Aggregate) float64 { return b.between(b.increase) },
		needs: needs{pairs: true}},
	{name: "rate", of: func(b *bucket, _ *Aggregate) float64 { return b.between(b.rate) }, needs: needs{pairs: true}},
	{name: "time_avg", of: (*bucket).weighted, needs: needs{pairs: true}},
}

// AggregateNames returns the names of all aggregates, with pNN for any percentile.
func AggregateNames() string {
	names := make([]string, len(aggregates))
	for i, a := range aggregates {
		names[i] = a.name
	}
	return strings.Join(names, ", ") + " and p0 to p100, such as p95 or p99.9"
}

// PlainAggregates returns the aggregates that the statistics of chunks answer.
func PlainAggregates() []Aggregate { return slices.Clone(aggregates[:7]) }

// ParseAggregate returns the aggregate of a name.
func ParseAggregate(name string) (Aggregate, error) {
	for _, a := range aggregates {
		if a.name == name {
			return a, nil
		}
	}
	if digits, ok := strings.CutPrefix(name, "p"); ok && strings.Trim(digits, "0123456789.") == "" {
		if p, err := strconv.ParseFloat(digits, 64); err == nil && p <= 100 {
			return Aggregate{name: name, of: (*bucket).percentile, needs: needs{values: true}, quantile: p / 100}, nil
		}
	}
	return Aggregate{}, fmt.Errorf("there are %s", AggregateNames())
}

// bucket sums up the values of a group in a bucket.
type bucket struct {
	count, numbers        int // count has texts, too
	least, greatest       float64
	sum                   compensated
	first, last           float64
	firstAt, lastAt       int64
	mean, squares         float64 // Welford's mean, and sum of squared distances from it
	values                []float64
	pairs                 int
	increase, delta, rate float64
	area                  float64 // under the values that held, times ms
	passed                int64   // ms for which a value held
	ended                 bool    // it has a first and a last value
}

func (b *bucket) number(f float64) float64 {
	if b.numbers == 0 || math.IsInf(f, 0) {
		return none
	}
	return f
}

func (b *bucket) average() float64 { return b.number(b.sum.total() / float64(b.numbers)) }

func (b *bucket) between(f float64) float64 {
	if b.pairs == 0 || math.IsInf(f, 0) {
		return none
	}
	return f
}

// deviation returns the population's standard deviation.
func (b *bucket) deviation(*Aggregate) float64 {
	return b.number(math.Sqrt(b.squares / float64(b.numbers)))
}

// percentile interpolates linearly at the rank (n-1)q.
func (b *bucket) percentile(a *Aggregate) float64 {
	if b.numbers == 0 {
		return none
	}
	slices.Sort(b.values)
	rank := a.quantile * float64(len(b.values)-1)
	below := math.Floor(rank)
	above := min(int(below)+1, len(b.values)-1)
	weight := rank - below
	return b.values[int(below)]*(1-weight) + b.values[above]*weight
}

// weighted returns the average over the time for which values held, or over the values where no time has passed.
func (b *bucket) weighted(*Aggregate) float64 {
	if b.passed == 0 {
		return b.average()
	}
	return b.number(b.area / float64(b.passed))
}

// take counts a number. Of several series with a value at one instant, the first series counts for the first value of
// the bucket and the last series for the last one.
func (b *bucket) take(at int64, f float64, n needs) (bytes int64) {
	b.count++
	if b.numbers++; b.numbers == 1 {
		b.least, b.greatest = f, f
	}
	b.least, b.greatest = min(b.least, f), max(b.greatest, f)
	b.sum.add(f)
	if n.ends {
		b.begins(at, f)
		b.ends(at, f)
	}
	if n.moments {
		d := f - b.mean
		b.mean += d / float64(b.numbers)
		b.squares += d * (f - b.mean)
	}
	if n.values {
		before := cap(b.values)
		b.values = append(b.values, f)
		bytes = 8 * int64(cap(b.values)-before)
	}
	return bytes
}

// compensated is a sum, and what rounding has lost of it (Neumaier).
type compensated struct{ sum, lost float64 }

func (c *compensated) add(f float64) {
	next := c.sum + f
	if math.Abs(c.sum) >= math.Abs(f) {
		c.lost += c.sum - next + f
	} else {
		c.lost += f - next + c.sum
	}
	c.sum = next
}

func (c *compensated) total() float64 { return c.sum + c.lost }

func (b *bucket) begins(at int64, f float64) {
	if !b.ended || at < b.firstAt {
		b.first, b.firstAt = f, at
	}
}

func (b *bucket) ends(at int64, f float64) {
	if !b.ended || at >= b.lastAt {
		b.last, b.lastAt = f, at
	}
	b.ended = true
}

// hold counts the time for which a value held.
func (b *bucket) hold(f float64, ms int64) {
	b.area += f * float64(ms)
	b.passed += ms
}

// takeWhole counts a column by its statistics. Nothing else of its series may overlap its chunk.
func (b *bucket) takeWhole(s *chunk.Stats, from, to int64) {
	b.count += s.Count
	if s.Count == 0 || s.First.Kind() == 0 {
		return
	}
	least, greatest := numberOf(s.Min), numberOf(s.Max)
	if b.numbers == 0 {
		b.least, b.greatest = least, greatest
	}
	b.numbers += s.Count
	b.least, b.greatest = min(b.least, least), max(b.greatest, greatest)
	b.sum.add(numberOf(s.Sum))
	b.begins(from, numberOf(s.First))
	b.ends(to, numberOf(s.Last))
}

// numberOf returns a value as a float, a bool as 0 or 1.
func numberOf(v telemetry.Value) float64 {
	if v.Kind() == telemetry.Float {
		return v.Float()
	}
	return float64(int64(v.Bits()))
}
