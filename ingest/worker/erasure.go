package worker

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/catalogupdates"
	"binnacle/ingest/journal"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/telemetry"
	"fmt"
	"maps"
	"slices"
)

// erasing keeps rule E-R4: rows are dropped that an order erases.
type erasing struct {
	bins      *bins.Bins
	at        erasure.Partition
	snapshot  *control.Snapshot // the one with the orders that were applied last
	applied   map[string]bool   // orders
	unapplied bool              // bins may have come since
}

// apply drops the rows that orders erase which this worker has not applied yet (rule E-R4).
func (e *erasing) apply(snapshot *control.Snapshot) {
	if e.snapshot == snapshot && !e.unapplied {
		return
	}
	e.snapshot = snapshot
	for _, name := range slices.Collect(maps.Keys(e.bins.Tenants)) {
		for _, o := range snapshot.Erasures(name) {
			if o.IsAcknowledged() && (e.unapplied || !e.applied[o.ID]) {
				e.drop(o)
			}
		}
	}
	e.unapplied = false
	for _, o := range snapshot.AllErasures() {
		if o.IsAcknowledged() {
			e.applied[o.ID] = true
		}
	}
}

func (e *erasing) drop(o *erasure.Order) {
	e.bins.Lock()
	defer e.bins.Unlock()
	t := e.bins.Tenants[o.Tenant]
	if t == nil {
		return
	}
	for _, d := range slices.Clone(t.Devices) {
		if d == nil || o.Device != "" && o.Device != d.ID {
			continue
		}
		through := o.Through(e.at.Stream, e.at.Partition)
		storedSince := through < 0 // the stream began after the order
		for c := d.Chains; c != nil; c = c.Next {
			storedSince = storedSince || c.Tail > through
			if o.Matches(d.ID, c.Day) {
				e.bins.EraseRows(c, through)
			}
		}
		if o.IsWhole() && o.Account == "" { // the catalog keeps its own entries under an order that was copied
			e.forgetShown(d, through, storedSince)
		}
	}
}

// hasErased reports whether an order erases all rows behind a journal record of times.
func (e *erasing) hasErased(r *journal.Record) bool {
	return e.snapshot != nil && slices.ContainsFunc(e.snapshot.Erasures(r.Tenant), func(o *erasure.Order) bool {
		through := o.Through(e.at.Stream, e.at.Partition)
		return o.IsAcknowledged() && o.IsWhole() && (o.Device == "" || o.Device == r.Device) && through >= 0 &&
			r.Tail.Through <= through
	})
}

// forgetShown forgets what an erased device has shown up to an offset: rows left, and tags set since, are new to the
// catalog. Where rows were stored since the order, times that the journal carries stay: their worker knew the order
// (rule E-R3). The caller holds the lock.
func (e *erasing) forgetShown(d *bins.Device, through int64, storedSince bool) {
	tags := d.TagsSince(through)
	e.bins.Updates.Reset(&d.Device)
	for _, x := range tags {
		e.bins.Updates.Observe(&d.Device, x)
	}
	if storedSince {
		e.bins.Journaled.Times.Show(d)
	} else {
		e.bins.Journaled.Times.Forget(d)
	}
	for c := d.Chains; c != nil; c = c.Next {
		if c.Bin.Readings() == 0 {
			continue
		}
		if err := c.Bin.Each(func(offset int64, r telemetry.Reading) {
			e.bins.Updates.Observe(&d.Device, catalogupdates.Shown{Reading: &r, Offset: offset})
		}); err != nil {
			e.bins.Lose(fmt.Errorf("read a bin of %s: %w", d.ID, err))
		}
	}
	e.bins.CountDevice(d)
	e.bins.ForgetUnused(d)
}
