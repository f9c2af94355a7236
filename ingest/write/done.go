package write

import (
	"binnacle/ingest/bins"
	"binnacle/internal/store"
	"time"
)

// LookedUp takes the tail of a chain: rows at or below it are stored already (rules W3, W4).
func (w *Writer) LookedUp(j *Lookup, now time.Time) {
	w.Queue.ended(j.chain)
	if r := j.Outcome(); r.Fault != bins.None {
		w.failed(j.chain, r, now)
		return
	}
	w.succeeded(j.chain, now)
	w.observer.LookedUp()
	var tail *store.Tail
	if j.Found {
		tail = &j.Tail
		w.bins.Log.Suspect = max(w.bins.Log.Suspect, tail.Through)
	}
	w.tailRead(j.chain, tail, j.chain.First)
	w.bins.Lock()
	before := j.chain.State()
	err := j.chain.Found(tail, now.Add(w.Cfg.Linger), w.bins.Names.Schemas)
	w.bins.Stored.Read(j.chain, before)
	w.bins.Unlock()
	w.bins.Lose(err)
	j.chain.Generation = w.bins.Generation
	w.requeue(j.chain, now)
}

// Created takes the answer of a create: stored, number taken by another writer's chunk, or failed (rule W6).
func (w *Writer) Created(j *Create, now time.Time) {
	c, f, until := j.chain, j.chain.Flight, now.Add(w.Cfg.Linger)
	w.Queue.ended(c)
	switch r := j.Outcome(); r.Fault {
	case bins.None:
	case bins.Rejected:
		w.RejectFlight(c, "the store rejects the chunk that holds it", now)
		return
	default:
		w.failed(c, r, now)
		return
	}
	w.succeeded(c, now)
	if j.Existing != nil {
		w.observer.Conflict()
		w.tailRead(c, j.Existing, c.First)
		w.bins.Lock()
		err := c.Conflict(*j.Existing, w.bins.Log.StoredBelow,
			bins.Lingers{Now: now, Until: until, Schemas: w.bins.Names.Schemas})
		w.bins.Stored.Unexplained()
		c.Stored = w.bins.Stored.Count
		w.bins.Unlock()
		w.bins.Lose(err)
		w.bins.Log.Suspect = max(w.bins.Log.Suspect, j.Existing.Through)
		c.Generation = w.bins.Generation
		w.requeue(c, now)
		return
	}
	w.observer.Stored(f.Reason, len(f.Doc), f.Rows.Values())
	w.bins.Journaled.Times.Stored(c,
		bins.StoredRows{First: f.Rows.First(), Through: f.Rows.Through(), Times: bins.TimesOfRows(&f.Rows)})
	w.bins.Lock()
	c.Created(now, until)
	w.bins.Stored.Created(c)
	w.bins.Unlock()
	w.bins.Updates.ObserveStored(&c.Device.Device, f.Rows.First())
	w.requeue(c, now)
}

// tailRead records the times of a tail that was read from the store, and that rows from first up to it are stored. A
// tail that orders erase says nothing, whether it is swept or not.
func (w *Writer) tailRead(c *bins.Chain, tail *store.Tail, first int64) {
	orders := w.Queue.Snapshot.Erasures(c.Device.Tenant.Name)
	if tail == nil || tail.Erased || tail.Through <= w.Horizon.Through(orders, c.Device.ID, c.Day) {
		return
	}
	w.bins.Lock()
	w.bins.Updates.ObserveTimes(&c.Device.Device, tail.From, tail.To)
	w.bins.Unlock()
	w.bins.Journaled.Times.Stored(c,
		bins.StoredRows{First: first, Through: tail.Through, Times: bins.Span{From: tail.From, To: tail.To}})
	if first <= tail.Through {
		w.bins.Updates.ObserveStored(&c.Device.Device, first)
	}
}

// requeue queues a chain again if it is still to be cut.
func (w *Writer) requeue(c *bins.Chain, now time.Time) {
	if w.Drain {
		c.Ask(bins.CutDrain)
	}
	if c.Phase == bins.Asked {
		w.enqueue(c, now)
	}
	w.bins.File(c)
}
