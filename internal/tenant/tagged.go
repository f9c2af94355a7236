package tenant

import (
	"errors"
	"fmt"
	"slices"
)

// maxTagged is how many devices may be in classes of retention by tag: their ids stand in the tenant's document.
const maxTagged = 5000

// ErrTagged says that more devices have tags which classes of retention name than a tenant's document takes.
var ErrTagged = fmt.Errorf("%w: devices in classes of retention by tag: at most %d", ErrTooMany, maxTagged)

// Tagged is the ids of devices by the tag that they have.
type Tagged map[RetentionTag][]string

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

// first returns when the first device came to one of some classes, ms since 1970 UTC; 0 for none.
func (g taggedTimes) first(tags []RetentionTag) (first int64) {
	for _, tag := range tags {
		for _, times := range g[tag.String()] {
			if len(times) > 0 && (first == 0 || times[0] < first) {
				first = times[0]
			}
		}
	}
	return first
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
	// inForce is the class without stored changes that are still to come.
	inForce RetentionClass
}

// Shortens reports whether readings of the device would be kept for less.
func (r Retagged) Shortens() bool { return keepsLonger(r.Stored.Keep, r.Found.Keep) }

// lengthens reports whether readings of a device are kept longer for its tags, and none for less. What producers send
// decides of that alone (rule X6).
func lengthens(r Retagged) bool {
	return keepsLonger(r.Found.Keep, r.Stored.Keep) && !keepsLonger(r.inForce.Keep, r.Found.Keep)
}

// chosen returns the tags to store from a time on: the found tags of devices that are accepted, the stored tags of
// other devices. Of tags that no class named before, the found ones count.
func (g taggedTimes) chosen(before, classes []RetentionClass, found Tagged, at int64,
	accept func(Retagged) bool) Tagged {
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
		stored, inForce := map[string]bool{}, map[string]bool{}
		for tag := range found {
			class := tag.String()
			stored[class], inForce[class] = len(g[class][d])%2 == 1, g.has(class, d, at)
			if !slices.ContainsFunc(before, func(c RetentionClass) bool { return c.Devices == class }) {
				stored[class], inForce[class] = has[class], has[class]
			}
		}
		in := func(tags map[string]bool) RetentionClass {
			return classOf(classes, d, func(class string) bool { return tags[class] })
		}
		if !accept(Retagged{d, in(stored), in(has), in(inForce)}) {
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

// taggedTimes returns the tags of devices, which may be changed in place.
func (b *tenantBody) taggedTimes() taggedTimes {
	if b.Tagged == nil {
		b.Tagged = taggedTimes{}
	}
	return b.Tagged
}
