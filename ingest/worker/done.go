package worker

import (
	"fmt"
	"time"

	"binnacle/internal/store"
)

// Done takes a job back: done, or not.
func (w *Worker) Done(job Job, now time.Time) {
	switch j := job.(type) {
	case *Lookup:
		w.lookedUp(j, now)
	case *Create:
		w.created(j, now)
	case *Publish:
		w.published(j, now)
	case *CatalogUpdate:
		w.updated(j, now)
	case *LabelLookup:
		if r := j.Outcome(); r.Fault != None {
			w.admission.Limits.LookupFailed(j.LabelLookup, r.After, now)
		} else {
			w.admission.Limits.LookedUp(j.LabelLookup)
		}
	case *Register:
		if r := j.Outcome(); r.Fault != None {
			w.admission.Limits.RegistrationFailed(j.Tenant, r.After, now)
		} else {
			w.admission.Limits.Registered(j.Tenant)
		}
	case *Stamp:
		w.stamps.done(j, now)
	case *Append:
		w.appended(j, now)
	default:
		panic(fmt.Sprintf("worker: job %T is none of a Worker's", job))
	}
	w.countMemory()
}

// lookedUp takes the tail of a chain: rows at or below it are stored already (rules W3, W4).
func (w *Worker) lookedUp(j *Lookup, now time.Time) {
	w.queue.ended(j.chain)
	if r := j.Outcome(); r.Fault != None {
		w.failed(j.chain, r, now)
		return
	}
	w.succeeded(j.chain, now)
	w.observer.LookedUp()
	var tail *store.Tail
	if j.Found {
		tail = &j.Tail
		w.log.suspect = max(w.log.suspect, tail.Through)
	}
	w.tailRead(j.chain, tail, j.chain.first)
	w.mu.Lock()
	before := j.chain.state()
	err := j.chain.found(tail, now.Add(w.cfg.Linger), w.names.schemas)
	w.stored.read(j.chain, before)
	w.mu.Unlock()
	w.lose(err)
	j.chain.generation = w.generation
	w.requeue(j.chain, now)
}

// created takes the answer of a create: stored, somebody else's chunk has that number, or not (rule W6).
func (w *Worker) created(j *Create, now time.Time) {
	c, f, until := j.chain, j.chain.flight, now.Add(w.cfg.Linger)
	w.queue.ended(c)
	switch r := j.Outcome(); r.Fault {
	case None:
	case Rejected:
		w.rejectFlight(c, "the store rejects the chunk that holds it", now)
		return
	default:
		w.failed(c, r, now)
		return
	}
	w.succeeded(c, now)
	if j.Existing != nil {
		w.observer.Conflict()
		w.tailRead(c, j.Existing, c.first)
		w.mu.Lock()
		err := c.conflict(*j.Existing, w.log.storedBelow, lingers{now, until, w.names.schemas})
		w.stored.unexplained()
		c.stored = w.stored.count
		w.mu.Unlock()
		w.lose(err)
		w.log.suspect = max(w.log.suspect, j.Existing.Through)
		c.generation = w.generation
		w.requeue(c, now)
		return
	}
	w.observer.Stored(f.reason, len(f.doc), f.rows.Values())
	w.journal.times.stored(c, storedRows{f.rows.First(), f.rows.Through(), timesOfRows(&f.rows)})
	w.mu.Lock()
	c.created(now, until)
	w.stored.created(c)
	w.mu.Unlock()
	w.updates.ObserveStored(&c.device.Device, f.rows.First())
	w.requeue(c, now)
}

// tailRead records the times of a tail that was read from the store, and that rows from first up to it are stored.
func (w *Worker) tailRead(c *chain, tail *store.Tail, first int64) {
	if tail == nil || tail.Erased {
		return
	}
	w.updates.ObserveTimes(&c.device.Device, tail.From, tail.To)
	w.journal.times.stored(c, storedRows{first, tail.Through, span{tail.From, tail.To}})
	if first <= tail.Through {
		w.updates.ObserveStored(&c.device.Device, first)
	}
}

// requeue queues a chain again if it is still to be cut.
func (w *Worker) requeue(c *chain, now time.Time) {
	if w.drain {
		c.ask(CutDrain)
	}
	if c.phase == asked {
		w.enqueue(c, now)
	}
	w.file(c)
}

// Committed says up to where the log is committed, and returns a Stamp when one is due (rule W9).
func (w *Worker) Committed(offset int64, now time.Time) *Stamp {
	return w.stamps.committed(offset, now)
}

// updated takes a CatalogUpdate back.
func (w *Worker) updated(j *CatalogUpdate, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := j.Outcome(); r.Fault {
	case Rejected:
		j.Visible = nil
		fallthrough
	case None:
		w.updates.Done(j.Update, now)
	default:
		w.updates.Failed(j.Update, r.After, now)
	}
	t := w.registry.tenants[j.Tenant]
	for i := range j.Entries {
		d := t.byID[j.Entries[i].Device]
		w.journal.times.settled(d)
		w.forgetUnused(d)
	}
}
