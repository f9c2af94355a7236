package bins

import (
	"binnacle/binning"
	"binnacle/internal/store"
)

// ListDevices returns the devices of a tenant with rows that the worker holds, or with times that the catalog may lack.
// Anyone may call it at any time.
func (b *Bins) ListDevices(req store.ListRequest) []store.HeadDevice {
	_, all := b.headOf(store.HeadRequest{Tenant: req.Tenant, Range: binning.All, Devices: req.Devices}, nil)
	listed := b.listed(all)
	out := make([]store.HeadDevice, len(listed))
	for i, x := range listed {
		for k := range x.rows {
			x.widen(TimesOfRows(&x.rows[k]))
		}
		out[i] = store.HeadDevice{Device: x.id, First: x.times.From, Last: x.times.To}
	}
	return out
}

// listedDevice is a device as a list has it.
type listedDevice struct {
	id    string
	rows  []binning.Bin
	times Span
	timed bool
}

// widen has the device's times span others.
func (x *listedDevice) widen(times Span) {
	if x.timed {
		times = times.with(x.times)
	}
	x.times, x.timed = times, true
}

func (b *Bins) listed(all []*Device) (out []*listedDevice) {
	b.visitDevices(all, func(d *Device) {
		x := &listedDevice{id: d.ID}
		for _, p := range d.pieces(nil, binning.All) {
			x.rows = append(x.rows, p.rows)
		}
		if d.TimesUnseen() {
			first, last, _ := d.Times()
			x.widen(Span{first, last})
		}
		if x.timed || len(x.rows) > 0 {
			out = append(out, x)
		}
	})
	return out
}

// CatalogPending returns what the catalog may not show yet of a tenant's devices. Anyone may call it at any time.
func (b *Bins) CatalogPending(tenantName string) store.HeadUpdates {
	b.mu.Lock()
	defer b.mu.Unlock()
	var n store.HeadUpdates
	turns := b.versions // above every version of a tenant that was forgotten
	if t := b.Tenants[tenantName]; t != nil {
		turns, n.Devices = t.Version, t.Unseen()
	}
	n.Add(b.Cfg.Partition, uint64(b.Cfg.Stream), uint64(b.Log.Assigned), uint64(b.Generation), turns)
	return n
}
