package worker

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
	"fmt"
	"maps"
	"slices"
)

// erasing keeps rule E-R4: rows are dropped that an order erases.
type erasing struct {
	snapshot  *control.Snapshot // of the orders that were applied last
	applied   map[string]bool   // orders
	unapplied bool              // bins may have come since
}

// SetHorizon says that all records below an offset were fetched before the read of the snapshot began that Jobs and
// Feed get from now on. Only rows of such records are cut, so that no chunk reaches beyond an order that its writer
// does not know (rule E-R3). Without a call all rows may be cut: then there must be no orders.
func (w *Worker) SetHorizon(offset int64) {
	w.writer.Horizon.Offset, w.writer.Horizon.Bounded = offset, true
	w.admission.SetHorizon(offset)
}

// AwaitsSnapshot reports whether chains wait for a newer snapshot.
func (w *Worker) AwaitsSnapshot() bool { return w.writer.Awaiting.Tenant.Len() > 0 }

// applyErasures drops the rows that orders erase which this worker has not applied yet (rule E-R4).
func (w *Worker) applyErasures(snapshot *control.Snapshot) {
	e := &w.erasing
	if e.snapshot == snapshot && !e.unapplied {
		return
	}
	e.snapshot = snapshot
	for _, name := range slices.Collect(maps.Keys(w.bins.Tenants)) {
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
	w.bins.Mu.Lock()
	defer w.bins.Mu.Unlock()
	t := w.bins.Tenants[o.Tenant]
	if t == nil {
		return
	}
	for _, d := range slices.Clone(t.Devices) {
		if d == nil || o.Device != "" && o.Device != d.ID {
			continue
		}
		for _, c := range slices.Clone(d.Chains) {
			if o.Matches(d.ID, c.Day) {
				w.bins.EraseRows(c, w.writer.Horizon.Through(control.Erasures{o}, d.ID, c.Day))
			}
		}
		if o.IsWhole() {
			w.forgetShown(d)
		}
	}
}

// forgetShown forgets what was shown of a device that is erased: what is left of it is new to the catalog. The caller
// holds the lock.
func (w *Worker) forgetShown(d *bins.Device) {
	w.bins.Journaled.Times.Forget(d)
	w.bins.Updates.Reset(&d.Device)
	for _, c := range d.Chains {
		if c.Bin.Readings() == 0 {
			continue
		}
		if err := c.Bin.Each(func(offset int64, r telemetry.Reading) {
			w.bins.Updates.Observe(&d.Device, catalogupdates.Shown{Reading: &r, Offset: offset})
		}); err != nil {
			w.bins.Lose(fmt.Errorf("read a bin of %s: %w", d.ID, err))
		}
	}
	w.bins.CountDevice(d)
	w.bins.ForgetUnused(d)
}
