package bins

import (
	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Deferrals knows what is deferred; *admit.Limits does.
type Deferrals interface {
	// HeadDeferrals returns what is deferred of some devices of a tenant, or of all. Anyone may call it at any time.
	HeadDeferrals(tenant string, devices []string) []store.HeadDeferral
}

// HeadRead returns what the worker holds of a tenant, as of one moment (rule R1): every row below its position that
// is not in the store, and none above. Anyone may call it at any time. It visits devices in pieces, and holds up the
// worker only for one piece at a time: rows taken while it reads are left out by their offset, and rows stored while
// it reads are in the store before the caller reads the store.
func (b *Bins) HeadRead(req store.HeadRequest, deferred Deferrals) store.PartitionHead {
	head, devices := b.headOf(req, deferred)
	var pieces []piece
	above := uint64(0)
	if head.Stored != nil {
		above = head.Stored.Above
	}
	b.visitDevices(devices, func(d *Device) {
		head.Chains, pieces = d.stored(head.Chains, req.Range, above), d.pieces(pieces, req.Range)
	})
	if head.Stored != nil { // a chain forgotten since headOf may not have been visited
		b.mu.Lock()
		head.Stored.Exact = b.Stored.exact
		b.mu.Unlock()
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
func (b *Bins) headOf(req store.HeadRequest, deferred Deferrals) (store.PartitionHead, []*Device) {
	b.mu.Lock()
	defer b.mu.Unlock()
	head := store.PartitionHead{
		Topic: b.Cfg.Topic, Partition: b.Cfg.Partition, Stream: b.Cfg.Stream,
		Position: b.Log.Position, CaughtUp: b.Log.CaughtUp,
	}
	if req.Bins && b.Cfg.Owner != 0 {
		head.Owner = max(b.Cfg.Owner+uint64(b.Generation), 1)
		if req.Stored {
			head.Stored = &store.HeadStored{Count: b.Stored.Count, Exact: b.Stored.exact}
			if known := req.KnownStored(head.Owner); known >= b.Stored.exact {
				head.Stored.Above = known
			}
		}
	}
	t := b.Tenants[req.Tenant]
	if deferred != nil {
		head.Deferrals = deferred.HeadDeferrals(req.Tenant, req.Devices)
	}
	if t == nil || req.Range.Empty() {
		return head, nil
	}
	if req.Devices == nil {
		return head, t.Devices
	}
	var devices []*Device
	for _, id := range req.Devices {
		if d := t.ByID[id]; d != nil {
			devices = append(devices, d)
		}
	}
	return head, devices
}

// visitAtOnce is how many devices are looked at while the worker waits.
const visitAtOnce = 256

// visitDevices visits devices under the lock, some at a time. Devices that come or go in between may be left out.
func (b *Bins) visitDevices(devices []*Device, visit func(*Device)) {
	for len(devices) > 0 {
		n := min(len(devices), visitAtOnce)
		b.mu.Lock()
		for _, d := range devices[:n] {
			if d != nil {
				b.Visited++
				visit(d)
			}
		}
		b.mu.Unlock()
		devices = devices[n:]
	}
}

type piece struct {
	device string
	day    telemetry.Day
	rows   binning.Bin
}

// stored appends the stored tails of the device's days in a range (rule R4), unless known at a count (rule R8).
func (d *Device) stored(out []store.HeadChain, r telemetry.Range, above uint64) []store.HeadChain {
	for c := d.Chains; c != nil; c = c.Next {
		if c.Number > 0 && c.touches(r) && (above == 0 || c.Stored > above) {
			out = append(out, store.HeadChain{Device: d.ID, Day: c.Day, Tail: c.last()})
		}
	}
	return out
}

// pieces appends every run of rows of the device's days that a range touches: chunks that linger or are being created,
// and the open bin.
func (d *Device) pieces(out []piece, r telemetry.Range) []piece {
	for c := d.Chains; c != nil; c = c.Next {
		if !c.touches(r) {
			continue
		}
		for i := range c.Linger {
			out = c.piece(out, &c.Linger[i].rows)
		}
		if c.Flight != nil {
			out = c.piece(out, &c.Flight.Rows)
		}
		if c.Bin.Readings() > 0 {
			out = c.piece(out, &c.Bin)
		}
	}
	return out
}

// piece appends a run of rows. Loaded rows may lack rows between two blocks, or behind the last one: rows that
// another writer has stored since, and never journaled. So each block is a piece, and no older row is lifted above a
// chunk by a later one (rule R5).
func (c *Chain) piece(out []piece, rows *binning.Bin) []piece {
	if rows.First() > c.loaded {
		return append(out, piece{c.Device.ID, c.Day, *rows})
	}
	for _, part := range rows.Parts(c.loaded) {
		out = append(out, piece{c.Device.ID, c.Day, part})
	}
	return out
}
