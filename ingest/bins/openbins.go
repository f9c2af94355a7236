package bins

import (
	"binnacle/internal/heat"
	"binnacle/internal/telemetry"
)

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
			for _, c := range d.Chains {
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
