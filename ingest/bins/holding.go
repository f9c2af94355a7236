package bins

import (
	"binnacle/binning"
	"binnacle/internal/heat"
	"binnacle/internal/telemetry"
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
	for c := d.Chains; c != nil; c = c.Next {
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

// OpenBin is the open bin of a device and day, for a forecast.
type OpenBin struct {
	Tenant, Device string
	Day            telemetry.Day
	Number         uint32 // its next chunk's
	From           int64  // least event time, ms
	Bytes          float64
	Cutting        heat.Cutting
	Before         heat.Span // event times of the chunk before; zero if they are not known
}

// VisitOpenBins visits the devices that have open bins, each with all of them. It may be called by anyone at any time,
// and visits as Holdings does. The bins are the caller's until visit returns.
func (b *Bins) VisitOpenBins(visit func([]OpenBin)) {
	var bins []OpenBin
	for _, devices := range b.devicesOf("") {
		b.visitDevices(devices, func(d *Device) {
			bins = bins[:0]
			for c := d.Chains; c != nil; c = c.Next {
				if c.Bin.Readings() > 0 {
					bins = append(bins, c.openBin())
				}
			}
			if len(bins) > 0 {
				visit(bins)
			}
		})
	}
}

// openBin returns the chain's open bin, which has readings. The caller holds the lock.
func (c *Chain) openBin() OpenBin {
	d := c.Device
	b := OpenBin{Tenant: d.Tenant.Name, Device: d.ID, Day: c.Day, Number: c.Number}
	b.From, _ = c.Bin.Span()
	b.Cutting.Target, b.Cutting.Alone, b.Cutting.Fixed = d.Sizer.Bounds(c.Bin.Width())
	b.Bytes = d.Sizer.Estimate(c.Bin.Values(), c.Bin.Width()) - b.Cutting.Fixed
	if c.Number > 0 && c.span.To > c.span.From {
		b.Before = heat.Span{From: c.span.From, To: c.span.To}
	}
	if c.Flight != nil {
		b.Number++ // its chunk is on the way
	}
	return b
}
