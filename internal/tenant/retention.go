package tenant

import (
	"fmt"
	"math"
	"slices"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// RetentionNotice is how long before it comes into force a change is known that hides days (rule X5).
const RetentionNotice = retentionLead

// RetentionComes returns when what was set last comes into force, and whether that is still to come.
func (t Tenant) RetentionComes() (at time.Time, coming bool) {
	if t.known == 0 || t.set.begins <= t.known {
		return time.Time{}, false
	}
	return time.UnixMilli(t.set.begins).UTC(), true
}

// FirstVisible returns the first day of a device that is kept at now, ms since 1970 UTC. For any device and stored
// retention it never goes back (rule X1).
func (t Tenant) FirstVisible(device string, now int64) (first telemetry.Day) {
	if t.policies == nil {
		return retentionPolicy{}.firstVisible(RetentionClass{Keep: t.Retention}, now)
	}
	t.spells(device, func(s spell) { first = max(first, s.firstVisible(s.class, now)) })
	return first
}

// ExpiredOf reports whether the retention of a day of a device is over at now.
func (t Tenant) ExpiredOf(device string, day telemetry.Day, now int64) bool {
	return day < t.FirstVisible(device, now)
}

// Hides reports whether readers must not answer a day of a device at now. Of a tenant with the retention that it was
// registered with nothing has to be hidden: its chunks expire in time by themselves.
func (t Tenant) Hides(device string, day telemetry.Day, now int64) bool {
	return t.policies != nil && t.ExpiredOf(device, day, now)
}

// HidesAny reports whether Hides is true of a day and any device that there may be.
func (t Tenant) HidesAny(day telemetry.Day, now int64) bool {
	return slices.ContainsFunc(t.policies, func(p retentionPolicy) bool {
		return slices.ContainsFunc(p.classes, func(c RetentionClass) bool { return day < p.firstVisible(c, now) })
	})
}

// HidesSome reports whether Hides may be true.
func (t Tenant) HidesSome() bool { return t.policies != nil }

// RetentionOf returns how long a day of a device is kept after its end: the shortest retention that the device has had
// since the day began, as its chunks may have been written with it. 0 never ends.
func (t Tenant) RetentionOf(device string, day telemetry.Day) (keep time.Duration) {
	if t.policies == nil {
		return t.Retention
	}
	t.spells(device, func(s spell) {
		if c := s.class; s.coversDay(day) && c.Keep > 0 && (keep == 0 || c.Keep < keep) {
			keep = c.Keep
		}
	})
	return keep
}

// TTLOf returns the time to live of a chunk of a device and day that is written at now, as TTL does.
func (t Tenant) TTLOf(device string, day telemetry.Day, now int64) int {
	if t.Hides(device, day, now) {
		return 1
	}
	return Tenant{Retention: t.RetentionOf(device, day)}.TTL(day, now)
}

// RetentionClasses returns the classes that were set, in the order in which they are tried. They may still have to come
// into force.
func (t Tenant) RetentionClasses() []RetentionClass {
	if t.set.classes != nil {
		return t.set.classes
	}
	return t.inForce()
}

func (t Tenant) inForce() []RetentionClass {
	if t.policies == nil {
		return []RetentionClass{{Devices: allDevices, Keep: t.Retention}}
	}
	return t.policies[len(t.policies)-1].classes
}

// RetentionText returns the tenant's retention as the flag has it.
func (t Tenant) RetentionText() string { return retentionText(t.RetentionClasses()) }

// ExplainRetention says of a device what is hidden at now and when the rest will be, a sentence each.
func (t Tenant) ExplainRetention(device string, now int64) (out []string) {
	class := RetentionClass{Devices: allDevices, Keep: t.Retention}
	t.spells(device, func(s spell) { class = s.class })
	out = append(out, fmt.Sprintf("The class of the device is %s.", retentionText([]RetentionClass{class})))
	first := t.FirstVisible(device, now)
	if first > 0 {
		out = append(out, fmt.Sprintf("Days before %s are gone: they are refused and not answered.", date(first)))
	} else {
		out = append(out, "No day is gone.")
	}
	today := telemetry.DayOf(now)
	for from := first; from <= today; {
		keep, to := t.RetentionOf(device, from), today
		t.spells(device, func(s spell) {
			if s.until > 0 && s.lastDay() >= from {
				to = min(to, s.lastDay())
			}
		})
		for to < today && t.RetentionOf(device, to+1) == keep {
			to++
		}
		out = append(out, explainDays(days{from, to}, keep, class.Keep))
		from = to + 1
	}
	for _, next := range t.coming(device) {
		out = append(out, fmt.Sprintf("From %s on its class is %s, as an operator has confirmed. Until %s its former tags "+
			"undo that.", telemetry.Instant(next.until), retentionText([]RetentionClass{next.class}),
			telemetry.Instant(next.until-takeBackMargin.Milliseconds())))
	}
	if at, coming := t.RetentionComes(); coming {
		next := retentionPolicy{classes: t.set.classes, tagged: t.tagged}
		class := next.at(device, math.MaxInt64)
		out = append(out, fmt.Sprintf("From %s on its class is %s, and days before %s are gone. Until %s another tenant "+
			"set --retention undoes that.", at.Format(time.RFC3339), retentionText([]RetentionClass{class}),
			date(max(first, next.firstVisible(class, at.UnixMilli()))), at.Add(-takeBackMargin).Format(time.RFC3339)))
	}
	return out
}

type days struct{ first, last telemetry.Day }

// explainDays says when some days that have the same retention will be gone.
func explainDays(d days, keep, current time.Duration) string {
	which, which2 := "Days from "+date(d.first)+" to "+date(d.last), "each "
	if d.first == 0 {
		which = "Days up to " + date(d.last)
	}
	if keep == 0 {
		return which + " stay for ever."
	}
	why := "as the class says"
	if keep != current {
		why = "because they may have been written with that retention, which was shorter"
	}
	return fmt.Sprintf("%s go %s%s after its end, %s: %s at %s, %s at %s.", which, which2, duration.String(keep), why,
		date(d.first), goes(d.first, keep), date(d.last), goes(d.last, keep))
}

func goes(day telemetry.Day, keep time.Duration) string {
	return time.UnixMilli(day.End()).Add(keep).UTC().Format(time.RFC3339)
}

// TaggedWith returns the devices that are stored as having a tag, sorted.
func (t Tenant) TaggedWith(g RetentionTag) (devices []string) {
	for d, times := range t.tagged[g.String()] {
		if len(times)%2 == 1 {
			devices = append(devices, d)
		}
	}
	slices.Sort(devices)
	return devices
}

// HasTagged reports whether it is stored of a device that it has or had a tag of a class; of any device with an empty
// id.
func (t Tenant) HasTagged(device string) bool {
	for _, devices := range t.tagged {
		if _, ok := devices[device]; ok || device == "" && len(devices) > 0 {
			return true
		}
	}
	return false
}

// spell is a time for which a device had one class.
type spell struct {
	retentionPolicy // until its end
	class           RetentionClass
}

// spells calls yield with the classes that a device has had, one after the other, the present one last: a class ends
// when the retention is changed, or when the device gets or loses a tag. A writer may use a class until the lead after
// its end, for any day up to then. What begins after the document was read is left out.
func (t Tenant) spells(device string, yield func(spell)) {
	begin := int64(math.MinInt64)
	if len(t.policies) > 0 && t.policies[0].began > 0 {
		begin = t.policies[0].began
	}
	for _, p := range t.policies {
		end := p.until
		switch {
		case end == 0 && t.known > 0:
			end = t.known + 1
		case end == 0:
			end = math.MaxInt64
		}
		if len(p.tagged) > 0 {
			for _, at := range p.tagged.changes(p.classes, device) {
				if at <= begin || at >= end {
					continue
				}
				before := p
				before.until = at
				yield(spell{before, p.at(device, at-1)})
			}
		}
		yield(spell{p, p.at(device, max(begin, end-1))}) // the next one may begin in the same instant
		begin = end
	}
}

// coming returns the classes by tag that a device comes to later, each with the time from which on as its until.
func (t Tenant) coming(device string) (out []spell) {
	if n := len(t.policies); n > 0 && t.known > 0 {
		now := t.policies[n-1]
		for _, at := range t.tagged.changes(now.classes, device) {
			if at > t.known && (t.comes == 0 || at < t.comes) {
				out = append(out, spell{retentionPolicy{until: at}, now.at(device, at)})
			}
		}
	}
	return out
}
