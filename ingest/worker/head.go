package worker

import (
	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Snapshot is what the worker holds of a tenant, as of one moment (rule R1). It may be called by anyone at any time,
// and holds up the worker only while it notes which rows there are.
func (w *Worker) Snapshot(req store.HeadRequest) store.PartitionHead {
	head, pieces := w.pieces(req)
	for _, p := range pieces {
		frame := p.rows.Frame(req.Range, req.Metrics)
		if len(frame.Groups) == 0 {
			continue
		}
		head.Rows = append(head.Rows, store.HeadRows{
			Device: p.device,
			Source: store.Source{Stream: w.stream, Partition: w.partition, Through: p.rows.Through()},
			Frame:  frame,
		})
	}
	return head
}

type piece struct {
	device string
	rows   binning.Rows
}

func (w *Worker) pieces(req store.HeadRequest) (store.PartitionHead, []piece) {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := store.PartitionHead{Topic: w.cfg.Topic, Partition: w.partition, Stream: w.stream, Position: w.position, CaughtUp: w.caughtUp}
	var out []piece
	if req.Devices != nil {
		for _, id := range req.Devices {
			if d := w.devices[deviceKey{req.Tenant, id}]; d != nil {
				out = d.pieces(out, req.Range)
			}
		}
		return head, out
	}
	for key, d := range w.devices {
		if key.tenant == req.Tenant {
			out = d.pieces(out, req.Range)
		}
	}
	return head, out
}

// pieces appends every run of rows of the device's days that a range touches: chunks that linger or are being created,
// and the open bin.
func (d *device) pieces(out []piece, r telemetry.Range) []piece {
	for _, c := range d.chains {
		if c.key.day.End() <= r.From || c.key.day.Start() >= r.To {
			continue
		}
		for _, l := range c.linger {
			out = append(out, piece{d.key.device, l.rows})
		}
		if c.flight != nil {
			out = append(out, piece{d.key.device, c.flight.rows})
		}
		if c.bin.Readings() > 0 {
			out = append(out, piece{d.key.device, c.bin})
		}
	}
	return out
}
