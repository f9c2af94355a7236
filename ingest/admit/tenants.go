package admit

import (
	"strings"

	"binnacle/internal/control"
	"binnacle/internal/tenant"
)

// tenants has what Limits knows of tenants, by their names.
type tenants struct {
	all    map[string]*tenantState
	recent *tenantState // the last reading's
	bytes  int64        // memory of devices and labels
}

// tenant is what Limits knows of a tenant.
type tenantState struct {
	name string
	// kept says that the tenant has devices; else it goes with its deferrals.
	kept    bool
	devices map[string]*device // for which something is known
	last    *device            // the device that was looked for last

	snapshot   *control.Snapshot // the one that the limits are from
	configured tenant.IngestLimits
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

// device is a device's state for the limits of its tenant.
type device struct {
	id       string
	deferral *deferral // nil: the device is not deferred, at most its tenant is
	meter    meter
	series   deviceSeries
	bytes    int64
}

// deviceBytes is the memory of a device without its name and its series.
const deviceBytes = 256

// get returns a tenant's state, nil if it is not there.
func (x *tenants) get(name string) *tenantState {
	if t := x.recent; t != nil && t.name == name {
		return t
	}
	t := x.all[name]
	if t != nil {
		x.recent = t
	}
	return t
}

// add returns a tenant's state, made when it is not there.
func (x *tenants) add(name string) *tenantState {
	t := x.get(name)
	if t == nil {
		t = &tenantState{name: strings.Clone(name)}
		x.all[t.name], x.recent = t, t
	}
	return t
}

func (x *tenants) keep(name string) *tenantState {
	t := x.recent
	if t == nil || t.name != name {
		t = x.add(name)
	}
	t.kept = true
	return t
}

// device returns a device's state for its limits, nil for an unknown device.
func (t *tenantState) device(id string) *device {
	if d := t.last; d != nil && d.id == id {
		return d
	}
	d := t.devices[id]
	if d != nil {
		t.last = d
	}
	return d
}

// addDevice returns a device's state, made when it is not there.
func (x *tenants) addDevice(t *tenantState, id string) *device {
	d := t.device(id)
	if d == nil {
		if t.devices == nil {
			t.devices = map[string]*device{}
		}
		d = &device{id: strings.Clone(id)}
		t.devices[d.id], t.last = d, d
		x.grow(d, deviceBytes+len(id))
	}
	return d
}

// grow counts some more memory, or less, of a device.
func (x *tenants) grow(d *device, bytes int) {
	d.bytes += int64(bytes)
	x.bytes += int64(bytes)
}

// forgetDevice forgets a device, unless it has a deferral.
func (x *tenants) forgetDevice(t *tenantState, d *device) {
	if d == nil || d.deferral != nil {
		return
	}
	for i := range d.series.days {
		t.series.remove(d, &d.series.days[i])
	}
	x.bytes -= d.bytes
	delete(t.devices, d.id)
	t.last = nil
}
