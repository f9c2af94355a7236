package worker

import (
	"slices"
	"sync"
	"time"

	"binnacle/ingest/admit"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/telemetry"
)

// tenant is the devices of one tenant. It changes under the Worker's lock.
type tenant struct {
	catalogupdates.Tenant
	byID    map[string]*device
	devices []*device // in the order in which they came, with nil for those that are gone: a head walks it in pieces
	gone    int

	last *device // that was looked for last
}

// registry has the tenants and devices of a Worker. Fields change under the Worker's lock.
type registry struct {
	mu       *sync.Mutex // the Worker's
	tenants  map[string]*tenant
	recent   *tenant // of the last reading
	bytes    int64   // memory of what is known of devices
	versions uint64  // where those of the next tenant begin
	visited  int     // devices that heads have visited
}

func newRegistry(mu *sync.Mutex) registry { return registry{mu: mu, tenants: map[string]*tenant{}} }

// Seen implements admit.Devices, for the goroutine that owns the registry.
func (g *registry) Seen(tenant, device string, day telemetry.Day) (seen admit.Seen) {
	t := g.known(tenant)
	if t == nil {
		return seen
	}
	seen.Devices = len(t.byID)
	if d := t.find(device); d != nil {
		seen.Known, seen.Chains = true, len(d.chains) > 0
		c := d.chain(day)
		seen.Chain, seen.Cutting = c != nil, c != nil && c.acting() && c.flight == nil
	}
	return seen
}

// known returns a tenant's state, nil if it is not there. The caller holds the lock.
func (g *registry) known(name string) *tenant {
	if t := g.recent; t != nil && t.Name == name {
		return t
	}
	return g.tenants[name]
}

// tenant returns a tenant's state, made when it is not there. The caller holds the lock.
func (g *registry) tenant(name string) *tenant {
	t := g.recent
	if t == nil || t.Name != name {
		if t = g.tenants[name]; t == nil {
			t = &tenant{Tenant: catalogupdates.Tenant{Name: name, Version: g.versions}, byID: map[string]*device{}}
			g.tenants[name] = t
		}
		g.recent = t
	}
	return t
}

// find returns a device's state, nil if it is not there. The caller holds the lock.
func (t *tenant) find(id string) *device {
	if t.last == nil || t.last.ID != id {
		t.last = t.byID[id]
	}
	return t.last
}

// device returns a device's state, made when it is not there. The caller holds the lock.
func (g *registry) device(tenantName, id string) *device {
	t := g.tenant(tenantName)
	d := t.find(id)
	if d == nil {
		d = &device{Device: catalogupdates.NewDevice(&t.Tenant, id), tenant: t, slot: int32(len(t.devices)),
			carriedAt: noOffset}
		t.byID[id] = d
		t.devices = append(t.devices, d)
		g.countDevice(d)
	}
	return d
}

// countDevice brings what is counted of a device up to date.
func (g *registry) countDevice(d *device) {
	n := d.bytes()
	g.bytes += int64(n) - int64(d.counted)
	d.counted = int32(n)
}

// observe records for the catalog what a reading shows of its device. The caller holds the lock.
func (g *registry) observe(u *catalogupdates.Updates, d *device, x catalogupdates.Shown) {
	if u.Observe(&d.Device, x) {
		g.countDevice(d)
	}
}

// forgetDevice drops a device. The caller holds the lock.
func (w *Worker) forgetDevice(d *device) {
	t := d.tenant
	w.journal.times.drop(d)
	w.updates.Forget(&d.Device)
	w.registry.bytes -= int64(d.counted)
	delete(t.byID, d.ID)
	t.last = nil
	t.devices[d.slot] = nil
	t.gone++
	all := len(t.byID) == 0 && !t.HasUnits()
	w.admission.Limits.Forget(t.Name, d.ID, all)
	if all {
		w.registry.versions = max(w.registry.versions, t.Version+1)
		delete(w.registry.tenants, t.Name)
		w.registry.recent = nil
		return
	}
	if t.gone > len(t.devices)/2 {
		rest := make([]*device, 0, 2*len(t.byID)) // a new list: a head may be walking the old one
		for _, d := range t.devices {
			if d != nil {
				d.slot = int32(len(rest))
				rest = append(rest, d)
			}
		}
		t.devices, t.gone = rest, 0
	}
}

// open makes the state of a chain. The caller holds the lock.
func (w *Worker) open(d *device, day telemetry.Day, now time.Time) *chain {
	c := newChain(d, day)
	c.used = now.UnixMilli()
	if day > w.forgotten && day.Start() >= w.log.Assigned {
		c.generation = w.generation // it has no chunk that is not from here, or the create finds out (rule W3)
	}
	d.chains, d.InUse = append(d.chains, c), true
	w.file(c)
	return c
}

// forget drops what is known of an idle chain: if it comes back its tail must be looked up (rule W3). The caller holds
// the lock.
func (w *Worker) forget(c *chain) {
	w.forgotten = max(w.forgotten, c.day)
	w.stored.forgotten(c)
	w.index.drop(c)
	d := c.device
	d.chains = slices.DeleteFunc(d.chains, func(x *chain) bool { return x == c })
	d.InUse = len(d.chains) > 0
	w.forgetUnused(d)
}

// forgetUnused drops a device without chains, once the catalog has what was seen of it. The caller holds the lock.
func (w *Worker) forgetUnused(d *device) {
	switch {
	case len(d.chains) > 0 || d.owed != nil || d.Busy():
	case d.Lacks():
		w.updates.Queue(&d.Device)
	default:
		w.forgetDevice(d)
	}
}

// noDay lies before all days.
const noDay telemetry.Day = -1
