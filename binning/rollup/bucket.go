package rollup

import (
	"math"
	"math/bits"
	"slices"
	"strings"

	"binnacle/internal/telemetry"
)

// staleBits is the NaN by which Prometheus marks that a series has ended: it is no sample, but nothing before it counts
// (prometheus/model/value).
const staleBits = 0x7ff0000000000002

// IsStale reports whether a value is a stale marker.
func IsStale(v float64) bool { return math.Float64bits(v) == staleBits }

// Bucket is the samples of a series in one bucket, in the order of time. Stale markers are in no field but Stale.
type Bucket struct {
	N             uint32
	Stale         bool // the newest sample is a stale marker
	FirstT, LastT int64
	First, Last   float64
	Resets        []float64 // the values that a lower one follows in the bucket
	Min, Max      float64   // the first of the least and of the greatest ones; NaN if all are
	Hi, Lo        float64   // the sum, and what was lost of it to rounding (Neumaier)
	Size          Size      // the values' sizes
}

// Empty reports whether nothing is in the bucket, not even a stale marker.
func (b *Bucket) Empty() bool { return b.N == 0 && !b.Stale }

// Add takes a sample that is later than those before.
func (b *Bucket) Add(t int64, v float64) {
	if b.Stale = IsStale(v); b.Stale {
		return
	}
	if b.N == 0 {
		b.FirstT, b.First, b.Min, b.Max = t, v, v, v
	} else {
		if v < b.Last {
			b.Resets = append(b.Resets, b.Last)
		}
		b.extremes(v, v)
	}
	b.N++
	b.LastT, b.Last = t, v
	b.Hi, b.Lo = plus(v, b.Hi, b.Lo)
	b.Size = b.Size.Join(SizeOf(v))
}

// Join takes the samples of a bucket that is later.
func (b *Bucket) Join(next *Bucket) {
	if next.Empty() {
		return
	}
	b.Stale = next.Stale
	if next.N == 0 {
		return
	}
	if b.N == 0 {
		resets := append(b.Resets[:0], next.Resets...)
		*b = *next
		b.Resets = resets
		return
	}
	if next.First < b.Last {
		b.Resets = append(b.Resets, b.Last)
	}
	b.Resets = append(b.Resets, next.Resets...)
	b.extremes(next.Min, next.Max)
	b.N += next.N
	b.LastT, b.Last = next.LastT, next.Last
	b.Hi, b.Lo = plus(next.Hi, b.Hi, b.Lo)
	b.Lo += next.Lo
	b.Size = b.Size.Join(next.Size)
}

func (b *Bucket) extremes(lowest, highest float64) {
	if lowest < b.Min || math.IsNaN(b.Min) {
		b.Min = lowest
	}
	if highest > b.Max || math.IsNaN(b.Max) {
		b.Max = highest
	}
}

// plus adds to a sum and what was lost of it so far, as Prometheus does (util/kahansum): operations and their order
// decide the last bits. The conversions keep a compiler from fusing across.
func plus(v, sum, lost float64) (float64, float64) {
	t := float64(sum + v)
	switch {
	case math.IsInf(t, 0):
		lost = 0
	case math.Abs(sum) >= math.Abs(v):
		lost += float64(sum-t) + v
	default:
		lost += float64(v-t) + sum
	}
	return t, float64(lost)
}

// Size bounds some values: how far from zero they are, and whether all of them are integers. It is twice an exponent,
// and one more if a value is no integer. The exponent is 0 of zeros alone, 1 + e of values below 2^(e-1022) with e the
// greatest of their biased exponents, so 2048 where one is infinite or NaN. Its zero value is that of no values.
type Size uint32

const (
	fraction  Size = 1
	unbounded Size = 2048 << 1
	maxSize        = int64(unbounded | fraction)
	bias           = 1022
)

// SizeOf returns the size of a value.
func SizeOf(v float64) Size {
	if v == 0 {
		return 0
	}
	s := Size(math.Float64bits(v)>>52&0x7ff+1) << 1
	if s == unbounded || v != math.Trunc(v) {
		s |= fraction
	}
	return s
}

// Join returns the size of the values of both.
func (s Size) Join(o Size) Size { return max(s&^fraction, o&^fraction) | (s|o)&fraction }

// MaxMagnitude returns what no value is further from zero than, infinity where nothing is.
func (s Size) MaxMagnitude() float64 {
	switch e := s &^ fraction; {
	case e == 0:
		return 0
	case e >= unbounded:
		return math.Inf(1)
	default:
		return min(math.Ldexp(1, int(e>>1)-1-bias), math.MaxFloat64)
	}
}

// Whole reports whether all values are integers.
func (s Size) Whole() bool { return s&fraction == 0 }

// Grid is the length of a grid's buckets, in ms.
type Grid int64

// The grids that rollups are kept on.
const (
	Minute   Grid = 60_000
	HalfHour Grid = 30 * Minute
)

const hourMillis = 3_600_000

// HoursOfDay is how many hours a day has.
const HoursOfDay = telemetry.DayMillis / hourMillis

// PerHour returns how many buckets an hour has.
func (g Grid) PerHour() int { return hourMillis / int(g) }

// PerDay returns how many buckets a day has.
func (g Grid) PerDay() int { return telemetry.DayMillis / int(g) }

// Bucket returns the place within the day of the bucket that an instant of the day resets into, -1 for the day's first
// millisecond, which resets into the last bucket of the day before.
func (g Grid) Bucket(day telemetry.Day, t int64) int {
	if t == day.Start() {
		return -1
	}
	return int((t - day.Start() - 1) / int64(g))
}

// End returns the last instant of a bucket of the day; the last bucket ends at the next day's first instant.
func (g Grid) End(day telemetry.Day, bucket int) int64 { return day.Start() + int64(bucket+1)*int64(g) }

// Hours is a set of hours of a day, a bit each. Hour h is the buckets that end after h:00 and up to h+1:00.
type Hours uint32

// AllDay is every hour.
const AllDay Hours = 1<<HoursOfDay - 1

// Span returns the hours from one up to and without another.
func Span(from, to int) Hours { return (1<<to - 1) &^ (1<<from - 1) }

// HoursOf returns the hours that samples of the day from one instant to another, both inclusive, fall into. The sample
// at 00:00 is of the first hour, which keeps it apart.
func HoursOf(day telemetry.Day, from, to int64) Hours {
	hour := func(t int64) int { return max(Grid(hourMillis).Bucket(day, t), 0) }
	return Span(hour(from), hour(to)+1)
}

// Has reports whether an hour is in the set.
func (h Hours) Has(hour int) bool { return h>>hour&1 != 0 }

// Count returns how many hours are in the set.
func (h Hours) Count() int { return bits.OnesCount32(uint32(h)) }

// Bounds returns the first hour of a set that is not empty, and the one after its last.
func (h Hours) Bounds() (from, to int) {
	return bits.TrailingZeros32(uint32(h)), bits.Len32(uint32(h))
}

// Range returns the instants that buckets of the hours from one up to and without another may hold, and with hour 0 the
// sample at 00:00: the range of chunks that they come from.
func Range(day telemetry.Day, from, to int) telemetry.Range {
	r := telemetry.Range{From: day.Start() + int64(from)*hourMillis + 1, To: day.Start() + int64(to)*hourMillis + 1}
	if from == 0 {
		r.From--
	}
	r.To = min(r.To, day.End())
	return r
}

// Family names the aggregates that a rollup keeps for each bucket.
type Family byte

// The families. All but Last are read together with Last, which says how many samples a bucket has.
const (
	Last     Family = 'L' // count, last instant and value, stale marker; the sample at 00:00
	First    Family = 'F' // first instant and value, the values before resets
	Sum      Family = 'S' // the sum's two numbers, and how large the values are
	Extremes Family = 'M' // minimum and maximum
)

// AllFamilies are the families, Last first.
var AllFamilies = Families{Last, First, Sum, Extremes}

// Families is some families, Last first, each once.
type Families []Family

// String returns the families' letters.
func (f Families) String() string {
	var b strings.Builder
	for _, x := range f {
		b.WriteByte(byte(x))
	}
	return b.String()
}

// ParseFamilies inverts Families.String. There must be Last.
func ParseFamilies(s string) (Families, error) {
	var out Families
	for _, f := range AllFamilies {
		if strings.IndexByte(s, byte(f)) >= 0 {
			out = append(out, f)
		}
	}
	if out.String() != s || len(out) == 0 || out[0] != Last {
		return nil, corrupt("families %q are not letters of %s, in that order, with L", s, AllFamilies)
	}
	return out, nil
}

// Has reports whether a family is among them.
func (f Families) Has(x Family) bool {
	return slices.Contains(f, x)
}

// Columns is a set of columns of a table that are read together.
type Columns uint8

// The columns.
const (
	Counts  Columns = 1 << iota // N, of Last
	Newest                      // LastT, Last and Stale, of Last
	Oldest                      // FirstT, First and Resets, of First
	Sums                        // Hi, Lo and Size, of Sum
	Lowest                      // Min, of Extremes
	Highest                     // Max, of Extremes
)

var columnsOf = map[Family]Columns{Last: Counts | Newest, First: Oldest, Sum: Sums, Extremes: Lowest | Highest}

// Has reports whether all of some columns are among them.
func (c Columns) Has(some Columns) bool { return c&some == some }

// Families returns the families that have any of the columns, Last always among them.
func (c Columns) Families() (out Families) {
	for _, f := range AllFamilies {
		if (c|Counts)&columnsOf[f] != 0 {
			out = append(out, f)
		}
	}
	return out
}
