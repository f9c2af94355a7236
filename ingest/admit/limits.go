package admit

import (
	"sync"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Limits holds the tenants of one partition to their limits: readings above a rate are deferred or refused, and so
// are readings of a tenant that delays others; readings beyond a number or a size are refused. It holds back the
// floor for deferred readings (rule W7).
type Limits struct {
	cfg      *Config
	anyLimit bool // cfg.Limits has one

	// mu guards below. The owner alone changes it.
	mu          sync.Mutex
	partitions  int
	tenants     tenants
	deferrals   deferrals
	fair        fairness
	registering registering
	labels      labelLookups
}

func newLimits(cfg *Config) *Limits {
	return &Limits{cfg: cfg, anyLimit: cfg.Limits.Any(), partitions: max(1, cfg.Partitions),
		tenants: tenants{all: map[string]*tenantState{}}}
}

// Forget drops a device that has no readings and nothing to be stored, and with all its tenant, which has no other one.
// What is deferred stays.
func (l *Limits) Forget(tenant, device string, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenants.get(tenant)
	if t == nil {
		return
	}
	l.tenants.forgetDevice(t, t.device(device))
	if all {
		t.kept = false
		l.forgetTenant(t)
	}
}

// forgetTenant drops a tenant that has no devices and no deferred readings.
func (l *Limits) forgetTenant(t *tenantState) {
	if t.kept || t.deferral != nil || t.deferredDevices > 0 {
		return
	}
	for _, d := range t.devices {
		l.tenants.forgetDevice(t, d)
	}
	l.tenants.dropLabels(t)
	delete(l.tenants.all, t.name)
	l.tenants.recent = nil
}

// Bytes returns the memory of devices, labels and deferrals.
func (l *Limits) Bytes() int64 {
	return l.tenants.bytes + int64(len(l.deferrals.all)*deferralBytes+len(l.registering.waiting)*unregisteredBytes)
}

// Resume sets how many partitions share limits, and drops deferrals below a position: another process took them.
func (l *Limits) Resume(partitions int, position int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if partitions = max(1, partitions); partitions != l.partitions {
		l.partitions = partitions
		for _, t := range l.tenants.all {
			t.limits = limitsOf(t.configured, partitions)
		}
	}
	l.deferrals.endPass()
	for _, x := range l.deferrals.all {
		x.from = max(x.from, position)
	}
}

func (l *Limits) refresh(t *tenantState, snapshot *control.Snapshot) {
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

func (l *Limits) charge(f *feed, r *telemetry.Reading) {
	t := l.tenants.keep(r.Tenant)
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
	d := l.tenants.addDevice(t, r.Device)
	d.meter.charge(&t.limits.device, at, len(r.Fields))
	if t.limits.counts() {
		l.addSeries(t, d, r)
	}
}
