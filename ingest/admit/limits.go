package admit

import (
	"strings"
	"sync"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Limits holds the tenants of one partition to their limits: readings above a rate are deferred or refused, and so are
// those of a tenant that delays others; readings beyond a number or a size are refused. It holds back the floor for
// what is deferred (rule W7).
type Limits struct {
	cfg      *Config
	anyLimit bool // cfg.Limits has one

	// mu guards below. The owner alone changes it.
	mu         sync.Mutex
	partitions int
	tenants    map[string]*tenant
	recent     *tenant // of the last reading
	bytes      int64   // memory of what is known of devices and labels

	deferrals   deferrals
	fair        fairness
	registering registering
	labels      labelLookups
}

func newLimits(cfg *Config) *Limits {
	return &Limits{cfg: cfg, anyLimit: cfg.Limits.Any(), partitions: max(1, cfg.Partitions), tenants: map[string]*tenant{}}
}

// tenant is what Limits knows of a tenant.
type tenant struct {
	name string
	// kept says that the tenant has devices; else it goes with its deferrals.
	kept    bool
	devices map[string]*device // for which something is known
	last    *device            // that was looked for last

	snapshot   *control.Snapshot // by which its limits are
	configured control.IngestLimits
	limits     *limits // nil: none
	meter      meter

	deferral        *deferral // nil: it does not wait as a whole
	deferredDevices int       // devices that wait by themselves
	excesses        map[limitName]*excess

	came, round int // values, and in which round of fairness
	fresh       newDevices
	series      tenantSeries
	values      *labelValues // nil: they are not counted
}

// device is what is known of a device for the limits of its tenant.
type device struct {
	id       string
	deferral *deferral // nil: it is not deferred by itself
	meter    meter
	series   deviceSeries
	bytes    int64
}

// deviceBytes is what a device takes in memory, beside its name and its series.
const deviceBytes = 256

// tenant returns a tenant's state, nil if it is not there.
func (l *Limits) tenant(name string) *tenant {
	if t := l.recent; t != nil && t.name == name {
		return t
	}
	t := l.tenants[name]
	if t != nil {
		l.recent = t
	}
	return t
}

// addTenant returns a tenant's state, made when it is not there.
func (l *Limits) addTenant(name string) *tenant {
	t := l.tenant(name)
	if t == nil {
		t = &tenant{name: strings.Clone(name)}
		l.tenants[t.name], l.recent = t, t
	}
	return t
}

// keep keeps a tenant of which a reading is taken.
func (l *Limits) keep(name string) *tenant {
	t := l.recent
	if t == nil || t.name != name {
		t = l.addTenant(name)
	}
	t.kept = true
	return t
}

// device returns what is known of a device for its limits, nil for nothing.
func (t *tenant) device(id string) *device {
	if d := t.last; d != nil && d.id == id {
		return d
	}
	d := t.devices[id]
	if d != nil {
		t.last = d
	}
	return d
}

// addDevice returns what is known of a device, made when it is not there.
func (l *Limits) addDevice(t *tenant, id string) *device {
	d := t.device(id)
	if d == nil {
		if t.devices == nil {
			t.devices = map[string]*device{}
		}
		d = &device{id: strings.Clone(id)}
		t.devices[d.id], t.last = d, d
		l.grow(d, deviceBytes+len(id))
	}
	return d
}

// grow counts some more memory, or less, of a device.
func (l *Limits) grow(d *device, bytes int) {
	d.bytes += int64(bytes)
	l.bytes += int64(bytes)
}

// Forget drops a device that has no readings and nothing to be stored, and with all its tenant, which has no other one.
// What is deferred stays.
func (l *Limits) Forget(tenant, device string, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenant(tenant)
	if t == nil {
		return
	}
	l.forgetDevice(t, t.device(device))
	if all {
		t.kept = false
		l.forgetTenant(t)
	}
}

// forgetDevice drops what is known of a device, unless it is deferred by itself.
func (l *Limits) forgetDevice(t *tenant, d *device) {
	if d == nil || d.deferral != nil {
		return
	}
	for i := range d.series.days {
		t.series.remove(d, &d.series.days[i])
	}
	l.bytes -= d.bytes
	delete(t.devices, d.id)
	t.last = nil
}

// forgetTenant drops a tenant that has no devices and no deferred readings.
func (l *Limits) forgetTenant(t *tenant) {
	if t.kept || t.deferral != nil || t.deferredDevices > 0 {
		return
	}
	for _, d := range t.devices {
		l.forgetDevice(t, d)
	}
	l.dropLabels(t)
	delete(l.tenants, t.name)
	l.recent = nil
}

// Bytes returns the memory of what is known of devices and labels, and of what is deferred.
func (l *Limits) Bytes() int64 {
	return l.bytes + int64(len(l.deferrals.all)*deferralBytes+len(l.registering.waiting)*unregisteredBytes)
}

// Resume goes on in one of so many partitions, which share limits, and drops what is deferred below a position: another
// process has taken it.
func (l *Limits) Resume(partitions int, position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if partitions = max(1, partitions); partitions != l.partitions {
		l.partitions = partitions
		for _, t := range l.tenants {
			t.limits = limitsOf(t.configured, partitions)
		}
	}
	l.deferrals.endPass()
	for _, x := range l.deferrals.all {
		x.from = max(x.from, position)
	}
}

// refresh brings a tenant's limits in line with the snapshot.
func (l *Limits) refresh(t *tenant, snapshot *control.Snapshot) {
	if t.snapshot == snapshot {
		return
	}
	t.snapshot = snapshot
	said := l.cfg.Limits
	if known, ok := snapshot.Tenant(t.name); ok && known.Ingest != nil {
		said = known.Ingest.IngestLimits.Or(said)
	}
	if said == t.configured {
		return
	}
	t.configured, t.limits = said, limitsOf(said, l.partitions)
	for _, x := range l.deferrals.all {
		if x.tenant == t {
			x.until = 0
		}
	}
}

// published returns when a record was, in ns: by Kafka's timestamp, which a producer may set ahead, but not here.
func published(f *feed) int64 {
	if f.Time < 0 || f.Time > f.Now.UnixMilli() {
		return f.Now.UnixNano()
	}
	return f.Time * int64(time.Millisecond)
}

// charge counts a reading that is taken.
func (l *Limits) charge(f *feed, r *telemetry.Reading) {
	t := l.keep(r.Tenant)
	if t.limits == nil {
		return
	}
	at := published(f)
	t.meter.charge(&t.limits.tenant, at, len(r.Fields))
	l.introduce(t, f, r)
	if t.limits.labelValues > 0 && len(r.Labels) > 0 {
		l.countLabels(t, r.Labels)
	}
	if !t.limits.device.bound() && !t.limits.counts() {
		return
	}
	d := l.addDevice(t, r.Device)
	d.meter.charge(&t.limits.device, at, len(r.Fields))
	if t.limits.counts() {
		l.addSeries(t, d, r)
	}
}

// chargeRefused counts a reading that is refused for another reason than a limit: it makes work, too.
func (l *Limits) chargeRefused(f *feed, r *telemetry.Reading) {
	if t := l.tenant(r.Tenant); t != nil && t.limits != nil {
		t.meter.charge(&t.limits.tenant, published(f), len(r.Fields))
	}
}
