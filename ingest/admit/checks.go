package admit

import (
	"fmt"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/telemetry"
)

// checkRates decides which readings of a record are over a rate, before anything of it is taken: what becomes of one of
// its readings becomes of all that a device has in it, since a cut falls between records (rule W2).
func (l *Limits) checkRates(f *feed) {
	if f.limited = len(l.deferrals.all) > 0 || l.anyLimit || f.Snapshot.LimitsIngest(); !f.limited {
		return
	}
	for i := range f.readings {
		if f.again {
			l.checkDeferred(f, &f.readings[i])
		} else {
			l.checkRate(f, &f.readings[i])
		}
	}
}

// checkRate defers or refuses the record's readings of a tenant, or of a device, from this one on if it is over a rate.
func (l *Limits) checkRate(f *feed, r *telemetry.Reading) {
	t := l.tenants.get(r.Tenant)
	if t == nil {
		if _, ok := f.Snapshot.Tenant(r.Tenant); !ok {
			return
		}
		t = l.tenants.keep(r.Tenant)
	}
	l.refresh(t, f.Snapshot)
	if t.limits == nil {
		return
	}
	d, at := t.device(r.Device), published(f)
	if waits, _ := t.deferredAt(d, f.Offset); waits {
		return
	}
	if t.meter.see(at); !t.meter.open(&t.limits.tenant, t.meter.clock) {
		l.exceed(f, deferral{tenant: t})
		return
	}
	if d == nil || !t.limits.device.bound() {
		return
	}
	if d.meter.see(at); !d.meter.open(&t.limits.device, d.meter.clock) {
		l.exceed(f, deferral{tenant: t, device: d})
	}
}

// exceed defers what is over a rate, of a device or of all of the tenant, from a record on, or refuses it.
func (l *Limits) exceed(f *feed, x deferral) {
	m, bound, name := &x.tenant.meter, &x.tenant.limits.tenant, ofTenant
	if x.device != nil {
		m, bound, name = &x.device.meter, &x.tenant.limits.device, ofDevice
	}
	if x.limit = m.exceeded(bound, name); x.tenant.limits.refuse {
		m.refuses, m.why = f.Offset+1, x.limit
		return
	}
	x.from, x.published, x.until = f.Offset, f.Time, m.until(bound)
	l.deferFrom(x, false)
}

// checkDeferred decides by the clock whether a reading of a record that was read again may be taken: while the
// reading waited, time has paid for earlier ones.
func (l *Limits) checkDeferred(f *feed, r *telemetry.Reading) {
	t, at := l.tenants.get(r.Tenant), f.Now.UnixNano()
	l.refresh(t, f.Snapshot)
	d := t.device(r.Device)
	if _, blocked := t.deferredAt(d, f.Offset); t.limits == nil || blocked || f.Offset < l.deferrals.urgentBelow {
		return
	}
	if !t.meter.open(&t.limits.tenant, at) {
		x := t.deferral
		if x == nil || f.Offset < x.from {
			x = d.waits()
		}
		l.deny(f, r, denied{x, t.meter.exceeded(&t.limits.tenant, ofTenant), t.meter.until(&t.limits.tenant)})
		return
	}
	if d == nil || d.meter.open(&t.limits.device, at) {
		return
	}
	limit := d.meter.exceeded(&t.limits.device, ofDevice)
	if d.deferral == nil {
		l.deferFrom(deferral{tenant: t, device: d, limit: limit, from: f.Offset, published: f.Time}, true)
	}
	x := d.deferral
	if x == nil {
		x = t.deferral
	}
	l.deny(f, r, denied{x, limit, d.meter.until(&t.limits.device)})
}

// denied is a deferral that stays: for which limit, and until when the rate is overdrawn, in ns.
type denied struct {
	*deferral
	limit limitName
	until int64
}

// deny leaves a record deferred, or refuses what has been deferred for too long. While rows of the chain are about to
// be cut none of its readings is refused, or the cut could wait without end for dead letters that come behind it.
func (l *Limits) deny(f *feed, r *telemetry.Reading, x denied) {
	if x.deferral.limit == limitShare || x.deferral.limit == limitRegistration {
		x.deferral.limit = x.limit
	}
	if tooLong := f.Time >= 0 && f.Now.Sub(time.UnixMilli(f.Time)) > l.cfg.HeldFor; tooLong {
		if !l.cfg.Devices.Seen(r.Tenant, r.Device, telemetry.DayOf(r.Time)).Cutting {
			x.refuses = f.Offset + 1
			return
		}
		x.until = 0
	}
	l.deferrals.block(x.deferral, f, x.until)
}

// defers reports whether a reading can't be taken, and whether it was not deferred before.
func (l *Limits) defers(f *feed, r *telemetry.Reading) (waits, isNew bool) {
	t := l.tenants.get(r.Tenant)
	if t == nil {
		return false, false
	}
	d := t.device(r.Device)
	waits, blocked := t.deferredAt(d, f.Offset)
	if f.again || !waits {
		return blocked, false
	}
	x := t.deferral
	if x == nil || f.Offset < x.from {
		x = d.waits()
	}
	x.count++
	if x.through = max(x.through, f.Offset); x.limit != limitRegistration {
		t.countExcess(x.limit, r.Device, f.Now).delayed++
	}
	return true, true
}

// refuses returns why a reading is refused for a limit of its tenant, nil if it is not.
func (l *Limits) refuses(f *feed, r *telemetry.Reading) *decode.Bad {
	t := l.tenants.get(r.Tenant)
	if t == nil || t.limits == nil {
		return nil
	}
	limit, detail := t.refusedRate(t.device(r.Device), f.Offset)
	if limit == "" && t.limits.numbers {
		limit, detail = l.overNumber(t, f, r)
	}
	if limit == "" {
		return nil
	}
	t.countExcess(limit, r.Device, f.Now).refused++
	if limit == limitValues {
		l.labels.push(t)
	}
	return &decode.Bad{Reason: decode.Limit,
		Detail: fmt.Sprintf("%s: the limit %s of the tenant is passed by device %s", detail, limit, r.Device)}
}

// refusedRate returns the rate that refuses a record's readings of a device, or "", and how it was passed; d may be
// nil.
func (t *tenantState) refusedRate(d *device, offset int64) (limitName, string) {
	const waited, above = "it has waited for too long", "more came than a second brings"
	if x := t.deferral; x != nil && x.refuses == offset+1 {
		return x.limit, waited
	}
	if t.meter.refuses == offset+1 {
		return t.meter.why, above
	}
	switch {
	case d == nil:
	case d.deferral != nil && d.deferral.refuses == offset+1:
		return d.deferral.limit, waited
	case d.meter.refuses == offset+1:
		return d.meter.why, above
	}
	return "", ""
}
