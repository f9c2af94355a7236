package tenant

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/telemetry"
)

func (t Tenant) classesOf(text string) ([]RetentionClass, error) {
	classes, hasDefault, err := parseRetention(text)
	if err == nil && !hasDefault {
		now := t.inForce()
		classes = append(classes, now[len(now)-1])
	}
	return classes, err
}

// RetentionChange sets how long readings are kept, by class of devices. Its text is classes with commas between, such
// as meter-*=3650d,default=400d: a device belongs to the first one that matches, and to default if none does. A single
// duration is that of all devices. Without default the tenant's stays. It counts from when it is stored, or if it
// shortens from two hours later on: until then another change takes it back (rule X5). Each try to store it reads now.
//
// A class may be a tag, {site=oslo}. Then found has the devices that have the tags of the text.
func RetentionChange(text string, now func() time.Time, found ...Tagged) (Change, error) {
	classes, hasDefault, err := parseRetention(text)
	if err != nil {
		return Change{}, err
	}
	set := retentionSetting{classes, hasDefault, now, nil}
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

// retentionSetting is the classes that become the current ones when they are stored.
type retentionSetting struct {
	classes    []RetentionClass
	hasDefault bool
	now        func() time.Time
	found      Tagged
}

// store makes the classes the current ones of a tenant document, and those before former ones.
func (x retentionSetting) store(b *tenantBody) error {
	classes, now := x.classes, x.now().UnixMilli()
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
	for _, p := range policies {
		for i, c := range p.classes {
			p.classes[i].First = p.firstVisible(c, now)
		}
	}
	current := retentionPolicy{classes: slices.Clone(classes)}
	for i, c := range current.classes {
		current.classes[i].First = current.firstVisible(c, begins)
	}
	longest := current.longest()
	for _, p := range policies { // for a release that does not know when a change comes into force
		if (p.until == 0 || p.until > now) && keepsLonger(p.longest(), longest) {
			longest = p.longest()
		}
	}
	if !takenBack || !slices.EqualFunc(before.classes, classes, RetentionClass.keepsTheSame) {
		before.until = begins
		policies = append(withoutRepeats(policies, now-takeBackMargin.Milliseconds()), current)
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
	tagged.update(tagged.chosen(before, classes, x.found, from, lengthens), from)
	if tagged.size() > maxTagged {
		return ErrTagged
	}
	return nil
}

// RetentionTags returns the tags of the tenant's present classes.
func (t Tenant) RetentionTags() []RetentionTag { return tagsOf(t.RetentionClasses()) }

// Retagged returns the devices that would be kept for longer or for less by their tags, sorted.
func (t Tenant) Retagged(found Tagged) (out []Retagged) {
	classes := t.RetentionClasses()
	t.tagged.chosen(classes, classes, found, math.MaxInt64, func(r Retagged) bool {
		if r.Stored.Keep != r.Found.Keep {
			out = append(out, r)
		}
		return false
	})
	slices.SortFunc(out, func(a, b Retagged) int { return strings.Compare(a.Device, b.Device) })
	return out
}

// TaggedChange stores which devices have the tags of classes of retention, and reports whether that differs from the
// stored tags. Devices that would be kept for less stay as they are (rule X6).
func (t Tenant) TaggedChange(found Tagged, now func() time.Time) (c Change, differs bool) {
	return t.taggedChange(found, now, 0, lengthens)
}

// ConfirmTagged stores the tags of devices as TaggedChange does, also where they are kept for less, because an operator
// has confirmed that. It comes into force two hours after it is stored; until then their former tags take it back
// (rule X5).
func (t Tenant) ConfirmTagged(found Tagged, now func() time.Time, devices []string) (c Change, differs bool) {
	return t.taggedChange(found, now, retentionLead, func(r Retagged) bool { return slices.Contains(devices, r.Device) })
}

func (t Tenant) taggedChange(
	found Tagged, now func() time.Time, lead time.Duration, accept func(Retagged) bool,
) (c Change, differs bool) {
	classes := t.RetentionClasses()
	at := func() int64 { return now().Add(lead).UnixMilli() }
	if !t.tagged.clone().update(t.tagged.chosen(classes, classes, found, at(), accept), at()) {
		return c, false
	}
	return Change{"tagged updated", func(b *tenantBody) error {
		tagged := b.taggedTimes()
		policies, err := policiesOf(*b)
		if err != nil {
			return err
		}
		now := setOf(policies)
		// The clock may be behind the one by which the classes were set: devices come to them after that.
		from := max(at(), now.begins+1)
		tagged.update(tagged.chosen(now.classes, now.classes, found, from, accept), from)
		if tagged.size() > maxTagged {
			return ErrTagged
		}
		return nil
	}}, true
}

// Vanishing says of a RetentionChange which days it hides for good and when, a sentence each.
func (t Tenant) Vanishing(text string, now int64) (out []string, err error) {
	classes, err := t.classesOf(text)
	if err != nil || !shortens(t.inForce(), classes) {
		return nil, err
	}
	from := now + retentionLead.Milliseconds()
	before := retentionPolicy{classes: t.inForce()}
	shown := telemetry.DayOf(now)
	for _, c := range before.classes {
		shown = min(shown, before.firstVisible(c, from))
	}
	for _, c := range classes {
		first := before.firstVisible(RetentionClass{Keep: c.Keep}, from)
		if first <= shown || slices.ContainsFunc(before.classes, c.keepsAsLong) {
			continue
		}
		which := "devices " + c.Devices
		if c.Devices == allDevices {
			which = "all other devices"
		}
		out = append(out, fmt.Sprintf("Days before %s of %s are hidden for good from %s on, and then deleted.", date(first),
			which, telemetry.Instant(from)))
	}
	return append(out, fmt.Sprintf("Until %s another tenant set --retention undoes that.",
		telemetry.Instant(from-takeBackMargin.Milliseconds()))), nil
}
