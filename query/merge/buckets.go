package merge

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"binnacle/internal/telemetry"
)

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
