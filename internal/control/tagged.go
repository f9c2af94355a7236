package control

import (
	"encoding/json"
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

// update adds what was found at a time, of the tags that were looked for. It reports whether anything has changed.
func (g taggedTimes) update(found Tagged, at int64) (changed bool) {
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
			if times := g[class][d]; len(times)%2 == 1 && !now[d] {
				g[class][d], changed = append(times, max(at, times[len(times)-1])), true
			}
		}
		for d := range now {
			if times := g[class][d]; len(times)%2 == 0 {
				since := at
				if n := len(times); n > 0 {
					since = max(since, times[n-1])
				}
				g[class][d], changed = append(times, since), true
			}
		}
	}
	return changed
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

// TaggedChange stores which devices have the tags of classes of retention, as it was found at now, and reports whether
// that differs from what is stored.
func (t Tenant) TaggedChange(found Tagged, now time.Time) (c Change, differs bool) {
	if !t.tagged.clone().update(found, now.UnixMilli()) {
		return c, false
	}
	store := func(body map[string]any) error {
		tagged, err := taggedOf(body)
		if err != nil {
			return err
		}
		begin, err := presentSince(body)
		if err != nil {
			return err
		}
		// The clock may be behind the one by which the classes were set: devices come to them after that.
		tagged.update(found, max(now.UnixMilli(), begin+1))
		if tagged.size() > maxTagged {
			return ErrTagged
		}
		body["tagged"] = tagged
		return nil
	}
	return Change{path: []string{"tagged"}, named: "tagged", value: "updated", update: store}, true
}

// presentSince returns when the present classes of a tenant document were set, 0 for the first ones.
func presentSince(body map[string]any) (int64, error) {
	text, err := json.Marshal(body["retention"])
	if err != nil {
		return 0, err
	}
	var policies []retentionPolicyBody
	if err := json.Unmarshal(text, &policies); err != nil || len(policies) < 2 {
		return 0, err
	}
	return policies[len(policies)-2].Until, nil
}

// taggedOf returns what a tenant document says of tags.
func taggedOf(body map[string]any) (taggedTimes, error) {
	text, err := json.Marshal(body["tagged"])
	if err != nil {
		return nil, err
	}
	tagged := taggedTimes{}
	if err := json.Unmarshal(text, &tagged); err != nil {
		return nil, fmt.Errorf("tagged is damaged: %w", err)
	}
	if tagged == nil {
		tagged = taggedTimes{}
	}
	return tagged, nil
}

// spell is a time for which a device had one class.
type spell struct {
	retentionPolicy // until its end
	class           RetentionClass
}

// spells calls yield with the classes that a device has had, one after the other, the present one last: a class ends
// when the retention is changed, or when the device gets or loses a tag. A writer may use a class until the lead after
// its end, for any day up to then.
func (t Tenant) spells(device string, yield func(spell)) {
	begin := int64(math.MinInt64)
	for _, p := range t.policies {
		end := p.until
		if end == 0 {
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
