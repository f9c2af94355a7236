package worker

import (
	"maps"
	"slices"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// maxEntry bounds what an entry of the catalog lists, in bytes of names and values: the store takes no document above
// two megabytes, and a device that keeps inventing names must not hold up its partition. What does not fit is not
// listed; it is stored and answered all the same.
const maxEntry = 512 << 10

// listedBytes is what a name or value takes in an entry beside its characters, of which each may be escaped.
const listedBytes = 16

// entry is what the catalog is to say of a device, within maxEntry.
type entry struct {
	control.Device
	bytes int
}

func newEntry(tenant, device string) entry {
	return entry{Device: control.Device{Tenant: tenant, Device: device, Metrics: map[string][]string{}}}
}

// empty reports whether nothing was seen of the device yet.
func (e *entry) empty() bool { return len(e.Metrics) == 0 }

// span widens the entry's times.
func (e *entry) span(first, last int64) {
	if e.empty() {
		e.First, e.Last = first, last
		return
	}
	e.First, e.Last = min(e.First, first), max(e.Last, last)
}

// room makes room for some more strings, if there is any.
func (e *entry) room(texts ...string) bool {
	n := 0
	for _, t := range texts {
		n += 2*len(t) + listedBytes
	}
	if e.bytes+n > maxEntry {
		return false
	}
	e.bytes += n
	return true
}

// metric lists a kind of a metric's values, and reports whether that was news. The first one always finds room.
func (e *entry) metric(name string, kind string) bool {
	return e.add(e.Metrics, name, kind, int(telemetry.Text))
}

// label lists a value of a label, and reports whether that was news.
func (e *entry) label(name, value string) bool {
	if e.Labels == nil {
		e.Labels = map[string][]string{}
	}
	return e.add(e.Labels, name, value, control.MaxLabelValues)
}

// tag sets a tag, and reports whether that was news.
func (e *entry) tag(name, value string) bool {
	old, ok := e.Tags[name]
	if ok && old == value {
		return false
	}
	if ok {
		e.bytes -= 2 * (len(name) + len(old) + listedBytes)
	}
	if !e.room(name, value) {
		if ok {
			e.bytes += 2 * (len(name) + len(old) + listedBytes)
		}
		return false
	}
	if e.Tags == nil {
		e.Tags = map[string]string{}
	}
	e.Tags[name] = value
	return true
}

// add puts value into the sorted list of name, unless the list has limit of them, and reports whether it did.
func (e *entry) add(m map[string][]string, name, value string, limit int) bool {
	list := m[name]
	i, found := slices.BinarySearch(list, value)
	if found || len(list) >= limit {
		return false
	}
	if list == nil && !e.room(name, value) || list != nil && !e.room(value) {
		return false
	}
	m[name] = slices.Insert(slices.Clone(list), i, value)
	return true
}

// merge adds what another entry says: nothing is taken away, and of tags the other's win.
func (e *entry) merge(o control.Device) {
	if len(o.Metrics) > 0 {
		e.span(o.First, o.Last)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Metrics)) {
		for _, kind := range o.Metrics[name] {
			e.metric(name, kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Tags)) {
		e.tag(name, o.Tags[name])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Labels)) {
		for _, value := range o.Labels[name] {
			e.label(name, value)
		}
	}
}

// merged is the entry as stored with what was seen added.
func merged(stored, seen control.Device) control.Device {
	e := newEntry(stored.Tenant, stored.Device)
	e.ETag = stored.ETag
	e.merge(stored)
	e.merge(seen)
	return e.Device
}

// same reports whether two entries say the same, but for the last time.
func same(a, b control.Device) bool {
	sets := func(x, y map[string][]string) bool {
		return maps.EqualFunc(x, y, func(p, q []string) bool { return slices.Equal(p, q) })
	}
	return a.First == b.First && maps.Equal(a.Tags, b.Tags) && sets(a.Metrics, b.Metrics) && sets(a.Labels, b.Labels)
}
