package worker

import (
	"fmt"
	"sync"
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/retry"

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
	spreads  *retry.Spreads
	forget   func(*device) // drops a device that is not needed any more

	partitions int // of the topic: they share limits
	deferrals  deferrals
	fair       fairness

	labelQueue  queue.FIFO[*tenant] // with labels that are to be looked up
	labelLookup bool                // one is in flight
	labelRetry  retry.Backoff
}

// refreshLimits brings a tenant's limits in line with the snapshot. The caller holds the lock.
func (th *throttle) refreshLimits(t *tenant, snapshot *control.Snapshot) {
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
func published(rec *Record, now time.Time) int64 {
	if rec.Time < 0 || rec.Time > now.UnixMilli() {
		return now.UnixNano()
	}
	return rec.Time * int64(time.Millisecond)
}

// limited reports whether anything has a limit, or is deferred.
func (th *throttle) limited(snapshot *control.Snapshot) bool {
	return len(th.deferrals.all) > 0 || th.cfg.Limits.Any() || snapshot.LimitsIngest()
}

// judge decides for each tenant and each device of a record whether they are over a rate, before anything of the
// record is taken: what becomes of one of its readings becomes of all that a device has in it, since a cut falls
// between records (rule W2). The caller holds the lock.
func (th *throttle) judge(f *feed) {
	at := published(f.Record, f.now)
	for i := range f.readings {
		r := &f.readings[i]
		t := th.registry.known(r.Tenant)
		if t == nil {
			if _, ok := f.snapshot.Tenant(r.Tenant); !ok {
				continue
			}
			t = th.registry.tenant(r.Tenant)
		}
		if t.snapshot != f.snapshot {
			th.refreshLimits(t, f.snapshot)
		}
		l := t.limits
		if l == nil {
			continue
		}
		d := t.find(r.Device)
		if waits, _ := t.deferredAt(d, f.Offset); waits {
			continue
		}
		t.meter.see(at)
		if !t.meter.open(&l.tenant, t.meter.clock) {
			th.exceed(t, nil, f)
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
			th.exceed(t, d, f)
		}
	}
}

// exceed defers what is over a rate, of a device or of all of the tenant, from a record on, or refuses it.
func (th *throttle) exceed(t *tenant, d *device, f *feed) {
	m, of, name := &t.meter, &t.limits.tenant, ofTenant
	if d != nil {
		m, of, name = &d.limited.meter, &t.limits.device, ofDevice
	}
	if t.limits.refuse {
		m.refuses, m.why = f.Offset+1, m.exceeded(of, name)
		return
	}
	th.deferFrom(deferral{tenant: t, device: d, limit: m.exceeded(of, name), from: f.Offset, published: f.Time,
		until: m.until(of)}, false)
}

// judgeDeferred decides which readings of a record that was read again may be taken: by the clock, since they have
// waited for what was paid for meanwhile. The caller holds the lock.
func (th *throttle) judgeDeferred(f *feed) {
	at := f.now.UnixNano()
	for i := range f.readings {
		r := &f.readings[i]
		t := th.registry.known(r.Tenant)
		if t.snapshot != f.snapshot {
			th.refreshLimits(t, f.snapshot)
		}
		l, d := t.limits, t.find(r.Device)
		if _, blocked := t.deferredAt(d, f.Offset); l == nil || blocked || f.Offset < th.deferrals.urgentBelow {
			continue
		}
		if !t.meter.open(&l.tenant, at) {
			x := t.deferral
			if x == nil || f.Offset < x.from {
				x = d.deferral()
			}
			if x.limit == limitShare {
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
			th.deferFrom(deferral{tenant: t, device: d, limit: limit, from: f.Offset, published: f.Time}, true)
		}
		x := of.deferral
		if x == nil {
			x = t.deferral
		}
		if x.limit == limitShare {
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
func (th *throttle) deny(f *feed, r *telemetry.Reading, x denied) {
	if tooLong := f.Time >= 0 && f.now.Sub(time.UnixMilli(f.Time)) > th.cfg.HeldFor; tooLong {
		var c *chain
		if d := x.tenant.find(r.Device); d != nil {
			c = d.chain(telemetry.DayOf(r.Time))
		}
		if c == nil || !c.acting() || c.flight != nil {
			x.refuses = f.Offset + 1
			return
		}
		th.deferrals.block(x.deferral, f.Record, 0)
		return
	}
	th.deferrals.block(x.deferral, f.Record, x.until)
}

// takeAll takes the readings of a record, or of one that was read again those that are deferred and may go on, and
// returns how many it took.
func (w *Worker) takeAll(f *feed) (taken int) {
	f.oversize = w.verdicts.oversize(f.Record, f.readings)
	w.mu.Lock()
	defer w.mu.Unlock()
	f.limited = w.throttle.limited(f.snapshot)
	switch {
	case f.again:
		w.throttle.judgeDeferred(f)
	case f.limited:
		w.throttle.judge(f)
	}
	for i := range f.readings {
		r := &f.readings[i]
		if f.limited && w.throttle.deferred(f, r) {
			continue
		}
		bad := w.verdicts.verdict(f, r)
		if bad == nil && f.limited {
			bad = w.throttle.overLimit(f, r)
		}
		if bad == nil {
			w.take(f, r)
			taken++
			continue
		}
		if bad.Index = f.index[i]; f.again {
			w.publisher.refuseDeferred(f.Record, r, *bad)
		} else {
			w.publisher.refuse(f.Record, *bad)
		}
	}
	return taken
}

// deferred reports whether a reading can't be taken, and counts it if it was not deferred before.
func (th *throttle) deferred(f *feed, r *telemetry.Reading) bool {
	t := th.registry.known(r.Tenant)
	if t == nil {
		return false
	}
	d := t.find(r.Device)
	waits, blocked := t.deferredAt(d, f.Offset)
	if f.again || !waits {
		return blocked
	}
	x := t.deferral
	if x == nil || f.Offset < x.from {
		x = d.deferral()
	}
	x.count++
	t.countExcess(x.limit, r.Device, f.now).delayed++
	th.observer.Deferred()
	return true
}

// overLimit says why a reading is refused for a limit of its tenant, nil if it is not. The caller holds the lock.
func (th *throttle) overLimit(f *feed, r *telemetry.Reading) *decode.Bad {
	t := th.registry.known(r.Tenant)
	if t == nil || t.limits == nil {
		return nil
	}
	limit, detail := t.refusedRate(t.find(r.Device), f.Offset)
	if limit == "" && t.limits.numbers {
		limit, detail = th.overNumber(t, f, r)
	}
	if limit == "" {
		return nil
	}
	t.countExcess(limit, r.Device, f.now).refused++
	if limit == limitValues {
		th.queueLabelLookup(t)
	}
	return &decode.Bad{Reason: decode.Limit,
		Detail: fmt.Sprintf("%s: the limit %s of the tenant is passed by device %s", detail, limit, r.Device)}
}

// refusedRate returns the rate for which a record's readings of a device are refused, empty for none, and how it was
// passed. d may be nil.
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

// overNumber returns the limit of a number or a size that a reading passes, empty for none, and how. The caller holds
// the lock.
func (th *throttle) overNumber(t *tenant, f *feed, r *telemetry.Reading) (limitName, string) {
	l, d := t.limits, t.find(r.Device)
	switch {
	case l.payload > 0 && len(f.Value) > l.payload:
		return limitPayload, fmt.Sprintf("the record has %d bytes, more than %d", len(f.Value), l.payload)
	case l.labels > 0 && len(r.Labels) > l.labels:
		return limitLabels, fmt.Sprintf("the reading has %d labels, more than %d", len(r.Labels), l.labels)
	case d == nil && l.devices > 0 && len(t.byID) >= l.devices:
		return limitDevices, fmt.Sprintf("this partition has %d devices already", len(t.byID))
	case d == nil && l.newDevices.bound() && !t.introduces(published(f.Record, f.now), th.knownFrom()):
		return limitNewDevices, "too many devices reported for the first time"
	}
	if l.labelValues > 0 && len(r.Labels) > 0 {
		if detail := t.values.exceeded(l, r.Labels, f.now); detail != "" {
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
				detail += fmt.Sprintf(", %d of them of device %s", t.mostSeries, t.most.ID)
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

// charge counts a reading of a tenant with limits that is taken. The caller holds the lock.
func (th *throttle) charge(f *feed, d *device, r *telemetry.Reading) {
	t, at := d.tenant, published(f.Record, f.now)
	l := t.limits
	t.meter.charge(&l.tenant, at, len(r.Fields))
	if f.first && l.newDevices.bound() && at >= th.knownFrom() {
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

// knownFrom returns from when on a device that nothing is known of counts as new, in ns: which ones were there before
// is not known in the hour after the partition came here.
func (th *throttle) knownFrom() int64 {
	return th.log.assigned*int64(time.Millisecond) + int64(time.Hour)
}
