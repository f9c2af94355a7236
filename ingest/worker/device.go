package worker

import (
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/internal/telemetry"
)

// device is what a Worker knows of one device, whatever the day: how dense its chunks are, and what
// its entry in the catalog lacks.
type device struct {
	tenant *tenant
	id     string
	slot   int      // among its tenant's
	chains []*chain // under the Worker's lock
	sizer  binning.Sizer

	// The shape of the last reading: as long as the next one has the same, nothing new is in it.
	fields []shape
	labels telemetry.Labels
	tags   telemetry.Labels

	seen   entry
	news   bool  // seen has a metric, label or tag that no Note has carried yet
	since  int64 // offset of the record with the oldest of the news
	queued bool  // stands among the Worker's unnoted
	held   int32 // place among those that hold back the committed offset

	listed      bool  // the entry was written or read
	first, last int64 // the times that it gave then
	look        int32 // place among those whose times are not compared with the catalog's before lookAt
	lookAt      time.Time
	noting      bool  // a Note is under way
	carried     int64 // offset of the oldest news that it carries
}

func newDevice(t *tenant, id string) *device {
	return &device{tenant: t, id: id, seen: newEntry(t.name, id)}
}

// chain is the device's chain of a day, nil if there is none.
func (d *device) chain(day telemetry.Day) *chain {
	for _, c := range d.chains {
		if c.day == day {
			return c
		}
	}
	return nil
}

type shape struct {
	metric string
	kind   telemetry.Kind
}

// observe takes note of what a reading shows of its device, and reports whether that is news for the catalog.
func (d *device) observe(offset int64, r *telemetry.Reading) bool {
	d.seen.span(r.Time, r.Time)
	if d.same(r) {
		return false
	}
	d.fields = d.fields[:0]
	fresh := false
	for _, f := range r.Fields {
		d.fields = append(d.fields, shape{f.Metric, f.Value.Kind()})
		fresh = d.seen.metric(f.Metric, f.Value.Kind().String()) || fresh
	}
	for _, l := range r.Labels {
		fresh = d.seen.label(l.Name, l.Value) || fresh
	}
	for _, t := range r.Tags {
		fresh = d.seen.tag(t.Name, t.Value) || fresh
	}
	d.labels, d.tags = r.Labels, r.Tags
	if fresh {
		d.tell(offset)
	}
	return fresh
}

// tell says that the catalog lacks something of the record at an offset.
func (d *device) tell(offset int64) {
	if !d.news || offset < d.since {
		d.news, d.since = true, offset
	}
}

func (d *device) same(r *telemetry.Reading) bool {
	if len(r.Fields) != len(d.fields) || !slices.Equal(r.Labels, d.labels) || len(r.Tags) > 0 && !slices.Equal(r.Tags, d.tags) {
		return false
	}
	for i := range r.Fields {
		if f := &r.Fields[i]; d.fields[i].metric != f.Metric || d.fields[i].kind != f.Value.Kind() {
			return false
		}
	}
	return true
}

// stretched tells whether the device has readings outside the times that its entry gives.
func (d *device) stretched() bool {
	return !d.seen.empty() && (!d.listed || d.seen.First < d.first || d.seen.Last > d.last)
}

// holdsBack is the lowest offset with news that the catalog does not have; ok is false for none.
func (d *device) holdsBack() (offset int64, ok bool) {
	if d.noting && d.carried != noOffset {
		return d.carried, true
	}
	return d.since, d.news
}

const noOffset = -1
