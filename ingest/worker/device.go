package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/internal/telemetry"
)

// device is what a Worker knows of one device, whatever the day: how dense its chunks are, and what
// its entry in the catalog lacks.
type device struct {
	tenant  *tenant
	id      string
	slot    int      // among its tenant's
	counted int      // bytes that the Worker has of it
	chains  []*chain // under the Worker's lock
	sizer   binning.Sizer
	limited *rated // nil: nothing is known for limits

	seen         seen
	pending      bool  // seen has a metric, label or tag that no Note has carried yet
	pendingFrom  int64 // offset of the record with the oldest of the news
	queued       bool  // stands among the Worker's unnoted
	holdingPlace int32 // place among those that hold back the committed offset

	listed       bool  // the entry was written or read
	first, last  int64 // the times that it gave then
	carried      span  // times that a record of the journal has
	carriedAt    int64 // its offset in the journal, noOffset for none
	carriedPlace int32
	owed         *owedTimes // nil: all that is stored is in the catalog or in a record
	lookupPlace  int32      // place among those whose times are not compared with the catalog's before lookupAt
	lookupAt     time.Time
	updating     bool  // a Note is under way
	updatingFrom int64 // offset of the oldest news that it carries
	visibleAt    int64 // ms; while it is among its tenant's fresh devices: 0 before the catalog has all that is new
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

// observe takes note of what a reading shows of its device, and reports whether that is news for the catalog. With
// repeats, its columns and labels are those of an earlier one.
func (d *device) observe(offset int64, r *telemetry.Reading, repeats bool, sets *columnSets) bool {
	d.seen.span(r.Time)
	fresh := false
	if !repeats {
		fresh = d.list(r.Fields, sets)
		for _, l := range r.Labels {
			fresh = d.seen.label(l) || fresh
		}
	}
	for _, t := range r.Tags {
		fresh = d.seen.tag(t) || fresh
	}
	if fresh {
		d.require(offset)
	}
	return fresh
}

// list takes the metrics of fields, and reports whether that was news.
func (d *device) list(fields []telemetry.Field, sets *columnSets) (fresh bool) {
	c, all := d.seen.columns.with(fields, maxEntry-d.seen.listed)
	if c != d.seen.columns {
		d.seen.columns, fresh = sets.swap(d.seen.columns, c), true
	}
	return !all && d.seen.lack() || fresh
}

// require says that the catalog lacks something of the record at an offset.
func (d *device) require(offset int64) {
	if !d.pending || offset < d.pendingFrom {
		d.pending, d.pendingFrom = true, offset
	}
}

// timesPending reports whether the device has readings outside the times that its entry gives.
func (d *device) timesPending() bool {
	return d.seen.timed && (!d.listed || d.seen.first < d.first || d.seen.last > d.last)
}

// holdsBack is the lowest offset with news that the catalog does not have; ok is false for none.
func (d *device) holdsBack() (offset int64, ok bool) {
	if d.updating && d.updatingFrom != noOffset {
		return d.updatingFrom, true
	}
	return d.pendingFrom, d.pending
}

const noOffset = -1

// What a device and a chain take, in bytes, without what they point to: the structs, and their places in maps and
// lists.
const (
	deviceBytes = 406
	chainBytes  = 580
)

// bytes is how much memory the device takes without its chains.
func (d *device) bytes() int { return deviceBytes + (len(d.id)+15)&^15 + d.seen.bytes() }
