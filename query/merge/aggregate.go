package merge

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

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

// Buckets are consecutive stretches of time that together hold a range. Bucket i is [edge i, edge i+1), or (edge i,
// edge i+1] where they are closed on the right.
type Buckets struct {
	edges []int64 // ms since 1970 UTC, ascending, at least two unless the range is empty
	shift int64   // 1 where buckets are closed on the right, else 0
}

// Unit is a step of the calendar.
type Unit string

// The steps of the calendar. Weeks begin on Monday, as in ISO 8601.
const (
	Day     Unit = "day"
	Week    Unit = "week"
	Month   Unit = "month"
	Quarter Unit = "quarter"
	Year    Unit = "year"
)

// Units is all steps of the calendar, the shortest first.
var Units = []Unit{Day, Week, Month, Quarter, Year}

// shortest returns less than any unit of its kind takes, whatever the time zone does.
func (u Unit) shortest() time.Duration {
	const day = 22 * time.Hour
	return map[Unit]time.Duration{Day: day, Week: 6 * day, Month: 27 * day, Quarter: 88 * day, Year: 363 * day}[u]
}

// TooManyBuckets says that a range would have more buckets than allowed.
type TooManyBuckets struct{ Most int }

// Error returns how many are allowed.
func (e *TooManyBuckets) Error() string {
	return fmt.Sprintf("makes more than %d buckets of the range: take a longer one", e.Most)
}

// Bounds is what buckets hold, on which side they are closed, and how many there may be.
type Bounds struct {
	telemetry.Range
	Right bool
	Most  int
}

// EveryStep makes buckets of a length that begin with a range, the last one cut at its end; one bucket for a step of 0.
func EveryStep(r Bounds, step time.Duration) (Buckets, error) {
	ms := step.Milliseconds()
	if ms > 0 && (r.To-r.From)/ms >= int64(r.Most) {
		return Buckets{}, &TooManyBuckets{r.Most}
	}
	b := newBuckets(r.Right)
	for at := r.From; ms > 0 && at < r.To; at += ms {
		b.edges = append(b.edges, at)
	}
	if ms == 0 {
		b.edges = append(b.edges, r.From)
	}
	b.edges = append(b.edges, r.To)
	return b, nil
}

// EveryUnit makes the days, weeks, … of a time zone that a range touches. The first and the last are whole, even where
// they begin before the range or end behind it.
func EveryUnit(r Bounds, unit Unit, zone *time.Location) (Buckets, error) {
	if (r.To-r.From)/unit.shortest().Milliseconds() >= int64(r.Most) {
		return Buckets{}, &TooManyBuckets{r.Most}
	}
	b := newBuckets(r.Right)
	at := unit.first(time.UnixMilli(r.From).In(zone))
	b.edges = append(b.edges, midnight(at, zone))
	for b.edges[len(b.edges)-1] < r.To {
		at = unit.next(at)
		// A zone may leave out a day.
		if edge := midnight(at, zone); edge > b.edges[len(b.edges)-1] {
			b.edges = append(b.edges, edge)
		}
	}
	return b, nil
}

func newBuckets(right bool) (b Buckets) {
	if right {
		b.shift = 1
	}
	return b
}

// first returns the first day of the unit that an instant lies in, as a date in UTC.
func (u Unit) first(t time.Time) time.Time {
	y, m, d := t.Date()
	switch u {
	case Week:
		d -= (int(t.Weekday()) + 6) % 7
	case Month:
		d = 1
	case Quarter:
		m, d = m-(m-1)%3, 1
	case Year:
		m, d = 1, 1
	}
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func (u Unit) next(date time.Time) time.Time {
	switch u {
	case Week:
		return date.AddDate(0, 0, 7)
	case Month:
		return date.AddDate(0, 1, 0)
	case Quarter:
		return date.AddDate(0, 3, 0)
	case Year:
		return date.AddDate(1, 0, 0)
	}
	return date.AddDate(0, 0, 1)
}

// midnight returns when a date begins in a zone, ms since 1970. That need not be at 00:00: some zones change their
// clocks at midnight.
func midnight(date time.Time, zone *time.Location) int64 {
	y, m, d := date.Date()
	begun := func(ms int64) bool {
		a, b, c := time.UnixMilli(ms).In(zone).Date()
		return !time.Date(a, b, c, 0, 0, 0, 0, time.UTC).Before(date)
	}
	if at := time.Date(y, m, d, 0, 0, 0, 0, zone).UnixMilli(); begun(at) && !begun(at-1) {
		return at
	}
	const day = 36 * 3_600_000 // no zone is further from UTC
	from := date.UnixMilli() - day
	return from + int64(sort.Search(2*day, func(i int) bool { return begun(from + int64(i)) }))
}

// Len returns how many there are.
func (b *Buckets) Len() int { return max(0, len(b.edges)-1) }

// Start returns the edge before a bucket.
func (b *Buckets) Start(i int) int64 { return b.edges[i] }

// End returns the edge behind a bucket.
func (b *Buckets) End(i int) int64 { return b.edges[i+1] }

func (b *Buckets) holds(i int, at int64) bool {
	return b.edges[i] <= at-b.shift && at-b.shift < b.edges[i+1]
}

// of returns the bucket of an instant, which must lie in one. It is quick for the bucket near and the next one.
func (b *Buckets) of(at int64, near int) int {
	if b.holds(near, at) {
		return near
	}
	if near+1 < b.Len() && b.holds(near+1, at) {
		return near + 1
	}
	i, found := slices.BinarySearch(b.edges, at-b.shift)
	if !found {
		i--
	}
	return i
}

// Held returns the instants that lie in the buckets and in a range. Both its ends were given as edges.
func (b *Buckets) Held(r telemetry.Range) telemetry.Range {
	return telemetry.Range{From: r.From + b.shift, To: r.To + b.shift}
}
