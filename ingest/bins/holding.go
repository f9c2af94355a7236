package bins

import (
	"binnacle/binning"
	"slices"
)

// Holding is what a Worker holds of a device and does not know to be stored: open bins, and chunks on their way.
type Holding struct {
	Tenant, Device   string
	Bins             int // open bins, and chunks on their way
	Readings, Values int
	Bytes            int   // memory
	First            int64 // offset of the record of the oldest reading
	From, To         int64 // least and greatest event time, ms, both inclusive
}

// Holdings visits the devices that rows are held of, of one tenant or, with "", of all. It may be called by anyone at
// any time. It looks at some devices at a time, as HeadRead does: visit is called while the worker waits, and must not
// call it.
func (b *Bins) Holdings(tenant string, visit func(Holding)) {
	for _, devices := range b.devicesOf(tenant) {
		b.visitDevices(devices, func(d *Device) {
			if h, ok := d.holding(); ok {
				visit(h)
			}
		})
	}
}

// devicesOf returns the devices of a tenant, or of all tenants, by tenant.
func (b *Bins) devicesOf(tenant string) (all [][]*Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, t := range b.Tenants {
		if tenant == "" || tenant == name {
			all = append(all, slices.Clip(t.Devices))
		}
	}
	return all
}

// holding returns what the worker holds of the device; ok is false for nothing. The caller holds the lock.
func (d *Device) holding() (h Holding, ok bool) {
	h = Holding{Tenant: d.Tenant.Name, Device: d.ID}
	for _, c := range d.Chains {
		if c.Flight != nil {
			h.add(&c.Flight.Rows)
		}
		if c.Bin.Readings() > 0 {
			h.add(&c.Bin)
		}
	}
	return h, h.Bins > 0
}

func (h *Holding) add(rows *binning.Bin) {
	from, to := rows.Span()
	if h.Bins == 0 {
		h.First, h.From, h.To = rows.First(), from, to
	}
	h.Bins++
	h.Readings += rows.Readings()
	h.Values += rows.Values()
	h.Bytes += rows.Bytes()
	h.First, h.From, h.To = min(h.First, rows.First()), min(h.From, from), max(h.To, to)
}
