package worker

import (
	"binnacle/ingest/bins"
	"binnacle/ingest/write"
	"binnacle/internal/control"
	"fmt"
	"time"
)

// Jobs decides which chains are cut and returns the jobs to run outside. The caller calls it after records were fed,
// after a job was done, and when the time of Next has come.
func (w *Worker) Jobs(now time.Time, snapshot *control.Snapshot) []write.Job {
	w.writer.Queue.Snapshot = snapshot
	w.erasing.apply(snapshot)
	w.wake(now)
	w.pressure.relieve(now)
	ticked := now.Sub(w.ticked) >= w.cfg.CommitEvery
	if ticked {
		w.ticked = now
		w.catchUp(now)
		w.pressure.forgetIdle(now)
		w.bins.Names.Renew(w.Held(), now, w.cfg.Hold+w.cfg.Linger)
	}
	var jobs []write.Job
	w.bins.Updates.Damaged = snapshot.Damaged
	for _, u := range w.bins.NextUpdates(now, w.writer.Drain || w.appends.Flushing) {
		jobs = append(jobs, &write.CatalogUpdate{Update: u, Snapshot: snapshot})
	}
	if ticked {
		if l := w.admission.Limits.NextLookup(now, snapshot); l != nil {
			jobs = append(jobs, &write.LabelLookup{LabelLookup: l})
		}
	}
	for _, tenant := range w.admission.Limits.NextRegistrations(w.cfg.Topic, now, snapshot) {
		jobs = append(jobs, &write.Register{Tenant: tenant})
	}
	jobs = w.writer.Cuts(jobs, now, snapshot)
	jobs = w.writer.Publications(jobs, now) // also of rows for which there was no cut
	if w.loading != nil {
		w.settle()
		return jobs
	}
	if a := w.appends.Next(now, ticked); a != nil {
		jobs = append(jobs, a)
	}
	w.settle()
	return jobs
}

// wake asks to cut the bins that are due, and drops rows that have lingered.
func (w *Worker) wake(now time.Time) {
	for c := w.bins.Index.Awake(now); c != nil; c = w.bins.Index.Awake(now) {
		if len(c.Linger) > 0 && c.Linger[0].Until <= bins.NanosOf(now) {
			w.bins.LetGo(c, now)
			continue
		}
		if c.Phase == bins.Stalled && !c.Stall.Ready {
			c.Stall.Ready = true
			w.writer.Queue.Push(c)
			w.bins.File(c)
			continue
		}
		w.writer.Ask(c, bins.CutHold, now)
	}
}

// CutBelow asks to cut the bins that hold back an offset below the one given: the log is about to lose it (rule W7).
func (w *Worker) CutBelow(below int64, now time.Time) {
	for _, c := range w.bins.Index.Below(below) {
		w.writer.Ask(c, bins.CutBehind, now)
	}
	w.admission.Limits.Hurry(below)
}

// catchUp cuts the bins that hold back the committed offset by more records than allowed (rule W7).
func (w *Worker) catchUp(now time.Time) {
	for w.bins.Index.Lagging.Len() > 0 {
		c := w.bins.Index.Lagging.First()
		if w.bins.Log.Position-c.First <= c.Budget {
			return
		}
		w.writer.Ask(c, bins.CutBehind, now)
	}
}

// Next returns when Jobs should be called again if nothing happens before.
func (w *Worker) Next(now time.Time) time.Time {
	next := now.Add(w.cfg.CommitEvery)
	if at, ok := w.bins.Index.Next(); ok && at.Before(next) {
		next = at
	}
	if at, ok := w.writer.Queue.Next(now); ok && at.Before(next) {
		next = at
	}
	return next
}

// Drain asks for a cut of every chain, the fullest first; bins that are opened later are not cut for it.
func (w *Worker) Drain(now time.Time) {
	w.writer.Drain = true
	w.bins.Updates.Drain()
	for c := w.bins.Index.Size.Largest(); c != nil; c = w.bins.Index.Size.Largest() {
		w.writer.Ask(c, bins.CutDrain, now)
	}
	for _, t := range w.bins.Tenants {
		for _, d := range t.Devices {
			if d != nil && d.Lacks() {
				w.bins.Updates.Queue(&d.Device)
			}
		}
	}
}

// Busy reports whether something is still to be written.
func (w *Worker) Busy() bool {
	return w.bins.Index.Open() > 0 || w.writer.Publisher.Pending() > 0 || w.writer.Queue.Busy > 0 ||
		w.bins.Updates.Busy()
}

// Done takes a job back: done, or not.
func (w *Worker) Done(job write.Job, now time.Time) {
	switch j := job.(type) {
	case *write.Lookup:
		w.writer.LookedUp(j, now)
	case *write.Create:
		w.writer.Created(j, now)
	case *write.Publish:
		w.writer.Published(j, now)
	case *write.CatalogUpdate:
		w.updated(j, now)
	case *write.LabelLookup:
		if r := j.Outcome(); r.Fault != bins.None {
			w.admission.Limits.LookupFailed(j.LabelLookup, r.After, now)
		} else {
			w.admission.Limits.LookedUp(j.LabelLookup)
		}
	case *write.Register:
		if r := j.Outcome(); r.Fault != bins.None {
			w.admission.Limits.RegistrationFailed(j.Tenant, r.After, now)
		} else {
			w.admission.Limits.Registered(j.Tenant)
		}
	case *write.Stamp:
		w.writer.Stamps.Done(j, now)
	case *write.Append:
		w.appends.Done(j, now)
	default:
		panic(fmt.Sprintf("worker: job %T is none of a Worker's", job))
	}
	w.settle()
}

func (w *Worker) updated(j *write.CatalogUpdate, now time.Time) {
	w.bins.Lock()
	defer w.bins.Unlock()
	switch r := j.Outcome(); r.Fault {
	case bins.Rejected:
		j.Visible = nil
		fallthrough
	case bins.None:
		w.bins.Updates.Done(j.Update, now)
	default:
		w.bins.Updates.Failed(j.Update, r.After, now)
	}
	t := w.bins.Tenants[j.Tenant]
	for i := range j.Entries {
		d := t.ByID[j.Entries[i].Device]
		w.bins.Journaled.Times.Settled(d)
		w.bins.ForgetUnused(d)
	}
}

// Committed says up to where the log is committed, and returns a Stamp when one is due (rule W9).
func (w *Worker) Committed(offset int64, now time.Time) *write.Stamp {
	return w.writer.Stamps.Committed(offset, now)
}
