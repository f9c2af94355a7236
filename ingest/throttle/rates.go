package throttle

import (
	"fmt"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// refreshLimits brings a tenant's limits in line with the snapshot. The caller holds the lock.
func (th *Throttle) refreshLimits(t *Tenant, snapshot *control.Snapshot) {
	t.snapshot = snapshot
	said := th.cfg.Limits
	if known, ok := snapshot.Tenant(t.Name); ok && known.Ingest != nil {
		said = known.Ingest.IngestLimits.Or(said)
	}
	if said == t.configured {
		return
	}
	t.configured, t.limits = said, newLimits(said, th.partitions)
	for _, x := range th.deferrals.all {
		if x.tenant == t {
			x.until = 0
		}
	}
}

// published returns when a record was, in ns: by Kafka's timestamp, which a producer may set ahead, but not here.
func published(f *Feed) int64 {
	if f.Time < 0 || f.Time > f.Now.UnixMilli() {
		return f.Now.UnixNano()
	}
	return f.Time * int64(time.Millisecond)
}

// limited reports whether anything has a limit, or is deferred.
func (th *Throttle) limited(snapshot *control.Snapshot) bool {
	return len(th.deferrals.all) > 0 || th.limits || snapshot.LimitsIngest()
}

// CheckRates decides which readings of a record are over a rate, before anything of it is taken. The caller holds the
// lock.
func (th *Throttle) CheckRates(f *Feed) {
	f.Limited = th.limited(f.Snapshot)
	switch {
	case f.Again:
		th.checkDeferred(f)
	case f.Limited:
		th.checkRates(f)
	}
}

// checkRates decides for each tenant and each device of a record whether they are over a rate, before anything of the
// record is taken: what becomes of one of its readings becomes of all that a device has in it, since a cut falls
// between records (rule W2). The caller holds the lock.
func (th *Throttle) checkRates(f *Feed) {
	at := published(f)
	for i := range f.Readings {
		r := &f.Readings[i]
		t := th.known(r.Tenant)
		if t == nil {
			if _, ok := f.Snapshot.Tenant(r.Tenant); !ok {
				continue
			}
			t = th.Tenant(r.Tenant)
		}
		if t.snapshot != f.Snapshot {
			th.refreshLimits(t, f.Snapshot)
		}
		l := t.limits
		if l == nil {
			continue
		}
		d := th.cfg.Registry.Device(t.Name, r.Device)
		if waits, _ := t.deferredAt(d, f.Offset); waits {
			continue
		}
		t.meter.see(at)
		if !t.meter.open(&l.tenant, t.meter.clock) {
			th.exceed(f, deferral{tenant: t})
			continue
		}
		if !l.device.bound() {
			continue
		}
		x := d.rated()
		if x == nil {
			continue
		}
		x.meter.see(at)
		if !x.meter.open(&l.device, x.meter.clock) {
			th.exceed(f, deferral{tenant: t, device: d, id: r.Device})
		}
	}
}

// exceed defers what is over a rate, of a device or of all of the tenant, from a record on, or refuses it.
func (th *Throttle) exceed(f *Feed, x deferral) {
	m, of, name := &x.tenant.meter, &x.tenant.limits.tenant, ofTenant
	if x.device != nil {
		m, of, name = &x.device.limited.meter, &x.tenant.limits.device, ofDevice
	}
	if x.limit = m.exceeded(of, name); x.tenant.limits.refuse {
		m.refuses, m.why = f.Offset+1, x.limit
		return
	}
	x.from, x.published, x.until = f.Offset, f.Time, m.until(of)
	th.deferFrom(x, false)
}

// checkDeferred decides which readings of a record that was read again may be taken: by the clock, since they have
// waited for what was paid for meanwhile. The caller holds the lock.
func (th *Throttle) checkDeferred(f *Feed) {
	at := f.Now.UnixNano()
	for i := range f.Readings {
		r := &f.Readings[i]
		t := th.known(r.Tenant)
		if t.snapshot != f.Snapshot {
			th.refreshLimits(t, f.Snapshot)
		}
		l, d := t.limits, th.cfg.Registry.Device(t.Name, r.Device)
		if _, blocked := t.deferredAt(d, f.Offset); l == nil || blocked || f.Offset < th.deferrals.urgentBelow {
			continue
		}
		if !t.meter.open(&l.tenant, at) {
			x := t.deferral
			if x == nil || f.Offset < x.from {
				x = d.deferral()
			}
			if x.limit == limitShare || x.limit == limitRegistration {
				x.limit = t.meter.exceeded(&l.tenant, ofTenant)
			}
			th.deny(f, r, denied{x, t.meter.until(&l.tenant)})
			continue
		}
		of := d.rated()
		if of == nil || of.meter.open(&l.device, at) {
			continue
		}
		if of.deferral == nil {
			limit := of.meter.exceeded(&l.device, ofDevice)
			th.deferFrom(deferral{tenant: t, device: d, id: r.Device, limit: limit, from: f.Offset, published: f.Time}, true)
		}
		x := of.deferral
		if x == nil {
			x = t.deferral
		}
		if x.limit == limitShare || x.limit == limitRegistration {
			x.limit = of.meter.exceeded(&l.device, ofDevice)
		}
		th.deny(f, r, denied{x, of.meter.until(&l.device)})
	}
}

// denied is a deferral that goes on, and until when the rate is overdrawn, in ns.
type denied struct {
	*deferral
	until int64
}

// deny leaves a record deferred, or refuses what has been deferred for too long. While rows of the chain are about to
// be cut nothing of it is refused, or the cut could wait for ever for dead letters that come behind it.
func (th *Throttle) deny(f *Feed, r *telemetry.Reading, x denied) {
	if tooLong := f.Time >= 0 && f.Now.Sub(time.UnixMilli(f.Time)) > th.cfg.HeldFor; tooLong {
		_, cutting := th.cfg.Registry.Chain(x.tenant.Name, r.Device, telemetry.DayOf(r.Time))
		if !cutting {
			x.refuses = f.Offset + 1
			return
		}
		th.deferrals.block(x.deferral, f, 0)
		return
	}
	th.deferrals.block(x.deferral, f, x.until)
}

// Defers reports whether a reading can't be taken, and counts it if it was not deferred before.
func (th *Throttle) Defers(f *Feed, r *telemetry.Reading) bool {
	t := th.known(r.Tenant)
	if t == nil {
		return false
	}
	d := th.cfg.Registry.Device(t.Name, r.Device)
	waits, blocked := t.deferredAt(d, f.Offset)
	if f.Again || !waits {
		return blocked
	}
	x := t.deferral
	if x == nil || f.Offset < x.from {
		x = d.deferral()
	}
	x.count++
	if x.through = max(x.through, f.Offset); x.limit != limitRegistration {
		t.countExcess(x.limit, r.Device, f.Now).delayed++
	}
	th.cfg.Deferred()
	return true
}

// Refuses returns why a reading is refused for a limit of its tenant, nil if it is not. The caller holds the lock.
func (th *Throttle) Refuses(f *Feed, r *telemetry.Reading) *decode.Bad {
	t := th.known(r.Tenant)
	if t == nil || t.limits == nil {
		return nil
	}
	limit, detail := t.refusedRate(th.cfg.Registry.Device(t.Name, r.Device), f.Offset)
	if limit == "" && t.limits.numbers {
		limit, detail = th.overNumber(t, f, r)
	}
	if limit == "" {
		return nil
	}
	t.countExcess(limit, r.Device, f.Now).refused++
	if limit == limitValues {
		th.queueLabelLookup(t)
	}
	return &decode.Bad{Reason: decode.Limit,
		Detail: fmt.Sprintf("%s: the limit %s of the tenant is passed by device %s", detail, limit, r.Device)}
}

// refusedRate returns the rate for which a record's readings of a device are refused, empty for none, and how it was
// passed. d may be nil.
func (t *Tenant) refusedRate(d *Device, offset int64) (limitName, string) {
	const waited, above = "it has waited for too long", "more came than a second brings"
	if x := t.deferral; x != nil && x.refuses == offset+1 {
		return x.limit, waited
	}
	if t.meter.refuses == offset+1 {
		return t.meter.why, above
	}
	if !t.limits.device.bound() && t.deferredDevices == 0 {
		return "", ""
	}
	x := d.rated()
	switch {
	case x != nil && x.deferral != nil && x.deferral.refuses == offset+1:
		return x.deferral.limit, waited
	case x != nil && x.meter.refuses == offset+1:
		return x.meter.why, above
	}
	return "", ""
}

// overNumber returns the limit of a number or a size that a reading passes, empty for none, and how. The caller holds
// the lock.
func (th *Throttle) overNumber(t *Tenant, f *Feed, r *telemetry.Reading) (limitName, string) {
	l, d := t.limits, th.cfg.Registry.Device(t.Name, r.Device)
	switch {
	case l.payload > 0 && f.Bytes > l.payload:
		return limitPayload, fmt.Sprintf("the record has %d bytes, more than %d", f.Bytes, l.payload)
	case l.labels > 0 && len(r.Labels) > l.labels:
		return limitLabels, fmt.Sprintf("the reading has %d labels, more than %d", len(r.Labels), l.labels)
	case d == nil && l.devices > 0 && t.Devices >= l.devices:
		return limitDevices, fmt.Sprintf("this partition has %d devices already", t.Devices)
	case d == nil && l.newDevices.bound() && !t.introduces(published(f), th.knownFrom()):
		return limitNewDevices, "too many devices reported for the first time"
	}
	if l.labelValues > 0 && len(r.Labels) > 0 {
		if detail := t.values.exceeded(l, r.Labels, f.Now); detail != "" {
			return limitValues, detail
		}
	}
	if l.counts() {
		n, more := th.countSeries(t, d.rated(), r)
		if more == 0 {
			return "", ""
		}
		if l.series > 0 && n+more > l.series {
			return limitSeries, fmt.Sprintf("the device has %d series in that day already, and more than %d are not allowed", n,
				l.series)
		}
		if all := t.series[telemetry.DayOf(r.Time)]; l.allSeries > 0 && all+more > l.allSeries {
			detail := fmt.Sprintf("the tenant has %d series in that day already in this partition, and more than %d are not "+
				"allowed", all, l.allSeries)
			if t.most != nil {
				detail += fmt.Sprintf(", %d of them of device %s", t.mostSeries, t.mostID)
			}
			return limitAllSeries, detail
		}
	}
	return "", ""
}

// introduces reports whether one more device may report for the first time.
func (t *Tenant) introduces(at, known int64) bool {
	if at < known {
		return true
	}
	t.newDevices.see(at)
	return t.newDevices.open(&t.limits.newDevices, t.newDevices.clock)
}

// Charge counts a reading that is taken; the Registry knows its device. The caller holds the lock.
func (th *Throttle) Charge(f *Feed, r *telemetry.Reading) {
	t := th.known(r.Tenant)
	if t == nil || t.limits == nil {
		return
	}
	l, at := t.limits, published(f)
	t.meter.charge(&l.tenant, at, len(r.Fields))
	if f.First && l.newDevices.bound() && at >= th.knownFrom() {
		t.newDevices.charge(&l.newDevices, at, 0)
	}
	if l.labelValues > 0 && len(r.Labels) > 0 {
		th.countLabels(t, r.Labels)
	}
	if !l.device.bound() && !l.counts() {
		return
	}
	d := th.cfg.Registry.Device(t.Name, r.Device)
	x := th.ratedOf(d)
	x.meter.charge(&l.device, at, len(r.Fields))
	if l.counts() {
		th.addSeries(t, d, r)
	}
}

// ChargeRefused counts a reading that is refused for another reason than a limit: it makes work, too. The caller holds
// the lock.
func (th *Throttle) ChargeRefused(f *Feed, r *telemetry.Reading) {
	if t := th.known(r.Tenant); t != nil && t.limits != nil {
		t.meter.charge(&t.limits.tenant, published(f), len(r.Fields))
	}
}

// knownFrom returns from when on a device that nothing is known of counts as new, in ns: which ones were there before
// is not known in the hour after the partition came here.
func (th *Throttle) knownFrom() int64 {
	return th.cfg.Log.Assigned*int64(time.Millisecond) + int64(time.Hour)
}
