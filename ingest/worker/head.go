package worker

import (
	"slices"
	"strings"

	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// HeadRead returns what the worker holds of a tenant, as of one moment (rule R1): every row below its position that is
// not in the store, and none above. Anyone may call it at any time. It visits devices in pieces, and holds up the
// worker only for one piece at a time: rows taken meanwhile are left out by their offset, and those stored meanwhile
// are in the store before the caller reads it.
func (w *Worker) HeadRead(req store.HeadRequest) store.PartitionHead {
	head, devices := w.headOf(req)
	var pieces []piece
	above := uint64(0)
	if head.Stored != nil {
		above = head.Stored.Above
	}
	w.registry.visitDevices(devices, func(d *device) {
		head.Chains, pieces = d.stored(head.Chains, req.Range, above), d.pieces(pieces, req.Range)
	})
	if head.Stored != nil { // what was forgotten meanwhile may not have been visited
		w.mu.Lock()
		head.Stored.Exact = w.stored.exact
		w.mu.Unlock()
	}
	known := req.KnownBins(head.Owner)
	head.Rows = func(yield func(store.HeadRows, error) bool) {
		for _, p := range pieces {
			if p.rows.First() >= head.Position {
				continue
			}
			erased := req.ErasedThrough(p.device, p.day, &head)
			through := min(p.rows.Through(), head.Position-1)
			if through <= erased {
				continue
			}
			out := store.HeadRows{
				Device: p.device, Source: store.Source{Stream: head.Stream, Partition: head.Partition, Through: through},
				Day: p.day, First: p.rows.First(), Above: -1,
			}
			// A bin that has become shorter was cut: its rest counts as another one.
			if upto, ok := known[store.HeadBin{Device: p.device, Day: p.day, First: out.First}]; ok && upto <= through {
				out.Above = upto
			}
			selected := binning.Selection{Above: max(out.Above, erased), Below: head.Position, Span: req.Range,
				Metrics: req.Metrics}
			var err error
			if req.Blocks {
				out.Blocks, err = p.rows.SelectBlocks(selected)
			}
			if err == nil && out.Blocks == nil {
				out.Frame, err = p.rows.Frame(selected)
			}
			if err != nil {
				yield(store.HeadRows{}, err)
				return
			}
			if (out.Blocks != nil || len(out.Frame.Groups) > 0 || head.Owner != 0) && !yield(out, nil) {
				return
			}
		}
	}
	return head
}

// headOf returns a head without rows, and the devices that may have some.
func (w *Worker) headOf(req store.HeadRequest) (store.PartitionHead, []*device) {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := store.PartitionHead{
		Topic: w.cfg.Topic, Partition: w.partition, Stream: w.stream, Position: w.log.Position, CaughtUp: w.log.CaughtUp,
	}
	if req.Bins && w.owner != 0 {
		head.Owner = max(w.owner+uint64(w.generation), 1)
		if req.Stored {
			head.Stored = &store.HeadStored{Count: w.stored.count, Exact: w.stored.exact}
			if known := req.KnownStored(head.Owner); known >= w.stored.exact {
				head.Stored.Above = known
			}
		}
	}
	t := w.registry.tenants[req.Tenant]
	head.Deferrals = w.admission.Limits.HeadDeferrals(req.Tenant, req.Devices)
	if t == nil || req.Range.Empty() {
		return head, nil
	}
	if req.Devices == nil {
		return head, t.devices
	}
	var devices []*device
	for _, id := range req.Devices {
		if d := t.byID[id]; d != nil {
			devices = append(devices, d)
		}
	}
	return head, devices
}

// visitAtOnce is how many devices are looked at while the worker waits.
const visitAtOnce = 256

// visitDevices visits devices under the lock, some at a time. Those that come or go meanwhile may be left out.
func (g *registry) visitDevices(devices []*device, visit func(*device)) {
	for len(devices) > 0 {
		n := min(len(devices), visitAtOnce)
		g.mu.Lock()
		for _, d := range devices[:n] {
			if d != nil {
				g.visited++
				visit(d)
			}
		}
		g.mu.Unlock()
		devices = devices[n:]
	}
}

// Devices returns the devices of a tenant with rows that the worker holds, or with times that the catalog may lack; the
// first ones by id if there is a limit. Anyone may call it at any time.
func (w *Worker) Devices(req store.ListRequest) []store.HeadDevice {
	_, all := w.headOf(store.HeadRequest{Tenant: req.Tenant, Range: binning.All, Devices: req.Devices})
	listed := w.registry.listed(all, req)
	out := make([]store.HeadDevice, len(listed))
	for i, x := range listed {
		d := store.HeadDevice{Device: x.id}
		seen := make(map[store.HeadColumn]bool)
		for k := range x.rows {
			x.widen(timesOfRows(&x.rows[k]))
			for metric, kind := range x.rows[k].Columns() {
				if c := (store.HeadColumn{Metric: metric, Kind: kind}); !seen[c] {
					seen[c] = true
					d.Columns = append(d.Columns, c)
				}
			}
		}
		d.First, d.Last = x.times.from, x.times.to
		out[i] = d
	}
	return out
}

// listedDevice is a device as a list has it.
type listedDevice struct {
	id    string
	rows  []binning.Bin
	times span
	timed bool
}

// widen has the device's times span others.
func (x *listedDevice) widen(times span) {
	if x.timed {
		times = times.with(x.times)
	}
	x.times, x.timed = times, true
}

// CatalogPending returns what the catalog may not show yet of a tenant's devices. Anyone may call it at any time.
func (w *Worker) CatalogPending(tenantName string) store.HeadUpdates {
	w.mu.Lock()
	defer w.mu.Unlock()
	var n store.HeadUpdates
	t, turns := w.registry.tenants[tenantName], uint64(0)
	if t != nil {
		turns = t.Version
		n.Devices = t.Unseen()
	}
	n.Add(w.partition, uint64(w.stream), uint64(w.log.Assigned), uint64(w.generation), turns)
	return n
}

// listed returns those of all devices that a list has.
func (g *registry) listed(all []*device, req store.ListRequest) []*listedDevice {
	var found []*device
	g.visitDevices(all, func(d *device) {
		if strings.HasPrefix(d.ID, req.Prefix) && (d.holdsRows() || d.TimesPending()) {
			found = append(found, d)
		}
	})
	if req.Limit > 0 && len(found) > req.Limit {
		slices.SortFunc(found, func(a, b *device) int { return strings.Compare(a.ID, b.ID) })
		found = found[:req.Limit]
	}
	out := make([]*listedDevice, 0, len(found))
	g.visitDevices(found, func(d *device) {
		x := &listedDevice{id: d.ID}
		for _, p := range d.pieces(nil, binning.All) {
			x.rows = append(x.rows, p.rows)
		}
		if d.TimesPending() {
			first, last, _ := d.Times()
			x.widen(span{first, last})
		}
		if x.timed || len(x.rows) > 0 {
			out = append(out, x)
		}
	})
	return out
}

func (d *device) holdsRows() bool {
	return slices.ContainsFunc(d.chains, func(c *chain) bool {
		return len(c.linger) > 0 || c.flight != nil || c.bin.Readings() > 0
	})
}

type piece struct {
	device string
	day    telemetry.Day
	rows   binning.Bin
}

// stored appends what is known to be stored of the device's days that a range touches (rule R4), and was not yet known
// at a count (rule R8).
func (d *device) stored(out []store.HeadChain, r telemetry.Range, above uint64) []store.HeadChain {
	for _, c := range d.chains {
		if c.number > 0 && c.touches(r) && (above == 0 || c.stored > above) {
			out = append(out, store.HeadChain{Device: d.ID, Day: c.day, Tail: c.last()})
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
		for i := range c.linger {
			out = c.piece(out, &c.linger[i].rows)
		}
		if c.flight != nil {
			out = c.piece(out, &c.flight.rows)
		}
		if c.bin.Readings() > 0 {
			out = c.piece(out, &c.bin)
		}
	}
	return out
}

// piece appends a run of rows. What was loaded may lack rows between those of two blocks, or behind the last one: those
// that somebody has stored since, and never journaled. So each block stands by itself, and no older row is lifted above
// a chunk by a later one (rule R5).
func (c *chain) piece(out []piece, rows *binning.Bin) []piece {
	if rows.First() > c.loaded {
		return append(out, piece{c.device.ID, c.day, *rows})
	}
	for _, part := range rows.Parts(c.loaded) {
		out = append(out, piece{c.device.ID, c.day, part})
	}
	return out
}
