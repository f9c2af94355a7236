package tenant

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
)

// RetentionClass is how long the readings of some devices are kept.
type RetentionClass struct {
	// Devices is a pattern of ids, in which * matches any text, or a tag, {name=value}.
	Devices string
	// Keep counts from the end of a reading's day; 0 never ends.
	Keep time.Duration
	// First is the first visible day as it was stored: earlier days are refused and not answered, and it never goes back.
	First telemetry.Day
}

// retentionClassBody is a class in a tenant document: docs/internals/format/control.md.
type retentionClassBody struct {
	Devices string        `json:"devices"`
	Seconds int64         `json:"seconds"`
	First   telemetry.Day `json:"first,omitempty"`
}

// retentionPolicyBody is the classes of a time in a tenant document.
type retentionPolicyBody struct {
	Until   int64                `json:"until,omitempty"`
	Classes []retentionClassBody `json:"classes"`
}

// retentionPolicy is the classes that were set at one time. A device belongs to the first one that matches; the last
// one matches all.
type retentionPolicy struct {
	until   int64 // ms since 1970 UTC: when the next one was set; 0 for the current one
	classes []RetentionClass
	// tagged holds the tags of the tenant's devices.
	tagged taggedTimes
}

// RetentionNotice is how long before it comes into force a change is known that hides days (rule X5).
const RetentionNotice = retentionLead

const (
	// retentionLead is how far after a change of retention a writer that does not know it may place readings (rule W1).
	retentionLead = 2 * time.Hour
	// takeBackMargin is how long before it comes into force a change can no more be taken back: clocks differ.
	takeBackMargin = 5 * time.Minute

	maxRetentionClasses  = 64
	maxRetentionPolicies = 128

	// allDevices is the pattern of the last class, which flags call defaultClass.
	allDevices   = "*"
	defaultClass = "default"
	// forEver is no end, in flags.
	forEver = "forever"
)

var errPolicies = fmt.Errorf("%w: its retention was changed too often", ErrTooMany)

// at returns the class of a device at a time.
func (p retentionPolicy) at(device string, at int64) RetentionClass {
	return classOf(p.classes, device, func(class string) bool { return p.tagged.has(class, device, at) })
}

// classOf returns the first class that matches a device; has reports whether it has the tag of a class.
func classOf(classes []RetentionClass, device string, has func(class string) bool) RetentionClass {
	for _, c := range classes {
		if c.isTag() && has(c.Devices) || !c.isTag() && matches(c.Devices, device) {
			return c
		}
	}
	return RetentionClass{Devices: allDevices}
}

// keepsLonger reports whether a retention keeps longer than another; 0 never ends.
func keepsLonger(a, b time.Duration) bool { return a != b && (a == 0 || b != 0 && a > b) }

// shortens reports whether some device may be kept for less with classes than with the classes before: a new class is
// compared with every class that its devices may have had.
func shortens(before, classes []RetentionClass) bool {
	for i, c := range classes {
		for _, was := range before {
			ofOthers := slices.ContainsFunc(classes[:i], func(x RetentionClass) bool { return x.Devices == was.Devices })
			if !ofOthers && keepsLonger(was.Keep, c.Keep) {
				return true
			}
			if was.Devices == c.Devices {
				break
			}
		}
	}
	return false
}

// retentionSet is what was last set of a tenant's retention.
type retentionSet struct {
	classes []RetentionClass
	begins  int64             // ms since 1970 UTC: when the classes come into force
	before  []retentionPolicy // the policies without them
}

// setOf returns what was set last of all policies.
func setOf(policies []retentionPolicy) *retentionSet {
	n := len(policies)
	out := &retentionSet{classes: policies[n-1].classes}
	if n > 1 {
		out.begins, out.before = policies[n-2].until, slices.Clone(policies[:n-1])
		out.before[n-2].until = 0
	}
	return out
}

// At returns the tenant as it is for a process that read its document at a time. A change of retention that comes into
// force later may still be taken back, so it does not count (rule X5).
func (t Tenant) At(read time.Time) Tenant {
	t.known = read.UnixMilli()
	if t.set != nil && t.set.begins > t.known {
		t.policies = t.set.before
	}
	if n := len(t.policies); n > 0 {
		t.Retention = t.policies[n-1].longest()
	}
	return t
}

// RetentionComes returns when what was set last comes into force, and whether that is still to come.
func (t Tenant) RetentionComes() (at time.Time, coming bool) {
	if t.set == nil || t.known == 0 || t.set.begins <= t.known {
		return time.Time{}, false
	}
	return time.UnixMilli(t.set.begins).UTC(), true
}

// Shortens reports whether the text of a RetentionChange keeps readings of some device for less than now. Then it hides
// days, and comes into force later (rule X5).
func (t Tenant) Shortens(text string) (bool, error) {
	classes, err := t.classesOf(text)
	return err == nil && shortens(t.inForce(), classes), err
}

// classesOf returns the classes that a tenant would have with the text of a RetentionChange.
func (t Tenant) classesOf(text string) ([]RetentionClass, error) {
	classes, hasDefault, err := parseRetention(text)
	if err == nil && !hasDefault {
		now := t.inForce()
		classes = append(classes, now[len(now)-1])
	}
	return classes, err
}

// isTag reports whether the class is one by tag.
func (c RetentionClass) isTag() bool { return strings.HasPrefix(c.Devices, "{") }

// coversDay reports whether chunks of a day may have been written under the policy.
func (p retentionPolicy) coversDay(day telemetry.Day) bool { return p.until == 0 || day <= p.lastDay() }

func (p retentionPolicy) lastDay() telemetry.Day {
	return telemetry.DayOf(p.until + retentionLead.Milliseconds())
}

// firstVisible returns the first day that a class of the policy does not hide at now.
func (p retentionPolicy) firstVisible(c RetentionClass, now int64) telemetry.Day {
	first, since := c.First, now-c.Keep.Milliseconds()
	if c.Keep > 0 && since > 0 {
		first = max(first, telemetry.DayOf(since))
	}
	if p.until > 0 {
		// A device that has left a class by tag is not concerned by what the class hides later.
		first = min(first, p.lastDay()+1)
	}
	return first
}

// longest returns the longest retention of any class; 0 never ends.
func (p retentionPolicy) longest() (longest time.Duration) {
	for _, c := range p.classes {
		if c.Keep <= 0 {
			return 0
		}
		longest = max(longest, c.Keep)
	}
	return longest
}

// matches reports whether a pattern matches a whole text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for _, part := range parts[1 : len(parts)-1] {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return strings.HasSuffix(text, last)
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
	if t.set != nil {
		return t.set.classes
	}
	return t.inForce()
}

// inForce returns the classes that count now.
func (t Tenant) inForce() []RetentionClass {
	if t.policies == nil {
		return []RetentionClass{{Devices: allDevices, Keep: t.Retention}}
	}
	return t.policies[len(t.policies)-1].classes
}

// RetentionText returns the tenant's retention as the flag has it.
func (t Tenant) RetentionText() string { return retentionText(t.RetentionClasses()) }

// ClassText returns a class as the flag has it.
func ClassText(c RetentionClass) string { return retentionText([]RetentionClass{c}) }

func retentionText(classes []RetentionClass) string {
	var parts []string
	for _, c := range classes {
		name, keep := c.Devices, forEver
		if name == allDevices {
			name = defaultClass
		}
		if c.Keep > 0 {
			keep = duration.String(c.Keep)
		}
		parts = append(parts, name+"="+keep)
	}
	return strings.Join(parts, ",")
}

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
			"undo that.", instant(next.until), retentionText([]RetentionClass{next.class}),
			instant(next.until-takeBackMargin.Milliseconds())))
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

func date(day telemetry.Day) string { return time.UnixMilli(day.Start()).UTC().Format(time.DateOnly) }

// RetentionChange sets how long readings are kept, by class of devices. Its text is classes with commas between, such
// as meter-*=3650d,default=400d: a device belongs to the first one that matches, and to default if none does. A single
// duration is that of all devices. Without default the tenant's stays. It counts from now on, or if it shortens from
// two hours later on: until then another change takes it back (rule X5).
//
// A class may be a tag, {site=oslo}. Then found has the devices that have the tags of the text at now.
func RetentionChange(text string, now time.Time, found ...Tagged) (Change, error) {
	classes, hasDefault, err := parseRetention(text)
	if err != nil {
		return Change{}, err
	}
	set := retentionSetting{classes, hasDefault, now.UnixMilli(), nil}
	if len(found) > 0 {
		set.found = found[0]
	}
	return Change{"retention " + text, set.store}, nil
}

// LongestRetention returns the longest retention that a tenant would have with the text of a RetentionChange; 0 is for
// ever.
func (t Tenant) LongestRetention(text string) (time.Duration, error) {
	classes, err := t.classesOf(text)
	return retentionPolicy{classes: classes}.longest(), err
}

// retentionSetting is the classes that become the current ones at a time, in ms since 1970 UTC.
type retentionSetting struct {
	classes    []RetentionClass
	hasDefault bool
	at         int64
	found      Tagged
}

func parseRetention(text string) (classes []RetentionClass, hasDefault bool, err error) {
	if !strings.Contains(text, "=") {
		text = defaultClass + "=" + text
	}
	var last RetentionClass
	for part := range strings.SplitSeq(text, ",") {
		i := strings.LastIndex(part, "=")
		if i <= 0 {
			return nil, false, fmt.Errorf("retention %q is not of the form DEVICES=DURATION", part)
		}
		c := RetentionClass{Devices: part[:i]}
		if _, _, err := parseTag(c.Devices); err != nil {
			return nil, false, err
		}
		if c.Keep, err = parseKeep(part[i+1:]); err != nil {
			return nil, false, err
		}
		if c.Devices == defaultClass {
			c.Devices = allDevices
		}
		switch {
		case c.Devices == allDevices && hasDefault, slices.ContainsFunc(classes,
			func(x RetentionClass) bool { return x.Devices == c.Devices }):
			return nil, false, fmt.Errorf("retention has %q twice", part[:i])
		case c.Devices == allDevices:
			last, hasDefault = c, true
		default:
			classes = append(classes, c)
		}
	}
	if hasDefault {
		classes = append(classes, last)
	}
	if len(classes) > maxRetentionClasses {
		return nil, false, fmt.Errorf("retention has %d classes, and %d are allowed", len(classes), maxRetentionClasses)
	}
	return classes, hasDefault, nil
}

func parseKeep(text string) (time.Duration, error) {
	if text == forEver {
		return 0, nil
	}
	keep, err := duration.Parse(text)
	if years, ok := strings.CutSuffix(text, "y"); ok {
		var n uint64
		n, err = strconv.ParseUint(years, 10, 7)
		keep = time.Duration(n) * 365 * duration.Day
	}
	if err != nil || keep < time.Second || keep%time.Second != 0 {
		return 0, fmt.Errorf("a retention of %q is neither forever nor whole seconds, such as 12h, 400d or 10y", text)
	}
	return keep, nil
}

// store makes the classes the current ones of a tenant document, and those before former ones.
func (x retentionSetting) store(b *tenantBody) error {
	classes, now := x.classes, x.at
	policies, err := policiesOf(*b)
	if err != nil {
		return err
	}
	if policies == nil {
		policies = []retentionPolicy{{classes: []RetentionClass{{Devices: allDevices,
			Keep: time.Duration(b.RetentionSeconds) * time.Second}}}}
	}
	takenBack := false
	if n := len(policies); n > 1 && policies[n-2].until > now+takeBackMargin.Milliseconds() {
		policies, takenBack = policies[:n-1], true
		policies[n-2].until = 0
	}
	before := &policies[len(policies)-1]
	if !x.hasDefault {
		kept := before.classes[len(before.classes)-1].Keep
		classes = append(slices.Clone(classes), RetentionClass{Devices: allDevices, Keep: kept})
	}
	begins := now
	if n := len(policies); n > 1 { // clocks of those who change it may differ
		begins = max(now, policies[n-2].until)
	}
	tagged := b.taggedTimes()
	tagged.takeBack(now)
	if shortens(before.classes, classes) {
		begins += retentionLead.Milliseconds()
	}
	if err := x.tag(tagged, before.classes, classes, begins); err != nil {
		return err
	}
	for i := range policies {
		for j := range policies[i].classes {
			c := &policies[i].classes[j]
			c.First = policies[i].firstVisible(*c, now)
		}
	}
	current := retentionPolicy{classes: slices.Clone(classes)}
	for i := range current.classes {
		c := &current.classes[i]
		c.First = current.firstVisible(*c, begins)
	}
	longest := current.longest()
	if keepsLonger(before.longest(), longest) {
		longest = before.longest() // for a release that does not know when a change comes into force
	}
	if !takenBack || !slices.EqualFunc(before.classes, classes, RetentionClass.keepsTheSame) {
		before.until = begins
		policies = append(withoutRepeats(policies), current)
	}
	if len(policies) > maxRetentionPolicies {
		return errPolicies
	}
	b.Retention, b.RetentionSeconds = nil, int64(longest/time.Second)
	for _, p := range policies {
		stored := retentionPolicyBody{Until: p.until}
		for _, c := range p.classes {
			stored.Classes = append(stored.Classes, retentionClassBody{c.Devices, int64(c.Keep / time.Second), c.First})
		}
		b.Retention = append(b.Retention, stored)
	}
	return nil
}

// tag adds the devices that have the tags of the classes from a time on. If the tags of a device have changed, and no
// operator has confirmed that, the class that keeps the device longer counts.
func (x retentionSetting) tag(tagged taggedTimes, before, classes []RetentionClass, from int64) error {
	for _, g := range tagsOf(x.classes) {
		if _, known := x.found[g]; !known {
			return errUntagged
		}
	}
	tagged.update(tagged.chosen(before, classes, x.found, lengthens), from)
	if tagged.size() > maxTagged {
		return ErrTagged
	}
	return nil
}

// withoutRepeats leaves out policies with the classes of the last one that keep as long or longer: that one covers more
// days. Those by tag stay: which devices they had depends on when.
func withoutRepeats(policies []retentionPolicy) []retentionPolicy {
	last := policies[len(policies)-1]
	out := slices.DeleteFunc(policies[:len(policies)-1], func(p retentionPolicy) bool {
		same := slices.EqualFunc(p.classes, last.classes, RetentionClass.keepsAsLong)
		for i := range p.classes {
			if same {
				last.classes[i].First = max(last.classes[i].First, p.classes[i].First)
			}
		}
		return same
	})
	return append(out, last)
}

// keepsTheSame reports whether c is of the same devices as other and keeps them as long.
func (c RetentionClass) keepsTheSame(other RetentionClass) bool {
	return c.Devices == other.Devices && c.Keep == other.Keep
}

// keepsAsLong reports whether c is of the same devices as other and keeps them at least as long.
func (c RetentionClass) keepsAsLong(other RetentionClass) bool {
	return c.Devices == other.Devices && !c.isTag() && (c.Keep == 0 || other.Keep > 0 && other.Keep <= c.Keep)
}

// policiesOf returns the policies of a tenant document, the current one last; nil if it has had only one.
func policiesOf(b tenantBody) (out []retentionPolicy, err error) {
	for i, p := range b.Retention {
		x := retentionPolicy{until: p.Until, tagged: b.Tagged}
		for _, c := range p.Classes {
			x.classes = append(x.classes, RetentionClass{c.Devices, time.Duration(c.Seconds) * time.Second, c.First})
		}
		isLast := i == len(b.Retention)-1
		if n := len(x.classes); n == 0 || x.classes[n-1].Devices != allDevices || isLast != (p.Until == 0) {
			return nil, fmt.Errorf("retention %d is damaged", i)
		}
		out = append(out, x)
	}
	return out, nil
}
