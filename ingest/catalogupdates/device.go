package catalogupdates

import (
	"slices"
	"time"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
)

// Tenant is what Updates knows of a tenant. It changes under the lock.
type Tenant struct {
	Name    string
	Log     telemetry.Source // the stream and partition that are read
	Version uint64           // how often Unseen has changed, counted on from tenants that were here before

	// updates are devices with an update that is pending, or so recent that a reader may not see it: until when, in ms,
	// 0 before the catalog has all that is new.
	updates map[*Device]int64
	units   map[string]string // unit of a metric, as its senders gave it last
}

// Device is what Updates knows of a device: what readings have shown of it, and what the catalog lacks of that.
type Device struct {
	ID     string
	Tenant *Tenant
	// InUse is set while the device has open bins or stored tails: its times can wait for their turn.
	InUse bool

	pending      bool // seen has a metric, label or tag that no update has had yet
	queued       bool // the device is among the pending updates
	updating     bool // an update is in flight
	outdated     bool // the device was reset since that update began
	urgent       bool // the journal is down: the catalog is to have the times
	listed       bool // the entry was written or read
	holdingPlace int32
	lookupPlace  int32
	pendingFrom  int64 // offset of the record with the oldest name that is pending
	lookupAt     int64 // ns since 1970
	first, last  int64 // the times that the entry gave when it was written or read
	seen         seen
}

// NewDevice returns a device without readings.
func NewDevice(t *Tenant, id string) Device { return Device{ID: id, Tenant: t, seen: nothing} }

// Bytes returns the bytes of the lists of what was seen of the device, without the struct and the columns.
func (d *Device) Bytes() int { return d.seen.bytes() }

// Lacks reports whether the catalog lacks something of the device.
func (d *Device) Lacks() bool { return d.pending || d.TimesPending() }

// Busy reports whether an update of the device is in flight or queued, or a reader of the catalog may not see it yet.
func (d *Device) Busy() bool { return d.updating || d.queued || d.visibleAt() > 0 }

// TimesPending reports whether the device has readings outside the times that the catalog has of it.
func (d *Device) TimesPending() bool {
	return d.seen.timed && (!d.listed || d.seen.first < d.first || d.seen.last > d.last)
}

// TimesUnseen reports whether a reader of the catalog may not see the device's times yet. The caller holds the lock.
func (d *Device) TimesUnseen() bool {
	_, isRecent := d.Tenant.updates[d]
	return d.TimesPending() || d.seen.timed && isRecent
}

// Times returns the first and last event time of the device; ok is false before its first reading.
func (d *Device) Times() (first, last int64, ok bool) { return d.seen.first, d.seen.last, d.seen.timed }

// Listed returns the times that the catalog has of the device; ok is false while it is not known to list it.
func (d *Device) Listed() (first, last int64, ok bool) { return d.first, d.last, d.listed }

// Reports reports whether the device has reported a metric.
func (d *Device) Reports(metric string) bool { return d.seen.columns.has(metric) }

// Spans records that the device has readings at these times. The caller holds the lock.
func (d *Device) Spans(first, last int64) {
	d.seen.span(first)
	d.seen.span(last)
}

// Shown is a reading of the record at an offset. Repeats says that its bin has one with the same columns and labels.
type Shown struct {
	*telemetry.Reading
	Offset  int64
	Repeats bool
}

// observe records what a reading shows of its device, and reports whether a name is new.
func (d *Device) observe(x Shown, u *Updates) bool {
	d.seen.span(x.Time)
	fresh := false
	if !x.Repeats {
		fresh = d.list(x.Fields, &u.columns)
		for _, l := range x.Labels {
			fresh = d.seen.label(l) || fresh
		}
	}
	if !slices.Equal(d.seen.tags, x.Tags) || u.from > 0 && d.seen.tagsBelow(u.from) { // most readings repeat them
		for _, t := range x.Tags {
			fresh = d.seen.tag(t, origin{x.Offset, x.Time, false}, u.from) || fresh
		}
	}
	if fresh {
		d.require(x.Offset)
	}
	return fresh
}

// TagsSince returns the tags of the device that records above an offset have set, each as a reading.
func (d *Device) TagsSince(offset int64) (out []Shown) {
	for i, o := range d.seen.origins {
		if o.offset > offset {
			out = append(out, Shown{Reading: &telemetry.Reading{Time: o.time, Tags: d.seen.tags[i : i+1]}, Offset: o.offset})
		}
	}
	return out
}

// list records the metrics of fields, and reports whether one is new.
func (d *Device) list(fields []telemetry.Field, sets *columnSets) (fresh bool) {
	c, all := d.seen.columns.with(fields, maxEntry-int(d.seen.listed))
	if c != d.seen.columns {
		d.seen.columns, fresh = sets.swap(d.seen.columns, c), true
	}
	return !all && d.seen.lack() || fresh
}

// require records that the catalog needs a name from the record at an offset.
func (d *Device) require(offset int64) {
	if !d.pending || offset < d.pendingFrom {
		d.pending, d.pendingFrom = true, offset
	}
}

// Unseen returns what a reader of the catalog may not see yet of the tenant's devices. The caller holds the lock.
func (t *Tenant) Unseen() (out []catalog.Entry) {
	for d := range t.updates {
		out = append(out, d.seen.entry(d.ID, t))
	}
	return out
}

// visibleAt returns when every reader of the catalog sees all of the device, ms; 0 if that is not known.
func (d *Device) visibleAt() int64 { return d.Tenant.updates[d] }

// HasUnits reports whether a unit of a metric is known.
func (t *Tenant) HasUnits() bool { return len(t.units) > 0 }

// maxUnits bounds the metrics of a tenant with a unit that is known.
const maxUnits = 10_000

// SetUnit sets the unit of a metric, and reports whether that is new. The caller holds the lock.
func (t *Tenant) SetUnit(metric, unit string) bool {
	if t.units[metric] == unit || len(t.units) >= maxUnits && t.units[metric] == "" {
		return false
	}
	if t.units == nil {
		t.units = make(map[string]string)
	}
	t.units[metric] = unit
	return true
}

// updatePending records that the catalog lacks something of a device. The caller of all three methods holds the lock.
func (t *Tenant) updatePending(d *Device) {
	if t.updates == nil {
		t.updates = make(map[*Device]int64)
	}
	t.updates[d] = 0
	t.Version++
}

// updateAcked records that the catalog has all of a device; a reader that is behind may not see it until an instant.
func (t *Tenant) updateAcked(d *Device, until time.Time) {
	if _, ok := t.updates[d]; ok {
		t.updates[d] = until.UnixMilli()
		t.Version++
	}
}

// updateVisible records that every reader of the catalog sees all of a device. That changes the version too: a reader
// that has read the catalog before may not have seen the device, and heads leave the device out from now on.
func (t *Tenant) updateVisible(d *Device) {
	if _, ok := t.updates[d]; ok {
		t.Version++
	}
	if delete(t.updates, d); len(t.updates) == 0 {
		t.updates = nil // a map keeps its room
	}
}
