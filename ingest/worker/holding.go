package worker

import (
	"slices"

	"binnacle/binning"
)

// Holding is what a Worker holds of a device and does not know to be stored: open bins, and chunks on their way.
type Holding struct {
	Tenant, Device   string
	Bins             int // of as many days, with those on their way
	Readings, Values int
	Bytes            int   // of memory
	First            int64 // offset of the record of the oldest reading
	From, To         int64 // least and greatest event time, ms, both inclusive
}

// Holdings visits the devices that rows are held of, of one tenant or, with "", of all. It may be called by anyone at
// any time. It looks at some devices at a time, as HeadRead does: visit is called while the worker waits, and must not
// call it.
func (w *Worker) Holdings(tenant string, visit func(Holding)) {
	for _, devices := range w.registry.devicesOf(tenant) {
		w.registry.visitDevices(devices, func(d *device) {
			if h, ok := d.rows(); ok {
				visit(h)
			}
		})
	}
}

// devicesOf returns the devices of a tenant, or of each.
func (g *registry) devicesOf(tenant string) (all [][]*device) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, t := range g.tenants {
		if tenant == "" || tenant == name {
			all = append(all, slices.Clip(t.devices))
		}
	}
	return all
}

// rows returns what is held of the device; ok is false for nothing. The caller holds the lock.
func (d *device) rows() (h Holding, ok bool) {
	h = Holding{Tenant: d.tenant.Name, Device: d.ID}
	for _, c := range d.chains {
		if c.flight != nil {
			h.add(&c.flight.rows)
		}
		if c.bin.Readings() > 0 {
			h.add(&c.bin)
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
