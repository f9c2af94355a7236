package worker

import (
	"slices"
	"time"

	"binnacle/internal/telemetry"
)

// tenant is the devices of one tenant. It changes under the Worker's lock.
type tenant struct {
	name    string
	byID    map[string]*device
	devices []*device // in the order in which they came, with nil for those that are gone: a head walks it in pieces
	gone    int
}

// device is a device's state, made when it is not there. The caller holds the lock.
func (w *Worker) device(tenantName, id string) *device {
	t := w.recent
	if t == nil || t.name != tenantName {
		if t = w.tenants[tenantName]; t == nil {
			t = &tenant{name: tenantName, byID: map[string]*device{}}
			w.tenants[tenantName] = t
		}
		w.recent = t
	}
	d := t.byID[id]
	if d == nil {
		d = &device{tenant: t, id: id, slot: len(t.devices)}
		t.byID[id] = d
		t.devices = append(t.devices, d)
		w.countDevice(d)
	}
	return d
}

// countDevice brings what is counted of a device up to date.
func (w *Worker) countDevice(d *device) {
	n := d.bytes()
	w.devices += int64(n - d.counted)
	d.counted = n
}

// forgetDevice drops a device. The caller holds the lock.
func (w *Worker) forgetDevice(d *device) {
	t := d.tenant
	w.looks.remove(d)
	w.devices -= int64(d.counted)
	w.columns.swap(d.seen.columns, nil)
	delete(t.byID, d.id)
	t.devices[d.slot] = nil
	t.gone++
	if len(t.byID) == 0 {
		delete(w.tenants, t.name)
		w.recent = nil
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
	c.used = now
	if day > w.forgotten && day.Start() >= w.assigned {
		c.tenure = w.tenure // it has no chunk that is not from here, or the create will tell (rule W3)
	}
	d.chains = append(d.chains, c)
	w.index.file(c)
	return c
}

// forget drops what is known of an idle chain: if it comes back its tail must be looked up (rule W3). The caller holds
// the lock.
func (w *Worker) forget(c *chain) {
	w.forgotten = max(w.forgotten, c.day)
	w.index.drop(c)
	d := c.device
	d.chains = slices.DeleteFunc(d.chains, func(x *chain) bool { return x == c })
	w.leave(d)
}

// leave drops a device without chains, once the catalog has what was seen of it. The caller holds the lock.
func (w *Worker) leave(d *device) {
	switch {
	case len(d.chains) > 0 || d.noting || d.queued:
	case d.news || d.stretched():
		w.noteSoon(d)
	default:
		w.forgetDevice(d)
	}
}

// noDay lies before all days.
const noDay telemetry.Day = -1

// knows reports whether number and tail of a chain are known, be it wrongly: a create will tell.
func (w *Worker) knows(c *chain) bool { return c.tenure == w.tenure }
