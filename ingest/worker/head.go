package worker

import (
	"slices"
	"strings"

	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Snapshot is what the worker holds of a tenant, as of one moment (rule R1). It may be called by anyone at any time,
// and holds up the worker only while it notes which rows there are.
func (w *Worker) Snapshot(req store.HeadRequest) store.PartitionHead {
	head, pieces := w.pieces(req)
	head.Rows = func(yield func(store.HeadRows, error) bool) {
		for _, p := range pieces {
			frame := p.rows.Frame(req.Range, req.Metrics)
			if len(frame.Groups) == 0 {
				continue
			}
			source := store.Source{Stream: head.Stream, Partition: head.Partition, Through: p.rows.Through()}
			if !yield(store.HeadRows{Device: p.device, Source: source, Frame: frame}, nil) {
				return
			}
		}
	}
	return head
}

// Devices is the devices of a tenant of which the worker holds rows, the first ones by id if there is a limit. It may be called
// by anyone at any time.
func (w *Worker) Devices(req store.ListRequest) []store.HeadDevice {
	var out []store.HeadDevice
	for id, rows := range w.listed(req) {
		d := store.HeadDevice{Device: id}
		seen := make(map[store.HeadColumn]bool)
		for i := range rows {
			from, to := rows[i].Span()
			if i == 0 {
				d.First, d.Last = from, to
			}
			d.First, d.Last = min(d.First, from), max(d.Last, to)
			for metric, kind := range rows[i].Columns() {
				if c := (store.HeadColumn{Metric: metric, Kind: kind}); !seen[c] {
					seen[c] = true
					d.Columns = append(d.Columns, c)
				}
			}
		}
		out = append(out, d)
	}
	return out
}

// listed is the rows of the devices that a list has.
func (w *Worker) listed(req store.ListRequest) map[string][]binning.Rows {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*device
	for key, d := range w.devices {
		if key.tenant == req.Tenant && strings.HasPrefix(key.device, req.Prefix) && d.holdsRows() {
			found = append(found, d)
		}
	}
	if req.Limit > 0 && len(found) > req.Limit {
		slices.SortFunc(found, func(a, b *device) int { return strings.Compare(a.key.device, b.key.device) })
		found = found[:req.Limit]
	}
	out := make(map[string][]binning.Rows, len(found))
	for _, d := range found {
		for _, p := range d.pieces(nil, binning.All) {
			out[d.key.device] = append(out[d.key.device], p.rows)
		}
	}
	return out
}

func (d *device) holdsRows() bool {
	return slices.ContainsFunc(d.chains, func(c *chain) bool { return len(c.linger) > 0 || c.flight != nil || c.bin.Readings() > 0 })
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
				head.Chains, out = d.stored(head.Chains, req.Range), d.pieces(out, req.Range)
			}
		}
		return head, out
	}
	for key, d := range w.devices {
		if key.tenant == req.Tenant {
			head.Chains, out = d.stored(head.Chains, req.Range), d.pieces(out, req.Range)
		}
	}
	return head, out
}

// stored appends what is known to be stored of the device's days that a range touches (rule R4).
func (d *device) stored(out []store.HeadChain, r telemetry.Range) []store.HeadChain {
	for _, c := range d.chains {
		if c.number > 0 && c.touches(r) {
			out = append(out, store.HeadChain{Device: d.key.device, Day: c.key.day, Tail: c.last()})
		}
	}
	return out
}

// pieces appends every run of rows of the device's days that a range touches: chunks that linger or are being created,
// and the open bin.
func (d *device) pieces(out []piece, r telemetry.Range) []piece {
	for _, c := range d.chains {
		if !c.touches(r) {
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
