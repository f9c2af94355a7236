package ingest

import (
	"maps"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// device is what a Worker knows of one device, whatever the day: how dense its chunks are, and what
// its entry in the catalog lacks.
type device struct {
	key    deviceKey
	chains []*chain // under the Worker's lock
	sizer  binning.Sizer
	held   bool // its first bin after the start has been opened

	// The shape of the last reading: as long as the next one has the same, nothing new is in it.
	fields []shape
	labels telemetry.Labels
	tags   telemetry.Labels

	seen    control.Device // everything taken since the start
	news    bool           // seen has a metric, label or tag that no Note has carried yet
	since   int64          // offset of the record with the oldest of the news
	stored  control.Device // the entry as last written or read; zero before the first Note
	noted   time.Time      // when the last Note began
	noting  bool           // a Note is under way
	carried int64          // offset of the oldest news that it carries
}

// forget drops a chain that is idle. The caller holds the lock.
func (d *device) forget(c *chain) {
	d.chains = slices.DeleteFunc(d.chains, func(x *chain) bool { return x == c })
}

type shape struct {
	metric string
	kind   telemetry.Kind
}

// observe takes note of what a reading shows of its device.
func (d *device) observe(offset int64, r *telemetry.Reading) {
	if len(d.seen.Metrics) == 0 {
		d.seen = control.Device{Tenant: d.key.tenant, Device: d.key.device, Metrics: map[string][]string{}, First: r.Time, Last: r.Time}
	}
	d.seen.First, d.seen.Last = min(d.seen.First, r.Time), max(d.seen.Last, r.Time)
	if d.same(r) {
		return
	}
	d.fields = d.fields[:0]
	fresh := false
	for _, f := range r.Fields {
		d.fields = append(d.fields, shape{f.Metric, f.Value.Kind()})
		fresh = add(d.seen.Metrics, f.Metric, f.Value.Kind().String(), int(telemetry.Text)) || fresh
	}
	for _, l := range r.Labels {
		if d.seen.Labels == nil {
			d.seen.Labels = map[string][]string{}
		}
		fresh = add(d.seen.Labels, l.Name, l.Value, control.MaxLabelValues) || fresh
	}
	for _, t := range r.Tags {
		if d.seen.Tags == nil {
			d.seen.Tags = map[string]string{}
		}
		if old, ok := d.seen.Tags[t.Name]; !ok || old != t.Value {
			d.seen.Tags[t.Name] = t.Value
			fresh = true
		}
	}
	d.labels, d.tags = r.Labels, r.Tags
	if fresh && !d.news {
		d.news, d.since = true, offset
	}
}

func (d *device) same(r *telemetry.Reading) bool {
	if len(r.Fields) != len(d.fields) || !slices.Equal(r.Labels, d.labels) || len(r.Tags) > 0 && !slices.Equal(r.Tags, d.tags) {
		return false
	}
	for i, f := range r.Fields {
		if d.fields[i].metric != f.Metric || d.fields[i].kind != f.Value.Kind() {
			return false
		}
	}
	return true
}

// add puts value into the sorted list of name, unless the list has limit of them, and tells whether it did.
func add(m map[string][]string, name, value string, limit int) bool {
	i, found := slices.BinarySearch(m[name], value)
	if found || len(m[name]) >= limit {
		return false
	}
	m[name] = slices.Insert(slices.Clone(m[name]), i, value)
	return true
}

// stretched tells whether the device has readings outside the times that its entry gives.
func (d *device) stretched() bool {
	return len(d.seen.Metrics) > 0 && (len(d.stored.Metrics) == 0 || d.seen.First < d.stored.First || d.seen.Last > d.stored.Last)
}

// note is the next Note, and clears the news that it carries.
func (d *device) note(now time.Time) *Note {
	d.noting, d.carried, d.noted = true, d.since, now
	if !d.news {
		d.carried = noOffset
	}
	d.news, d.since = false, 0
	return &Note{Tenant: d.key.tenant, Device: d.key.device, Seen: clone(d.seen), device: d}
}

// first is the lowest offset with news that the catalog does not have; ok is false for none.
func (d *device) first() (offset int64, ok bool) {
	if d.noting && d.carried != noOffset {
		return d.carried, true
	}
	return d.since, d.news
}

const noOffset = -1

func clone(d control.Device) control.Device {
	return merge(control.Device{Tenant: d.Tenant, Device: d.Device, First: d.First, Last: d.Last, ETag: d.ETag}, d)
}

// merge is the entry with what was seen added: nothing is taken away, and of tags the seen ones win.
func merge(entry, seen control.Device) control.Device {
	out := entry
	out.Metrics = map[string][]string{}
	for _, from := range []control.Device{entry, seen} {
		for name, kinds := range from.Metrics {
			for _, k := range kinds {
				add(out.Metrics, name, k, int(telemetry.Text))
			}
		}
	}
	out.Labels, out.Tags = nil, nil
	for _, from := range []control.Device{entry, seen} {
		for name, values := range from.Labels {
			if out.Labels == nil {
				out.Labels = map[string][]string{}
			}
			for _, v := range values {
				add(out.Labels, name, v, control.MaxLabelValues)
			}
		}
		for name, v := range from.Tags {
			if out.Tags == nil {
				out.Tags = map[string]string{}
			}
			out.Tags[name] = v
		}
	}
	if len(entry.Metrics) == 0 {
		out.First, out.Last = seen.First, seen.Last
	} else {
		out.First, out.Last = min(entry.First, seen.First), max(entry.Last, seen.Last)
	}
	return out
}

// same tells whether two entries say the same.
func same(a, b control.Device) bool {
	sets := func(x, y map[string][]string) bool {
		return maps.EqualFunc(x, y, func(p, q []string) bool { return slices.Equal(p, q) })
	}
	return a.First == b.First && a.Last == b.Last && maps.Equal(a.Tags, b.Tags) && sets(a.Metrics, b.Metrics) && sets(a.Labels, b.Labels)
}
