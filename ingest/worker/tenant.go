package worker

import (
	"slices"
	"sync"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// tenant is the devices of one tenant. It changes under the Worker's lock.
type tenant struct {
	name    string
	byID    map[string]*device
	devices []*device // in the order in which they came, with nil for those that are gone: a head walks it in pieces
	gone    int

	snapshot        *control.Snapshot // by which its limits are
	configured      control.IngestLimits
	limits          *limits // nil: none
	meter           meter
	newDevices      meter     // of devices that report for the first time
	came, round     int       // values, and in which round of fairness
	deferral        *deferral // nil: it does not wait as a whole
	deferredDevices int       // devices that wait by themselves
	excesses        map[limitName]*excess
	sets            [recentSets]*metricSet // that readings had last, where series are counted
	next            int                    // that gives way to another one
	judged          outline                // of the reading that is being judged, if that has new series
	series          map[telemetry.Day]int  // of its devices together, as far as they are counted
	most            *device                // that has most of them in some day, as far as that is known
	mostSeries      int
	values          *labelValues // nil: they are not counted
	last            *device      // that was looked for last

	updates map[*device]bool  // with an update that is pending, or so recent that a reader may not see it
	version uint64            // how often unseen has changed, counted on from tenants that were here before
	units   map[string]string // of metrics, as their senders gave them last
}

// registry has the tenants and devices of a Worker. Fields change under the Worker's lock.
type registry struct {
	mu       *sync.Mutex // the Worker's
	tenants  map[string]*tenant
	recent   *tenant    // of the last reading
	columns  columnSets // of all devices
	bytes    int64      // memory of what is known of devices
	versions uint64     // where those of the next tenant begin
	visited  int        // devices that heads have visited
}

func newRegistry(mu *sync.Mutex) registry {
	return registry{mu: mu, tenants: map[string]*tenant{}, columns: columnSets{sets: map[uint64]*columns{}}}
}

// maxUnits bounds the metrics of a tenant with a unit that is known.
const maxUnits = 10_000

// updatePending records that the catalog lacks something of a device. The caller holds the lock, as those of the other
// two do.
func (t *tenant) updatePending(d *device) {
	if t.updates == nil {
		t.updates = make(map[*device]bool)
	}
	t.updates[d], d.visibleAt = true, 0
	t.version++
}

// updateAcked records that the catalog has all of a device; a reader that is behind may not see it until an instant.
func (t *tenant) updateAcked(d *device, until time.Time) {
	if t.updates[d] {
		d.visibleAt = until.UnixMilli()
		t.version++
	}
}

// updateVisible records that every reader of the catalog sees all of a device. That changes the version too: a reader
// that has read the catalog before may not have seen the device, and heads leave it out from now on.
func (t *tenant) updateVisible(d *device) {
	if t.updates[d] {
		t.version++
	}
	if delete(t.updates, d); len(t.updates) == 0 {
		t.updates = nil // a map keeps its room
	}
}

// unit sets the unit of a metric, and reports whether that is new.
func (t *tenant) unit(metric, unit string) bool {
	if t.units[metric] == unit || len(t.units) >= maxUnits && t.units[metric] == "" {
		return false
	}
	if t.units == nil {
		t.units = make(map[string]string)
	}
	t.units[metric] = unit
	return true
}

// known returns a tenant's state, nil if it is not there. The caller holds the lock.
func (g *registry) known(name string) *tenant {
	if t := g.recent; t != nil && t.name == name {
		return t
	}
	return g.tenants[name]
}

// tenant returns a tenant's state, made when it is not there. The caller holds the lock.
func (g *registry) tenant(name string) *tenant {
	t := g.recent
	if t == nil || t.name != name {
		if t = g.tenants[name]; t == nil {
			t = &tenant{name: name, byID: map[string]*device{}, version: g.versions}
			g.tenants[name] = t
		}
		g.recent = t
	}
	return t
}

// find returns a device's state, nil if it is not there. The caller holds the lock.
func (t *tenant) find(id string) *device {
	if t.last == nil || t.last.id != id {
		t.last = t.byID[id]
	}
	return t.last
}

// device returns a device's state, made when it is not there. The caller holds the lock.
func (g *registry) device(tenantName, id string) *device {
	t := g.tenant(tenantName)
	d := t.find(id)
	if d == nil {
		d = &device{tenant: t, id: id, slot: len(t.devices), carriedAt: noOffset}
		t.byID[id] = d
		t.devices = append(t.devices, d)
		g.countDevice(d)
	}
	return d
}

// countDevice brings what is counted of a device up to date.
func (g *registry) countDevice(d *device) {
	n := d.bytes()
	g.bytes += int64(n - d.counted)
	d.counted = n
}

// forgetDevice drops a device. The caller holds the lock.
func (w *Worker) forgetDevice(d *device) {
	t := d.tenant
	w.journal.times.drop(d)
	w.updates.lookups.remove(d)
	t.updateVisible(d)
	w.registry.bytes -= int64(d.counted)
	w.registry.columns.swap(d.seen.columns, nil)
	w.throttle.unrate(d)
	delete(t.byID, d.id)
	t.last = nil
	t.devices[d.slot] = nil
	t.gone++
	if len(t.byID) == 0 && len(t.units) == 0 && t.deferral == nil {
		w.throttle.uncountLabels(t)
		w.registry.versions = max(w.registry.versions, t.version+1)
		delete(w.registry.tenants, t.name)
		w.registry.recent = nil
		return
	}
	if t.gone > len(t.devices)/2 {
		rest := make([]*device, 0, 2*len(t.byID)) // a new list: a head may be walking the old one
		for _, d := range t.devices {
			if d != nil {
				d.slot = len(rest)
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
	if day > w.forgotten && day.Start() >= w.log.assigned {
		c.generation = w.generation // it has no chunk that is not from here, or the create finds out (rule W3)
	}
	d.chains = append(d.chains, c)
	w.file(c)
	return c
}

// forget drops what is known of an idle chain: if it comes back its tail must be looked up (rule W3). The caller holds
// the lock.
func (w *Worker) forget(c *chain) {
	w.forgotten = max(w.forgotten, c.day)
	w.index.drop(c)
	d := c.device
	d.chains = slices.DeleteFunc(d.chains, func(x *chain) bool { return x == c })
	w.forgetUnused(d)
}

// forgetUnused drops a device without chains, once the catalog has what was seen of it. The caller holds the lock.
func (w *Worker) forgetUnused(d *device) {
	switch {
	case len(d.chains) > 0 || d.owed != nil || d.updating || d.queued || d.deferral() != nil:
	case d.pending || d.timesPending():
		w.updates.queueUpdate(d)
	default:
		w.forgetDevice(d)
	}
}

// noDay lies before all days.
const noDay telemetry.Day = -1

// knows reports whether number and tail of a chain are known, though they may be out of date: a create finds out.
func (w *Worker) knows(c *chain) bool { return c.generation == w.generation }
