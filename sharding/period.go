package sharding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/telemetry"
)

// Period is how long the containers of chunks are. The zero Period is Month.
type Period string

// The periods, the longest first. A week is one of ISO 8601: it begins on a Monday.
const (
	Year    Period = "year"
	Quarter Period = "quarter"
	Month   Period = "month"
	Week    Period = "week"
	Day     Period = "day"
)

// Periods are all of them, the longest first.
var Periods = []Period{Year, Quarter, Month, Week, Day}

// Or returns the period itself, and other for the zero one.
func (p Period) Or(other Period) Period {
	if p == "" {
		return other
	}
	return p
}

// check returns an error for a period that there is not.
func (p Period) check() error {
	if p != "" && !slices.Contains(Periods, p) {
		return fmt.Errorf("period %q: year, quarter, month, week and day are allowed", p)
	}
	return nil
}

// Of returns the span of the period that a day lies in.
func (p Period) Of(day telemetry.Day) Span {
	p = p.Or(Month)
	t := time.UnixMilli(day.Start()).UTC()
	switch p {
	case Year:
		t = time.Date(t.Year(), time.January, 1, 0, 0, 0, 0, time.UTC)
	case Quarter:
		t = time.Date(t.Year(), (t.Month()-1)/3*3+1, 1, 0, 0, 0, 0, time.UTC)
	case Month:
		t = time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
	case Week:
		t = t.AddDate(0, 0, -(int(t.Weekday())+6)%7)
	case Day:
	}
	return Span{p, telemetry.Day(t.Unix() * 1000 / telemetry.DayMillis)}
}

// Span is one period of the calendar: the days of a container's name. While periods change, a container may hold some
// of its days only.
type Span struct {
	Period Period
	First  telemetry.Day // the week of 1970-01-01 begins before it
}

// Next returns the span after this one, of the same period.
func (s Span) Next() Span { return s.Period.Of(s.End()) }

// End returns the first day after the span.
func (s Span) End() telemetry.Day {
	t := s.time()
	switch s.Period {
	case Year:
		t = t.AddDate(1, 0, 0)
	case Quarter:
		t = t.AddDate(0, 3, 0)
	case Week:
		t = t.AddDate(0, 0, 7)
	case Day:
		t = t.AddDate(0, 0, 1)
	case Month:
		t = t.AddDate(0, 1, 0)
	}
	return telemetry.Day(t.Unix() * 1000 / telemetry.DayMillis)
}

// Range returns the event times of the span.
func (s Span) Range() telemetry.Range {
	return telemetry.Range{From: s.First.Start(), To: s.End().Start()}
}

// String returns the span as it is part of containers' names: 2026, 2026-Q4, 2026-11, 2026-W48 or 2026-11-23. None ends
// like another one, so that a name with a tenant in front can be read in one way only.
func (s Span) String() string {
	t := s.time()
	switch s.Period {
	case Year:
		return t.Format("2006")
	case Quarter:
		return fmt.Sprintf("%04d-Q%d", t.Year(), (t.Month()-1)/3+1)
	case Week:
		year, week := t.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	case Day:
		return t.Format(time.DateOnly)
	case Month:
	}
	return t.Format("2006-01")
}

func (s Span) time() time.Time { return time.UnixMilli(s.First.Start()).UTC() }

func cutSpan(name string) (rest string, s Span, ok bool) {
	n := len(name)
	p, length := Year, len("2026")
	switch {
	case n >= 7 && name[n-2] == 'Q':
		p, length = Quarter, len("2026-Q4")
	case n >= 8 && name[n-3] == 'W':
		p, length = Week, len("2026-W48")
	case n >= 10 && name[n-3] == '-' && name[n-6] == '-':
		p, length = Day, len("2026-11-23")
	case n >= 7 && name[n-3] == '-':
		p, length = Month, len("2026-11")
	}
	if n < length {
		return "", Span{}, false
	}
	s, ok = p.parse(name[n-length:])
	return name[:n-length], s, ok
}

// parse returns the inverse of Span.String; ok is false for a text that it does not make.
func (p Period) parse(text string) (s Span, ok bool) {
	var t time.Time
	var err error
	switch p {
	case Year:
		t, err = time.Parse("2006", text)
	case Quarter, Week:
		letter := map[Period]string{Quarter: "-Q", Week: "-W"}[p]
		head, tail, _ := strings.Cut(text, letter)
		n, fault := strconv.Atoi(tail)
		if t, err = time.Parse("2006", head); err == nil {
			err = fault
		}
		if p == Quarter {
			t = t.AddDate(0, 3*(n-1), 0)
		} else {
			t = t.AddDate(0, 0, 7*n-4) // the first week is that of January 4
		}
	case Month:
		t, err = time.Parse("2006-01", text)
	case Day:
		t, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return Span{}, false
	}
	s = p.Of(telemetry.Day(t.Unix() * 1000 / telemetry.DayMillis))
	return s, s.End() > 0 && s.String() == text
}

// PeriodEpoch says how long the containers of chunks are, from a day on until the next one begins: the containers of
// all tenants. It is a stored fact and never changes. Days before the first one are in containers of a month.
type PeriodEpoch struct {
	From   telemetry.Day `json:"from"`
	Period Period        `json:"period"`
	// Shared says that containers share the throughput of the database.
	Shared bool `json:"shared,omitempty"`
}

// ShareThroughput reports whether the containers of a span are to share the throughput of the database: as the last of
// the periods says that is of its length and begins before its end, or else the first one of its length.
func ShareThroughput(periods []PeriodEpoch, of Span) (shared bool) {
	found := false
	for _, e := range periods {
		if e.Period == of.Period && (!found || e.From < of.End()) {
			shared, found = e.Shared, true
		}
	}
	return shared
}

// sortPeriods returns periods in the order of their days, beginning with one that covers all days before the others.
func sortPeriods(of []PeriodEpoch) ([]PeriodEpoch, error) {
	out := slices.SortedFunc(slices.Values(of), func(a, b PeriodEpoch) int { return int(a.From) - int(b.From) })
	for i, e := range out {
		if err := e.Period.check(); err != nil {
			return nil, fmt.Errorf("periods from %s: %w", e.From, err)
		}
		if i > 0 && e.From == out[i-1].From {
			return nil, fmt.Errorf("two periods from %s", e.From)
		}
	}
	if len(out) == 0 || out[0].From > 0 {
		out = slices.Insert(out, 0, PeriodEpoch{})
	}
	return out, nil
}

// periodOn returns the period that covers a day, of periods that sortPeriods has sorted.
func periodOn(periods []PeriodEpoch, day telemetry.Day) Period {
	return periods[max(firstAfter(periods, day, PeriodEpoch.from)-1, 0)].Period
}

func (e PeriodEpoch) from() telemetry.Day { return e.From }

const containerPrefix = "chunks-"

// Container returns the container of the chunks of a span: shared by tenants when tenant is empty, else the tenant's
// own.
func Container(tenant string, s Span) string {
	if tenant == "" {
		return containerPrefix + s.String()
	}
	return containerPrefix + tenant + "-" + s.String()
}

// ParseContainer returns the inverse of Container; ok is false for a name that Container does not make.
func ParseContainer(name string) (tenant string, s Span, ok bool) {
	rest, ok := strings.CutPrefix(name, containerPrefix)
	if !ok {
		return "", Span{}, false
	}
	if tenant, s, ok = cutSpan(rest); !ok {
		return "", Span{}, false
	}
	if tenant == "" {
		return "", s, true
	}
	tenant, ok = strings.CutSuffix(tenant, "-")
	if !ok || telemetry.CheckTenant(tenant) != nil {
		return "", Span{}, false
	}
	return tenant, s, true
}

const rollupsPrefix = "rollups-"

// RollupsContainer returns the container of the rollups that are made of a container of chunks: shared by the same
// tenants.
func RollupsContainer(chunks string) string {
	return rollupsPrefix + strings.TrimPrefix(chunks, containerPrefix)
}

// ParseRollupsContainer returns ParseContainer for containers of rollups.
func ParseRollupsContainer(name string) (tenant string, s Span, ok bool) {
	rest, ok := strings.CutPrefix(name, rollupsPrefix)
	if !ok {
		return "", Span{}, false
	}
	return ParseContainer(containerPrefix + rest)
}
