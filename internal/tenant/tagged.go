package tenant

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// maxTagged is how many devices may be in classes of retention by tag: their ids stand in the tenant's document.
const maxTagged = 5000

// ErrTagged says that more devices have tags which classes of retention name than a tenant's document takes.
var ErrTagged = fmt.Errorf("%w: devices in classes of retention by tag: at most %d", ErrTooMany, maxTagged)

// RetentionTag is a tag that a class of retention names, as {name=value}.
type RetentionTag struct{ Name, Value string }

// String returns the tag as a class has it.
func (g RetentionTag) String() string { return "{" + g.Name + "=" + g.Value + "}" }

// parseTag returns the tag of a class, if it is one by tag.
func parseTag(devices string) (g RetentionTag, ok bool, err error) {
	if !strings.HasPrefix(devices, "{") {
		return g, false, nil
	}
	inner, closed := strings.CutSuffix(devices[1:], "}")
	g.Name, g.Value, ok = strings.Cut(inner, "=")
	if !closed || !ok || g.Name == "" || g.Value == "" || strings.ContainsAny(inner, "{}*") {
		return g, true, fmt.Errorf("retention %q is not of the form {TAG=VALUE}", devices)
	}
	return g, true, nil
}

// RetentionTags returns the tags that a RetentionChange names.
func RetentionTags(text string) ([]RetentionTag, error) {
	classes, _, err := parseRetention(text)
	return tagsOf(classes), err
}

// RetentionTags returns the tags of the tenant's present classes.
func (t Tenant) RetentionTags() []RetentionTag { return tagsOf(t.RetentionClasses()) }

func tagsOf(classes []RetentionClass) (tags []RetentionTag) {
	for _, c := range classes {
		if g, ok, err := parseTag(c.Devices); ok && err == nil {
			tags = append(tags, g)
		}
	}
	return tags
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

// Tagged is the ids of devices by the tag that they have.
type Tagged map[RetentionTag][]string

// taggedTimes says since when devices have a tag, and until when: by class and device, ms since 1970 UTC, first a time
// from which on it has the tag, then one from which on it has not, and so on.
type taggedTimes map[string]map[string][]int64

// has reports whether a device had the tag of a class at a time.
func (g taggedTimes) has(class, device string, at int64) bool {
	n := 0
	for _, x := range g[class][device] {
		if x <= at {
			n++
		}
	}
	return n%2 == 1
}

// changes returns the times at which a device came to one of the classes or left it, ascending.
func (g taggedTimes) changes(classes []RetentionClass, device string) (all []int64) {
	for _, c := range classes {
		all = append(all, g[c.Devices][device]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// update adds what was found at a time, of the tags that were looked for. It reports whether anything has changed. A
// change that is to come is taken back by what undoes it.
func (g taggedTimes) update(found Tagged, at int64) (changed bool) {
	set := func(class, device string, has bool) {
		times := g[class][device]
		n := len(times)
		switch {
		case n%2 == 1 == has:
			return
		case n > 0 && times[n-1] > at+takeBackMargin.Milliseconds():
			g[class][device] = times[:n-1]
		case n > 0:
			g[class][device] = append(times, max(at, times[n-1]))
		default:
			g[class][device] = append(times, at)
		}
		changed = true
	}
	for tag, devices := range found {
		class := tag.String()
		if g[class] == nil {
			g[class] = map[string][]int64{}
		}
		now := map[string]bool{}
		for _, d := range devices {
			now[d] = true
		}
		for d := range g[class] {
			set(class, d, now[d])
		}
		for d := range now {
			set(class, d, true)
		}
	}
	return changed
}

// takeBack takes out the changes that come long enough after a time.
func (g taggedTimes) takeBack(at int64) {
	for class, devices := range g {
		for d, times := range devices {
			for n := len(times); n > 0 && times[n-1] > at+takeBackMargin.Milliseconds(); n = len(times) {
				times = times[:n-1]
			}
			if g[class][d] = times; len(times) == 0 {
				delete(devices, d)
			}
		}
	}
}

// Retagged is a device that would be in another class than the stored one by its tags in the catalog.
type Retagged struct {
	Device string
	// Stored is the class until an operator confirms another one.
	Stored RetentionClass
	// Found is the class that the tags of the catalog give.
	Found RetentionClass
}

// Shortens reports whether readings of the device would be kept for less.
func (r Retagged) Shortens() bool { return keepsLonger(r.Stored.Keep, r.Found.Keep) }

// lengthens reports whether readings of a device are kept longer for its tags. What producers send decides of that
// alone (rule X6).
func lengthens(r Retagged) bool { return keepsLonger(r.Found.Keep, r.Stored.Keep) }

// chosen returns the tags to store: the found tags of devices that are accepted, the stored tags of other devices. Of
// tags that no class named before, the found ones count.
func (g taggedTimes) chosen(before, classes []RetentionClass, found Tagged, accept func(Retagged) bool) Tagged {
	// foundOf holds the found classes by device.
	foundOf := map[string]map[string]bool{}
	out := Tagged{}
	for tag, devices := range found {
		out[tag] = []string{}
		isKnown := slices.ContainsFunc(before, func(c RetentionClass) bool { return c.Devices == tag.String() })
		for _, d := range devices {
			if foundOf[d] == nil {
				foundOf[d] = map[string]bool{}
			}
			foundOf[d][tag.String()] = true
		}
		for d, times := range g[tag.String()] {
			if foundOf[d] == nil && isKnown && len(times)%2 == 1 {
				foundOf[d] = map[string]bool{}
			}
		}
	}
	for d, has := range foundOf {
		stored := map[string]bool{}
		for tag := range found {
			class := tag.String()
			stored[class] = len(g[class][d])%2 == 1
			if !slices.ContainsFunc(before, func(c RetentionClass) bool { return c.Devices == class }) {
				stored[class] = has[class]
			}
		}
		in := func(tags map[string]bool) RetentionClass {
			return classOf(classes, d, func(class string) bool { return tags[class] })
		}
		if !accept(Retagged{d, in(stored), in(has)}) {
			has = stored
		}
		for tag := range found {
			if has[tag.String()] {
				out[tag] = append(out[tag], d)
			}
		}
	}
	return out
}

func (g taggedTimes) size() (n int) {
	for _, devices := range g {
		n += len(devices)
	}
	return n
}

// clone returns a copy that may be changed.
func (g taggedTimes) clone() taggedTimes {
	out := taggedTimes{}
	for class, devices := range g {
		out[class] = map[string][]int64{}
		for d, times := range devices {
			out[class][d] = slices.Clone(times)
		}
	}
	return out
}

// errUntagged says that a change of retention by tag does not say which devices have the tag.
var errUntagged = errors.New("a retention by tag needs the devices that have it")

// Retagged returns the devices that would be kept for longer or for less by their tags, sorted.
func (t Tenant) Retagged(found Tagged) (out []Retagged) {
	classes := t.RetentionClasses()
	t.tagged.chosen(classes, classes, found, func(r Retagged) bool {
		if r.Stored.Keep != r.Found.Keep {
			out = append(out, r)
		}
		return false
	})
	slices.SortFunc(out, func(a, b Retagged) int { return strings.Compare(a.Device, b.Device) })
	return out
}

// TaggedChange stores which devices have the tags of classes of retention, as it was found at now, and reports whether
// that differs from the stored tags. Devices that would be kept for less stay as they are (rule X6).
func (t Tenant) TaggedChange(found Tagged, now time.Time) (c Change, differs bool) {
	return t.taggedChange(found, now, 0, lengthens)
}

// ConfirmTagged stores the tags of devices as TaggedChange does, also where they are kept for less, because an operator
// has confirmed that. It comes into force two hours later; until then their former tags take it back (rule X5).
func (t Tenant) ConfirmTagged(found Tagged, now time.Time, devices []string) (c Change, differs bool) {
	return t.taggedChange(found, now, retentionLead, func(r Retagged) bool { return slices.Contains(devices, r.Device) })
}

func (t Tenant) taggedChange(
	found Tagged, now time.Time, lead time.Duration, accept func(Retagged) bool,
) (c Change, differs bool) {
	classes := t.RetentionClasses()
	at := now.Add(lead)
	if !t.tagged.clone().update(t.tagged.chosen(classes, classes, found, accept), at.UnixMilli()) {
		return c, false
	}
	return Change{"tagged updated", func(b *tenantBody) error {
		tagged := b.taggedTimes()
		now := &retentionSet{}
		if policies, err := policiesOf(*b); err != nil {
			return err
		} else if len(policies) > 0 {
			now = setOf(policies)
		}
		// The clock may be behind the one by which the classes were set: devices come to them after that.
		tagged.update(tagged.chosen(now.classes, now.classes, found, accept), max(at.UnixMilli(), now.begins+1))
		if tagged.size() > maxTagged {
			return ErrTagged
		}
		return nil
	}}, true
}

// taggedTimes returns the tags of devices, which may be changed in place.
func (b *tenantBody) taggedTimes() taggedTimes {
	if b.Tagged == nil {
		b.Tagged = taggedTimes{}
	}
	return b.Tagged
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
		yield(spell{p, p.at(device, end-1)})
		begin = end
	}
}

// coming returns the classes by tag that a device comes to later, each with the time from which on as its until.
func (t Tenant) coming(device string) (out []spell) {
	if n := len(t.policies); n > 0 && t.known > 0 {
		now := t.policies[n-1]
		for _, at := range t.tagged.changes(now.classes, device) {
			if at > t.known && (t.set.begins <= t.known || at < t.set.begins) {
				out = append(out, spell{retentionPolicy{until: at}, now.at(device, at)})
			}
		}
	}
	return out
}
