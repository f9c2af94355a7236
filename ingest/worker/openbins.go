package worker

import (
	"binnacle/internal/heat"
	"binnacle/internal/telemetry"
)

// OpenBin is the open bin of a device and day, for a forecast.
type OpenBin struct {
	Tenant, Device string
	Day            telemetry.Day
	Number         uint32 // of its next chunk
	From           int64  // least event time, ms
	Bytes          float64
	Cutting        heat.Cutting
	Before         heat.Span // of the chunk before, by event time; zero if it is not known
}

// VisitOpenBins visits the devices that have open bins, each with all of them. It may be called by anyone at any time,
// and visits as Holdings does. The bins are the caller's until visit returns.
func (w *Worker) VisitOpenBins(visit func([]OpenBin)) {
	var bins []OpenBin
	for _, devices := range w.registry.devicesOf("") {
		w.registry.visitDevices(devices, func(d *device) {
			bins = bins[:0]
			for _, c := range d.chains {
				if c.bin.Readings() > 0 {
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
func (c *chain) openBin() OpenBin {
	d := c.device
	b := OpenBin{Tenant: d.tenant.Name, Device: d.ID, Day: c.day, Number: c.number}
	b.From, _ = c.bin.Span()
	b.Cutting.Target, b.Cutting.Alone, b.Cutting.Fixed = d.sizer.Bounds(c.bin.Width())
	b.Bytes = d.sizer.Estimate(c.bin.Values(), c.bin.Width()) - b.Cutting.Fixed
	if c.number > 0 && c.span.to > c.span.from {
		b.Before = heat.Span{From: c.span.from, To: c.span.to}
	}
	if c.flight != nil {
		b.Number++ // its chunk is on the way
	}
	return b
}
