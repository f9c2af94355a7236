package bins

import (
	"binnacle/ingest/admit"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/telemetry"
	"time"
)

// Seen implements admit.Devices, for the goroutine that owns the registry.
func (b *Bins) Seen(tenant, device string, day telemetry.Day) (seen admit.Seen) {
	t := b.known(tenant)
	if t == nil {
		return seen
	}
	seen.Devices = len(t.ByID)
	if d := t.find(device); d != nil {
		seen.Known, seen.Chains = true, d.Chains != nil
		c := d.chain(day)
		seen.Chain, seen.Cutting = c != nil, c != nil && c.acting() && c.Flight == nil
	}
	return seen
}

// known returns a tenant's state, nil if it is not there. The caller holds the lock.
func (b *Bins) known(name string) *tenant {
	if t := b.recent; t != nil && t.Name == name {
		return t
	}
	return b.Tenants[name]
}

// tenant returns a tenant's state, made when it is not there. The caller holds the lock.
func (b *Bins) tenant(name string) *tenant {
	t := b.recent
	if t == nil || t.Name != name {
		if t = b.Tenants[name]; t == nil {
			t = &tenant{ByID: map[string]*Device{}, Tenant: catalogupdates.Tenant{Name: name, Version: b.versions,
				Log: telemetry.Source{Stream: b.Cfg.Stream, Partition: b.Cfg.Partition}}}
			b.Tenants[name] = t
		}
		b.recent = t
	}
	return t
}

// find returns a device's state, nil if it is not there. The caller holds the lock.
func (t *tenant) find(id string) *Device {
	if t.last == nil || t.last.ID != id {
		t.last = t.ByID[id]
	}
	return t.last
}

// AddDevice returns a device's state, made when it is not there. The caller holds the lock.
func (b *Bins) AddDevice(tenantName, id string) *Device {
	t := b.tenant(tenantName)
	d := t.find(id)
	if d == nil {
		d = &Device{Device: catalogupdates.NewDevice(&t.Tenant, id), slot: int32(len(t.Devices)), carriedAt: noOffset}
		t.ByID[id] = d
		t.Devices = append(t.Devices, d)
		b.CountDevice(d)
	}
	return d
}

// deviceOf returns the state of a reading's device, made when it is not there. It looks at the reading's slot first: in
// a large fleet a look into the map waits for memory three times. The caller holds the lock.
func (b *Bins) deviceOf(r *telemetry.Reading) *Device {
	if r.Slot == nil {
		return b.AddDevice(r.Tenant, r.Device)
	}
	if all := b.tenant(r.Tenant).Devices; int(*r.Slot) < len(all) {
		if d := all[*r.Slot]; d != nil && d.ID == r.Device {
			return d
		}
	}
	d := b.AddDevice(r.Tenant, r.Device)
	*r.Slot = d.slot
	return d
}

// CountDevice brings the bytes counted for a device up to date.
func (b *Bins) CountDevice(d *Device) {
	n := d.Bytes()
	b.Bytes += int64(n) - int64(d.counted)
	d.counted = int32(n)
}

// Open makes the state of a chain. The caller holds the lock.
func (b *Bins) Open(d *Device, day telemetry.Day, now time.Time) *Chain {
	c := &Chain{Device: d, Day: day, tail: tail{Tail: -1}, open: closed, Used: now.UnixMilli()}
	if day > b.forgotten && day.Start() >= b.Log.Assigned {
		c.Generation = b.Generation // it has no chunk that is not from here, or the create finds out (rule W3)
	}
	c.Next, d.Chains, d.InUse = d.Chains, c, true
	b.Bytes += ChainBytes
	b.File(c)
	return c
}

// Forget forgets an idle chain: if it comes back its tail must be looked up (rule W3). The caller holds the lock.
func (b *Bins) Forget(c *Chain) {
	b.forgotten = max(b.forgotten, c.Day)
	b.Stored.forgotten(c)
	b.Index.close(c)
	b.Index.Idle.Remove(c)
	b.Bytes -= ChainBytes
	c.Device.remove(c)
	b.ForgetUnused(c.Device)
}

// ForgetUnused drops a device without chains once every reader of the catalog sees all of it. The caller holds the
// lock.
func (b *Bins) ForgetUnused(d *Device) {
	switch {
	case d.Chains != nil || d.owed != nil || d.Busy():
	case d.Lacks():
		b.Updates.Queue(&d.Device)
	default:
		b.forgetDevice(d)
	}
}

// forgetDevice drops a device. The caller holds the lock.
func (b *Bins) forgetDevice(d *Device) {
	t := b.Tenants[d.Tenant.Name]
	b.Journaled.Times.drop(d)
	b.Updates.Forget(&d.Device)
	b.Bytes -= int64(d.counted)
	delete(t.ByID, d.ID)
	t.last = nil
	t.Devices[d.slot] = nil
	t.gone++
	all := len(t.ByID) == 0 && !t.HasUnits()
	b.gone = append(b.gone, Gone{t.Name, d.ID, all})
	if all {
		b.versions = max(b.versions, t.Version+1)
		delete(b.Tenants, t.Name)
		b.recent = nil
		return
	}
	if t.gone > len(t.Devices)/2 {
		rest := make([]*Device, 0, 2*len(t.ByID)) // a new list: a head may be walking the old one
		for _, d := range t.Devices {
			if d != nil {
				d.slot = int32(len(rest))
				rest = append(rest, d)
			}
		}
		t.Devices, t.gone = rest, 0
	}
}

// noDay lies before all days.
const noDay telemetry.Day = -1
