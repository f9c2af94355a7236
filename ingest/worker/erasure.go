package worker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// erasing keeps rules E-R3 to E-R6: which rows may be cut under the snapshot at hand, and which are dropped because an
// order erases them.
type erasing struct {
	at        control.ErasurePartition
	bounded   bool              // horizon counts
	horizon   int64             // rows below were fetched before the read of the snapshot began
	snapshot  *control.Snapshot // of the orders that were applied last
	applied   map[string]bool   // orders
	unapplied bool              // bins may have come since
}

func newErasing(a Assignment) erasing {
	return erasing{at: control.ErasurePartition{Stream: a.Stream, Partition: a.Partition},
		applied: map[string]bool{}}
}

// SetHorizon says that all records below an offset were fetched before the read of the snapshot began that Jobs and
// Feed get from now on. Only rows of such records are cut, so that no chunk reaches beyond an order that its writer
// does not know (rule E-R3). Without a call all rows may be cut: then there must be no orders.
func (w *Worker) SetHorizon(offset int64) {
	w.erasing.horizon, w.erasing.bounded = offset, true
	w.admission.SetHorizon(offset)
}

// isNew reports whether the chain has rows that were fetched after the read of the snapshot began.
func (e *erasing) isNew(c *chain) bool { return e.bounded && c.bin.Through() >= e.horizon }

// isFresh reports whether the snapshot is newer than the rows that are to be cut (rule E-R3). If not, the rows that
// there are now wait for one that is: later ones must not put the cut off for ever.
func (w *Worker) isFresh(c *chain, now time.Time) bool {
	if !w.erasing.isNew(c) {
		return true
	}
	if c.fresh <= c.bin.First() {
		c.fresh = w.log.Position
		if c.seal == unsealed {
			c.chosenAt = now.UnixMilli()
		}
	}
	return c.fresh <= w.erasing.horizon
}

// AwaitsSnapshot reports whether chains wait for a newer snapshot.
func (w *Worker) AwaitsSnapshot() bool { return w.awaiting.tenant.Len() > 0 }

// through returns the last offset that orders erase of a chain, -1 for none (rule E-R2).
func (e *erasing) through(orders control.Erasures, device string, day telemetry.Day) int64 {
	if len(orders) == 0 {
		return -1
	}
	return orders.Through(device, day, e.at)
}

// applyErasures drops the rows that orders erase which this worker has not applied yet (rule E-R4).
func (w *Worker) applyErasures(snapshot *control.Snapshot) {
	e := &w.erasing
	if e.snapshot == snapshot && !e.unapplied {
		return
	}
	e.snapshot = snapshot
	for _, name := range slices.Collect(maps.Keys(w.registry.tenants)) {
		for _, o := range snapshot.Erasures(name) {
			if o.IsAcknowledged() && (e.unapplied || !e.applied[o.ID]) {
				w.applyErasure(o)
			}
		}
	}
	e.unapplied = false
	for o := range snapshot.AllErasures() {
		if o.IsAcknowledged() {
			e.applied[o.ID] = true
		}
	}
}

// applyErasure drops the rows that an order erases.
func (w *Worker) applyErasure(o *control.Erasure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.registry.tenants[o.Tenant]
	if t == nil {
		return
	}
	for _, d := range slices.Clone(t.devices) {
		if d == nil || o.Device != "" && o.Device != d.ID {
			continue
		}
		for _, c := range slices.Clone(d.chains) {
			if o.Matches(d.ID, c.day) {
				w.eraseRows(c, w.erasing.through(control.Erasures{o}, d.ID, c.day))
			}
		}
		if o.IsWhole() {
			w.forgetShown(d)
		}
	}
}

// eraseRows drops the rows of a chain up to an offset, but for those in flight: their document lies below the order's
// position, and the sweep finds it. The caller holds the lock.
func (w *Worker) eraseRows(c *chain, through int64) {
	w.lose(c.eraseUpTo(through, w.names.schemas))
	w.file(c)
}

// forgetShown forgets what was shown of a device that is erased: what is left of it is new to the catalog. The caller
// holds the lock.
func (w *Worker) forgetShown(d *device) {
	w.journal.times.forget(d)
	w.updates.Reset(&d.Device)
	for _, c := range d.chains {
		if c.bin.Readings() == 0 {
			continue
		}
		if err := c.bin.Each(func(offset int64, r telemetry.Reading) {
			w.updates.Observe(&d.Device, catalogupdates.Shown{Reading: &r, Offset: offset})
		}); err != nil {
			w.lose(fmt.Errorf("read a bin of %s: %w", d.ID, err))
		}
	}
	w.registry.countDevice(d)
	w.forgetUnused(d)
}

// eraseUpTo drops the rows up to an offset that are not in flight, without a trace. It fails when a shelf has lost
// rows. The caller holds the lock.
func (c *chain) eraseUpTo(through int64, s *binning.Schemas) (err error) {
	rest := c.linger[:0:0]
	for _, l := range c.linger {
		if l.rows.First() > through {
			rest = append(rest, l)
		}
	}
	c.linger = rest
	if c.bin.Readings() == 0 || c.bin.First() > through {
		return nil
	}
	if c.bin.Through() <= through {
		c.bin = binning.Bin{}
	} else if _, c.bin, err = c.bin.UpTo(through, s); err != nil {
		return err
	}
	c.shortened()
	return nil
}
