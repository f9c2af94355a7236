package worker

import (
	"fmt"
	"sync"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// throttle holds tenants to their limits: readings above a rate are deferred or refused, and so are those of a tenant
// that delays others; readings beyond a number or a size are refused. What is known of each tenant and device for it
// stands in those. It holds back the floor for what is deferred (rule W7).
type throttle struct {
	cfg      *Config
	mu       *sync.Mutex // the Worker's
	registry *registry
	log      *logState
	observer Observer
	spreads  *spreads
	forget   func(*device) // drops a device that is not needed any more

	partitions int // of the topic: they share limits
	deferrals  deferrals
	fair       fairness

	labelQueue  fifo[*tenant] // of whose labels the catalog is to be asked
	labelLookup bool          // it is being asked
	labelRetry  backoff
}

// refreshLimits brings a tenant's limits in line with the map. The caller holds the lock.
func (th *throttle) refreshLimits(t *tenant, snapshot *control.Snapshot) {
	t.snapshot = snapshot
	said := th.cfg.Limits
	if known, ok := snapshot.Tenant(t.name); ok && known.Ingest != nil {
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

// published is when a record was, in ns: by Kafka's timestamp, which a producer may set ahead, but not here.
func published(rec *Record, now time.Time) int64 {
	if rec.Time < 0 || rec.Time > now.UnixMilli() {
		return now.UnixNano()
	}
	return rec.Time * int64(time.Millisecond)
}

// limited reports whether anybody has limits, or waits for one.
func (th *throttle) limited(snapshot *control.Snapshot) bool {
	return len(th.deferrals.all) > 0 || th.cfg.Limits.Any() || snapshot.LimitsIngest()
}

// judge decides for each tenant and each device of a record whether they are over a rate, before anything of the
// record is taken: what becomes of one of its readings becomes of all that a device has in it, since a cut falls
// between records (rule W2). The caller holds the lock.
func (th *throttle) judge(rec *Record, readings []telemetry.Reading, snapshot *control.Snapshot, now time.Time) {
	at := published(rec, now)
	for i := range readings {
		r := &readings[i]
		t := th.registry.known(r.Tenant)
		if t == nil {
			if _, ok := snapshot.Tenant(r.Tenant); !ok {
				continue
			}
			t = th.registry.tenant(r.Tenant)
		}
		if t.snapshot != snapshot {
			th.refreshLimits(t, snapshot)
		}
		l := t.limits
		if l == nil {
			continue
		}
		d := t.find(r.Device)
		if waits, _ := t.deferredAt(d, rec.Offset); waits {
			continue
		}
		t.meter.see(at)
		if !t.meter.open(&l.tenant, t.meter.clock) {
			th.exceed(t, nil, &t.meter, &l.tenant, rec, r)
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
			th.exceed(t, d, &x.meter, &l.device, rec, r)
		}
	}
}

// exceed has what is over a rate wait from a record on, or be refused.
func (th *throttle) exceed(t *tenant, d *device, m *meter, of *rates, rec *Record, r *telemetry.Reading) {
	name := ""
	if d != nil {
		name = ofDevice
	}
	if t.limits.refuse {
		m.refuses, m.why = rec.Offset+1, m.exceeded(of, name)
		return
	}
	th.deferFrom(t, d, deferral{limit: m.exceeded(of, name), from: rec.Offset, published: rec.Time, until: m.until(of)}, false)
}

// judgeRecalled decides who may go on with a record that was read again: by the clock, since what was published long
// ago has waited for what has been paid for meanwhile. The caller holds the lock.
func (th *throttle) judgeRecalled(rec *Record, readings []telemetry.Reading, snapshot *control.Snapshot, now time.Time) {
	at := now.UnixNano()
	for i := range readings {
		r := &readings[i]
		t := th.registry.known(r.Tenant)
		if t.snapshot != snapshot {
			th.refreshLimits(t, snapshot)
		}
		l, d := t.limits, t.find(r.Device)
		if _, blocked := t.deferredAt(d, rec.Offset); l == nil || blocked || rec.Offset < th.deferrals.urgentBelow {
			continue
		}
		if !t.meter.open(&l.tenant, at) {
			x := t.deferral
			if x == nil || rec.Offset < x.from {
				x = d.deferral()
			}
			if x.limit == limitShare {
				x.limit = t.meter.exceeded(&l.tenant, ofTenant)
			}
			th.deny(x, &t.meter, &l.tenant, rec, r, now)
			continue
		}
		of := d.rated()
		if of == nil || of.meter.open(&l.device, at) {
			continue
		}
		if of.deferral == nil {
			limit := of.meter.exceeded(&l.device, ofDevice)
			th.deferFrom(t, d, deferral{limit: limit, from: rec.Offset, published: rec.Time}, true)
		}
		x := of.deferral
		if x == nil {
			x = t.deferral
		}
		if x.limit == limitShare {
			x.limit = of.meter.exceeded(&l.device, ofDevice)
		}
		th.deny(x, &of.meter, &l.device, rec, r, now)
	}
}

// deny has a wait go on at a record, or refuses what has waited for too long. While rows of the chain are about to be
// cut nothing of it is refused, or the cut could wait for ever for the dead letters of what comes behind it.
func (th *throttle) deny(x *deferral, m *meter, of *rates, rec *Record, r *telemetry.Reading, now time.Time) {
	if tooLong := rec.Time >= 0 && now.Sub(time.UnixMilli(rec.Time)) > th.cfg.HeldFor; tooLong {
		var c *chain
		if d := x.tenant.find(r.Device); d != nil {
			c = d.chain(telemetry.DayOf(r.Time))
		}
		if c == nil || !c.acting() || c.flight != nil {
			x.refuses = rec.Offset + 1
			return
		}
		th.deferrals.block(x, rec, 0)
		return
	}
	th.deferrals.block(x, rec, m.until(of))
}

// takeAll takes the readings of a record, those that were recalled or all, and returns how many were. Of what was
// recalled, those that wait on are left out.
func (w *Worker) takeAll(rec *Record, readings []telemetry.Reading, index []int, snapshot *control.Snapshot, now time.Time,
	recalled bool) (taken int) {
	oversize := w.verdicts.oversize(rec, readings)
	w.mu.Lock()
	defer w.mu.Unlock()
	limited := w.throttle.limited(snapshot)
	switch {
	case recalled:
		w.throttle.judgeRecalled(rec, readings, snapshot, now)
	case limited:
		w.throttle.judge(rec, readings, snapshot, now)
	}
	for i := range readings {
		r := &readings[i]
		if limited && w.throttle.deferred(rec, r, now, recalled) {
			continue
		}
		bad := w.verdicts.verdict(rec, r, snapshot, oversize, now)
		if bad == nil && limited {
			bad = w.throttle.overLimit(rec, r, now)
		}
		if bad == nil {
			w.take(rec, r, limited, now)
			taken++
			continue
		}
		if bad.Index = index[i]; recalled {
			w.publisher.refuseDeferred(rec, r, *bad)
		} else {
			w.publisher.refuse(rec, *bad)
		}
	}
	return taken
}

// deferred reports whether a reading waits, and sets it aside if it was not before.
func (th *throttle) deferred(rec *Record, r *telemetry.Reading, now time.Time, recalled bool) bool {
	t := th.registry.known(r.Tenant)
	if t == nil {
		return false
	}
	d := t.find(r.Device)
	waits, blocked := t.deferredAt(d, rec.Offset)
	if recalled || !waits {
		return blocked
	}
	x := t.deferral
	if x == nil || rec.Offset < x.from {
		x = d.deferral()
	}
	x.count++
	t.countExcess(x.limit, r.Device, true, now)
	th.observer.Deferred()
	return true
}

// overLimit says why a reading is refused for a limit of its tenant, nil if it is not. The caller holds the lock.
func (th *throttle) overLimit(rec *Record, r *telemetry.Reading, now time.Time) *decode.Bad {
	t := th.registry.known(r.Tenant)
	if t == nil || t.limits == nil {
		return nil
	}
	d := t.find(r.Device)
	limit, detail := t.refusedRate(d, rec.Offset)
	if limit == "" && t.limits.numbers {
		limit, detail = th.overNumber(t, d, rec, r, now)
	}
	if limit == "" {
		return nil
	}
	t.countExcess(limit, r.Device, false, now)
	if limit == limitValues {
		th.queueLabelLookup(t)
	}
	return &decode.Bad{Reason: decode.Limit,
		Detail: fmt.Sprintf("%s: the limit %s of the tenant is passed by device %s", detail, limit, r.Device)}
}

// refusedRate is the rate for which a record's readings of a device are refused, empty for none, and how it was passed. d
// may be nil.
func (t *tenant) refusedRate(d *device, offset int64) (limitName, string) {
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

// overNumber is the limit of a number or a size that a reading passes, empty for none, and how. d may be nil. The caller
// holds the lock.
func (th *throttle) overNumber(t *tenant, d *device, rec *Record, r *telemetry.Reading, now time.Time) (limitName, string) {
	l := t.limits
	switch {
	case l.payload > 0 && len(rec.Value) > l.payload:
		return limitPayload, fmt.Sprintf("the record has %d bytes, more than %d", len(rec.Value), l.payload)
	case l.labels > 0 && len(r.Labels) > l.labels:
		return limitLabels, fmt.Sprintf("the reading has %d labels, more than %d", len(r.Labels), l.labels)
	case d == nil && l.devices > 0 && len(t.byID) >= l.devices:
		return limitDevices, fmt.Sprintf("this partition has %d devices already", len(t.byID))
	case d == nil && l.newDevices.bound() && !t.introduces(published(rec, now), th.knownFrom()):
		return limitNewDevices, "too many devices reported for the first time"
	}
	if l.labelValues > 0 && len(r.Labels) > 0 {
		if detail := t.values.exceeded(l, r.Labels, now); detail != "" {
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
				detail += fmt.Sprintf(", %d of them of device %s", t.mostSeries, t.most.id)
			}
			return limitAllSeries, detail
		}
	}
	return "", ""
}

// introduces reports whether one more device may report for the first time.
func (t *tenant) introduces(at, known int64) bool {
	if at < known {
		return true
	}
	t.newDevices.see(at)
	return t.newDevices.open(&t.limits.newDevices, t.newDevices.clock)
}

// charge takes note of a reading that is taken of a tenant with limits; first says that nothing else is known of the
// device. The caller holds the lock.
func (th *throttle) charge(rec *Record, r *telemetry.Reading, d *device, first bool, now time.Time) {
	t, at := d.tenant, published(rec, now)
	l := t.limits
	t.meter.charge(&l.tenant, at, len(r.Fields))
	if first && l.newDevices.bound() && at >= th.knownFrom() {
		t.newDevices.charge(&l.newDevices, at, 0)
	}
	if l.labelValues > 0 && len(r.Labels) > 0 {
		th.countLabels(t, r.Labels)
	}
	if !l.device.bound() && !l.counts() {
		return
	}
	x := th.ratedOf(d)
	x.meter.charge(&l.device, at, len(r.Fields))
	if l.counts() {
		th.addSeries(x, d, r)
	}
}

// knownFrom is from when on a device that nothing is known of counts as new, in ns: which ones were there before is not
// known in the hour after the partition came here.
func (th *throttle) knownFrom() int64 {
	return th.log.assigned*int64(time.Millisecond) + int64(time.Hour)
}
