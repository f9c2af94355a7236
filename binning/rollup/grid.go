package rollup

import (
	"math/bits"

	"binnacle/internal/telemetry"
)

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
