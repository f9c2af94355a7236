package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/internal/telemetry"
)

// device is what a Worker knows of one device, on all days: its chains, how dense its chunks are, and what the catalog
// lacks of it.
type device struct {
	tenant  *tenant
	id      string
	slot    int      // among its tenant's
	counted int      // bytes that the Worker has of it
	chains  []*chain // under the Worker's lock
	sizer   binning.Sizer
	limited *rated // nil: nothing is known for limits

	seen         seen
	pending      bool  // seen has a metric, label or tag that no update has had yet
	pendingFrom  int64 // offset of the record with the oldest of those
	queued       bool  // stands among the pending updates
	holdingPlace int32 // place among those that hold back the committed offset

	listed       bool  // the entry was written or read
	first, last  int64 // the times that it gave then
	carried      span  // times that a record of the journal has
	carriedAt    int64 // its offset in the journal, noOffset for none
	carriedPlace int32
	owed         *owedTimes // nil: all that is stored is in the catalog or in a record
	lookupPlace  int32      // place among the lookups
	lookupAt     time.Time
	updating     bool  // an update is in flight
	updatingFrom int64 // offset of the oldest name in it
	visibleAt    int64 // ms; while it is among its tenant's fresh devices: 0 before the catalog has all that is new
}

// chain returns the device's chain of a day, nil if there is none.
func (d *device) chain(day telemetry.Day) *chain {
	for _, c := range d.chains {
		if c.day == day {
			return c
		}
	}
	return nil
}

// shown is a reading of the record at an offset; repeats says that its bin has one with the same columns and labels.
type shown struct {
	*telemetry.Reading
	offset  int64
	repeats bool
}

// observe records what a reading shows of its device, and reports whether a name is new.
func (d *device) observe(x shown, sets *columnSets) bool {
	d.seen.span(x.Time)
	fresh := false
	if !x.repeats {
		fresh = d.list(x.Fields, sets)
		for _, l := range x.Labels {
			fresh = d.seen.label(l) || fresh
		}
	}
	for _, t := range x.Tags {
		fresh = d.seen.tag(t) || fresh
	}
	if fresh {
		d.require(x.offset)
	}
	return fresh
}

// list records the metrics of fields, and reports whether one is new.
func (d *device) list(fields []telemetry.Field, sets *columnSets) (fresh bool) {
	c, all := d.seen.columns.with(fields, maxEntry-d.seen.listed)
	if c != d.seen.columns {
		d.seen.columns, fresh = sets.swap(d.seen.columns, c), true
	}
	return !all && d.seen.lack() || fresh
}

// require has the catalog updated with a name of the record at an offset.
func (d *device) require(offset int64) {
	if !d.pending || offset < d.pendingFrom {
		d.pending, d.pendingFrom = true, offset
	}
}

// timesPending reports whether the device has readings outside the times that the catalog has of it.
func (d *device) timesPending() bool {
	return d.seen.timed && (!d.listed || d.seen.first < d.first || d.seen.last > d.last)
}

// holdsBack returns the lowest offset of a record with a name that the catalog lacks; ok is false for none.
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

// bytes returns how much memory the device takes without its chains.
func (d *device) bytes() int { return deviceBytes + (len(d.id)+15)&^15 + d.seen.bytes() }
