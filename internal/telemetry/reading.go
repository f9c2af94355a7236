package telemetry

import (
	"cmp"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"
)

// Reading is what one device reported at one instant.
type Reading struct {
	Tenant string
	Device string
	Time   int64 // event time, milliseconds since 1970 UTC
	Fields []Field
	Labels Labels // part of the series
	Tags   Labels // describe the device; newest wins

	// Slot is for the taker: the place at which it found the device last, among those of some tenant. All readings with
	// this device's name share it. It may be nil, and may be wrong.
	Slot *int32
}

// Field is one named value of a reading. The fields of a Reading are sorted by metric, with each metric once.
type Field struct {
	Metric string
	Value  Value
}

// Position says where a reading came from: the Kafka record at an offset of a partition of a stream.
// Positions of one series are ordered by stream, then partition, then offset; the higher one is newer.
type Position struct {
	Stream    uint32
	Partition int32
	Offset    int64
}

// Range is a half-open range of event times in milliseconds since 1970 UTC: From <= t < To.
type Range struct{ From, To int64 }

// Contains reports whether t lies in r.
func (r Range) Contains(t int64) bool { return r.From <= t && t < r.To }

// Empty reports whether no instant lies in r.
func (r Range) Empty() bool { return r.From >= r.To }

// DayMillis is the length of a day in milliseconds; UTC days have no leap seconds here, as in Unix time.
const DayMillis = 24 * 60 * 60 * 1000

// MaxMillis is the first instant that is no longer a valid event time: the year 10000.
const MaxMillis = 253402300800000

// Day is a UTC day, counted from 1970-01-01.
type Day int32

// DayOf returns the day of an event time of 1970 or later.
func DayOf(millis int64) Day { return Day(millis / DayMillis) }

// ParseDay reads the eight digits of Day.String.
func ParseDay(s string) (Day, error) {
	t, err := time.Parse("20060102", s)
	if err != nil || len(s) != 8 || t.Unix() < 0 {
		return 0, fmt.Errorf("day %q is not eight digits YYYYMMDD of 1970 or later", s)
	}
	return DayOf(t.UnixMilli()), nil
}

// Start returns the day's first millisecond.
func (d Day) Start() int64 { return int64(d) * DayMillis }

// End returns the first millisecond after the day.
func (d Day) End() int64 { return d.Start() + DayMillis }

// String returns the day as YYYYMMDD.
func (d Day) String() string { return d.time().Format("20060102") }

// Month returns the month that the day lies in.
func (d Day) Month() Month {
	t := d.time()
	return Month(t.Year()*12 + int(t.Month()) - 1)
}

func (d Day) time() time.Time { return time.UnixMilli(d.Start()).UTC() }

// Month is a UTC month: year times 12 plus month number from 0.
type Month int32

// MonthOf returns the month of an event time of 1970 or later.
func MonthOf(millis int64) Month { return DayOf(millis).Month() }

// String returns the month as YYYY-MM.
func (m Month) String() string { return m.time().Format("2006-01") }

// FirstDay returns the month's first day.
func (m Month) FirstDay() Day { return DayOf(m.time().UnixMilli()) }

// Range returns the month's event times.
func (m Month) Range() Range {
	return Range{m.FirstDay().Start(), (m + 1).FirstDay().Start()}
}

func (m Month) time() time.Time {
	return time.Date(int(m)/12, time.Month(int(m)%12+1), 1, 0, 0, 0, 0, time.UTC)
}

// Instant returns ms since 1970 UTC as RFC 3339 has it, in whole seconds.
func Instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// MaxNameRunes is the longest device id, metric name, label name or tag name, in characters.
const MaxNameRunes = 200

// MaxTenantBytes is the longest tenant name.
const MaxTenantBytes = 63

// reservedTenant names the dead letters and so can't name a tenant.
const reservedTenant = "dlq"

// CheckTenant returns an error unless name can be a tenant's name; it names what is allowed.
func CheckTenant(name string) error {
	const allowed = "a tenant is 1 to 63 of a-z, 0-9 and -, not beginning with -"
	if name == "" || len(name) > MaxTenantBytes {
		return fmt.Errorf("tenant %.80q has %d characters: %s", name, len(name), allowed)
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || i == 0) {
			return fmt.Errorf("tenant %q has %q at %d: %s", name, c, i, allowed)
		}
	}
	if name == reservedTenant {
		return fmt.Errorf("tenant %q is reserved", name)
	}
	return nil
}

// CheckDevice returns an error unless id can be a device's id. Characters outside the Basic Multilingual Plane are
// refused because azcosmos does not send them as valid JSON in a key, and / \ ? # because ids with them can't be
// addressed through every gateway.
func CheckDevice(id string) error {
	const allowed = `a device id is 1 to 200 printable characters of the Basic Multilingual Plane without / \ ? #`
	if err := checkLength("device id", id, allowed); err != nil {
		return err
	}
	for i, r := range id {
		switch {
		case r == '/' || r == '\\' || r == '?' || r == '#', r > 0xFFFF, !unicode.IsPrint(r):
			return fmt.Errorf("device id %q has %q at byte %d: %s", id, r, i, allowed)
		}
	}
	return nil
}

// CheckName returns an error unless name can be the name of a metric, label or tag; what is the word for it in the
// error, such as "metric".
func CheckName(what, name string) error {
	const allowed = "a name is 1 to 200 characters without control characters"
	if err := checkLength(what, name, allowed); err != nil {
		return err
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%s %q has a control character at byte %d: %s", what, name, i, allowed)
		}
	}
	return nil
}

func checkLength(what, s, allowed string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %.80q is not valid UTF-8: %s", what, s, allowed)
	}
	if n := utf8.RuneCountInString(s); n == 0 || n > MaxNameRunes {
		return fmt.Errorf("%s %.80q has %d characters: %s", what, s, n, allowed)
	}
	return nil
}

// Source says where rows or tags came from and so which of two is newer: the one with the higher stream, then
// partition, then through (rules R5 and W13).
type Source struct {
	Stream    uint32
	Partition int32
	Through   int64 // offset of the last record
}

// Compare returns negative when s is older than t.
func (s Source) Compare(t Source) int {
	return cmp.Or(cmp.Compare(s.Stream, t.Stream), cmp.Compare(s.Partition, t.Partition),
		cmp.Compare(s.Through, t.Through))
}
