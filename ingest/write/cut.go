package write

import (
	"errors"
	"time"

	"binnacle/binning/chunk"
	"binnacle/ingest/bins"
	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// Ask asks to cut a chain as soon as it can be.
func (w *Writer) Ask(c *bins.Chain, why bins.Reason, now time.Time) {
	if c.Ask(why) {
		w.enqueue(c, now)
	}
	w.bins.File(c)
}

// Cuts starts what is ready, as far as writes may be in flight.
func (w *Writer) Cuts(jobs []Job, now time.Time, snapshot *control.Snapshot) []Job {
	if w.Stamps.Unmarked {
		return jobs // not before the Stamp
	}
	w.unblock(snapshot, now)
	for c := w.Queue.pop(now); c != nil; c = w.Queue.pop(now) {
		if c.Phase != bins.Asked && !c.Resumes() {
			continue // it does not want to any more, and may even be forgotten
		}
		if job := w.start(c, now, snapshot); job != nil {
			w.Queue.began(c)
			jobs = append(jobs, job)
		}
		w.bins.File(c)
	}
	return jobs
}

// unblock queues chains again that waited for dead letters, acknowledged now, or for their tenant, which a newer
// snapshot may have.
func (w *Writer) unblock(snapshot *control.Snapshot, now time.Time) {
	at, some := w.Publisher.Refused.First()
	for w.Awaiting.deadLetters.Len() > 0 && !(some && at <= w.Awaiting.deadLetters.Front().Seal) {
		if c := w.Awaiting.deadLetters.Pop(); c.Phase == bins.Sealed {
			c.Release()
			w.enqueue(c, now)
			w.bins.File(c)
		}
	}
	if snapshot.ReadAt.After(w.Awaiting.snapshot) {
		for w.Awaiting.Tenant.Len() > 0 {
			if c := w.Awaiting.Tenant.Pop(); c.Phase == bins.Asked { // else its rows are gone
				w.enqueue(c, now)
			}
		}
	}
}

// start begins the next step of a chain that was asked to be cut, or has stalled; nil if it has to wait, or has room
// for more.
func (w *Writer) start(c *bins.Chain, now time.Time, snapshot *control.Snapshot) Job {
	if c.Resumes() {
		if job := w.resumed(c); job != nil || c.Phase != bins.Asked {
			return job
		}
	}
	tenant, ok := snapshot.Tenant(c.Device.Tenant.Name)
	if !ok {
		// It was there when the reading was taken, and comes back with the next snapshot.
		w.Awaiting.snapshot = snapshot.ReadAt
		w.Awaiting.Tenant.Push(c)
		return nil
	}
	orders := snapshot.Erasures(tenant.Name)
	if through := w.Horizon.Through(orders, c.Device.ID, c.Day); through >= c.Bin.First() {
		w.bins.Lock() // a create that met another chunk has given back rows that are erased
		w.bins.EraseRows(c, through)
		w.bins.Unlock()
		if c.Phase != bins.Asked {
			return nil
		}
	}
	if orders.Pending(c.Device.ID, c.Day) || !w.isFresh(c, now) {
		w.Awaiting.snapshot = snapshot.ReadAt
		w.Awaiting.Tenant.Push(c)
		return nil
	}
	if !c.KnownIn(w.bins.Generation) {
		c.Look()
		chain := store.Chain{Day: c.Day, Stream: w.Cfg.Stream, Partition: w.Cfg.Partition}
		return &Lookup{Keys: tenant.Placement.Keys(c.Device.ID, c.Day), Chain: chain, chain: c}
	}
	if w.Publisher.awaitsDeferred(c) {
		c.SealUpto(c.Bin.Through(), now)
		w.Awaiting.deferred.Push(c)
		return nil
	}
	if at, ok := w.Publisher.Refused.First(); ok && at <= c.Bin.Through() {
		c.SealUpto(w.bins.Log.Position-1, now)
		if at <= c.Seal {
			w.Awaiting.deadLetters.Push(c)
			return nil
		}
		c.Release()
	} else {
		c.Seal = bins.Unsealed
	}
	if last := c.Fresh - 1; w.Horizon.isNew(c) && (c.Seal == bins.Unsealed || c.Seal > last) {
		c.Seal = last
	}
	return w.cut(c, tenant, now)
}

// cut encodes the bin, or as much of it as fills a document, and takes it out of the bin; nil if there is room for
// more.
func (w *Writer) cut(c *bins.Chain, tenant tenant.Tenant, now time.Time) Job {
	id := chunk.ID{Day: c.Day, Stream: w.Cfg.Stream, Partition: w.Cfg.Partition, Number: c.Number}
	key := tenant.Placement.Key(c.Device.ID, c.Day, c.Number)
	header := chunk.Header{
		ID: id, TenantShard: key.TenantShard, Device: key.Device, After: c.Tail, Cut: now.UnixMilli(),
		TTL: tenant.TTLOf(c.Device.ID, c.Day, now.UnixMilli()),
	}
	rows, rest, doc, err := w.bins.Fit(c, header)
	switch {
	case errors.Is(err, bins.ErrUnstorable):
		w.bins.Lock()
		c.Abandon(rows, rest)
		w.bins.Unlock()
		w.RejectFlight(c, err.Error(), now)
		return nil
	case err != nil:
		w.bins.Lose(err)
		return nil
	}
	why := c.Want
	if why == bins.CutSize && now.Before(c.Due.Time()) && !bins.Crowded(c) && rest.Readings() == 0 &&
		float64(len(doc)) < trialShare*float64(c.Device.Sizer.Target(rows.Width())) {
		c.Reopen(c.Bin.Values() + c.Bin.Values()/16) // the estimate was too high
		return nil
	}
	w.bins.Lock()
	c.Cut(&bins.Flight{Rows: rows, Id: id, Key: key, Doc: doc, Reason: why}, rest)
	w.bins.Unlock()
	w.goOn(c, why, now)
	return &Create{Key: key, ID: id.String(), Doc: doc, chain: c}
}

// goOn decides whether what a cut has left in the bin is cut too.
func (w *Writer) goOn(c *bins.Chain, why bins.Reason, now time.Time) {
	if c.Bin.Readings() == 0 {
		return
	}
	if c.Seal != bins.Unsealed && c.Bin.First() > c.Seal {
		// All rows that had to be cut are out: the rest is another bin, no older than the choice of those rows.
		c.Seal, c.Due = bins.Unsealed, bins.NanosOf(time.UnixMilli(c.ChosenAt).Add(w.Cfg.Hold))
		if why != bins.CutDrain {
			why = bins.CutSize
		}
	}
	if why != bins.CutSize || c.Device.Sizer.Full(c.Bin.Values(), c.Bin.Width()) || !now.Before(c.Due.Time()) {
		c.Ask(why)
	}
}

// trialShare is the share of the target below which a bin that was thought full stays open.
const trialShare = 0.9

// horizon keeps rules E-R3 and E-R5: which rows may be cut under the snapshot at hand.
type horizon struct {
	at erasure.Partition
	// Rows below offset were fetched before the read of the snapshot began. It counts where bounded is set.
	Bounded bool
	Offset  int64
}

// isNew reports whether the chain has rows that were fetched after the read of the snapshot began.
func (h *horizon) isNew(c *bins.Chain) bool { return h.Bounded && c.Bin.Through() >= h.Offset }

// Through returns the last offset that orders erase of a chain, -1 for none (rule E-R2).
func (h *horizon) Through(orders erasure.List, device string, day telemetry.Day) int64 {
	return orders.Through(device, day, h.at)
}

// isFresh reports whether the snapshot is newer than the rows to cut (rule E-R3). If not, the rows that there are now
// wait for a newer snapshot: later rows must not put the cut off without end.
func (w *Writer) isFresh(c *bins.Chain, now time.Time) bool {
	if !w.Horizon.isNew(c) {
		return true
	}
	if c.Fresh <= c.Bin.First() {
		c.Fresh = w.bins.Log.Position
		if c.Seal == bins.Unsealed {
			c.ChosenAt = now.UnixMilli()
		}
	}
	return c.Fresh <= w.Horizon.Offset
}
