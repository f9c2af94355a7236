package worker

import (
	"errors"
	"fmt"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/store"
)

// due is when a bin that gets its first reading now is cut at the latest.
func (w *Worker) due(c *chain, now time.Time) time.Time {
	if c.bin.Readings() > 0 {
		return c.due
	}
	if c.begun {
		return now.Add(w.cfg.Hold)
	}
	return now.Add(binning.FirstHold(c.device.id, w.cfg.Hold))
}

// budget is how many records such a bin may hold back the committed offset: as with the hold, the first one of a chain
// a part of them, or a fleet that begins a day together would be cut together.
func (w *Worker) budget(c *chain) int64 {
	if c.begun {
		return w.cfg.MaxBehind
	}
	return int64(binning.FirstHold(c.device.id, time.Duration(w.cfg.MaxBehind)))
}

// crowded reports whether a bin has so many readings, however small they are when encoded, that it must be cut: half
// of what a chunk takes.
func crowded(c *chain) bool {
	return c.bin.Readings() >= chunk.MaxRows/2 || c.bin.Values() >= chunk.MaxValues/2
}

// ask has a chain cut as soon as nothing stands in its way.
func (w *Worker) ask(c *chain, why Reason, now time.Time) {
	if c.ask(why) {
		w.enqueue(c, now)
	}
	w.index.file(c)
}

// Jobs decides what is to be cut and returns what is to be done outside. It is called after records were fed,
// after a job was done, and when the time of Next has come.
func (w *Worker) Jobs(now time.Time, view *control.View) []Job {
	w.wake(now)
	w.relieve(now)
	if now.Sub(w.ticked) >= w.cfg.CommitEvery {
		w.ticked = now
		w.catchUp(now)
		w.forgetIdle(now)
		w.renew(now)
	}
	jobs := w.notes(nil, now)
	jobs = w.burials(jobs, now)
	jobs = w.cuts(jobs, now, view)
	w.settle()
	return jobs
}

// wake has chains cut whose bins are due, and lets go of rows that have lingered.
func (w *Worker) wake(now time.Time) {
	for c := w.index.awake(now); c != nil; c = w.index.awake(now) {
		if len(c.linger) > 0 && !c.linger[0].until.After(now) {
			w.mu.Lock()
			c.letGo(now)
			w.mu.Unlock()
			w.index.file(c)
			continue
		}
		if c.phase == stalled && !c.stall.ready {
			w.wakeStalled(c)
			continue
		}
		w.ask(c, CutHold, now)
	}
}

// catchUp cuts the bins that hold back the committed offset by more records than allowed (rule W7).
func (w *Worker) catchUp(now time.Time) {
	for w.index.lagging.len() > 0 {
		c := w.index.lagging.first()
		if w.position-c.first <= c.budget {
			return
		}
		w.ask(c, CutBehind, now)
	}
}

// cuts starts what is ready, as far as writes may be in flight.
func (w *Worker) cuts(jobs []Job, now time.Time, view *control.View) []Job {
	if w.unmarked {
		return jobs // not before the Stamp
	}
	w.unblock(view, now)
	for c := w.queue.pop(now); c != nil; c = w.queue.pop(now) {
		if c.phase != asked && !c.resumes() {
			continue // it does not want to any more, and may even be forgotten
		}
		if job := w.start(c, now, view); job != nil {
			w.queue.began(c)
			jobs = append(jobs, job)
		}
		w.index.file(c)
	}
	return jobs
}

// unblock makes those ready who waited for dead letters that are acknowledged now, or for a tenant and the map was
// read again.
func (w *Worker) unblock(view *control.View, now time.Time) {
	at, some := w.letters.first()
	for w.waiting.len() > 0 && !(some && at <= w.waiting.front().seal) {
		if c := w.waiting.pop(); c.phase == sealed {
			c.release()
			w.enqueue(c, now)
			w.index.file(c)
		}
	}
	if view.ReadAt.After(w.placedBy) {
		for w.homeless.len() > 0 {
			w.enqueue(w.homeless.pop(), now)
		}
	}
}

// start begins the next step of a chain that was asked to be cut, or has stalled; nil if it has to wait, or has room
// for more.
func (w *Worker) start(c *chain, now time.Time, view *control.View) Job {
	if c.resumes() {
		if job := w.resumed(c); job != nil {
			return job
		}
	}
	tenant, ok := view.Tenant(c.device.tenant.name)
	if !ok {
		// It was there when the reading was taken, and comes back with the next reading of the map.
		w.placedBy = view.ReadAt
		w.homeless.push(c)
		return nil
	}
	if !w.knows(c) {
		c.look()
		chain := store.Chain{Day: c.day, Stream: w.stream, Partition: w.partition}
		return &Lookup{Keys: tenant.Placement.Keys(c.device.id, c.day), Chain: chain, chain: c}
	}
	if at, ok := w.letters.first(); ok && at <= c.bin.Through() {
		c.sealUpto(w.position-1, now)
		if at <= c.seal {
			w.waiting.push(c)
			return nil
		}
		c.release()
	} else {
		c.seal = unsealed
	}
	return w.cut(c, tenant, now)
}

// cut encodes the bin, or as much of it as fills a document, and takes it out of the bin; nil if there is room for
// more.
func (w *Worker) cut(c *chain, tenant control.Tenant, now time.Time) Job {
	id := chunk.ID{Day: c.day, Stream: w.stream, Partition: w.partition, Number: c.number}
	key := tenant.Placement.Key(c.device.id, c.day, c.number)
	header := chunk.Header{
		ID: id, TenantShard: key.TenantShard, Device: key.Device, After: c.tail, Cut: now.UnixMilli(),
		TTL: tenant.TTL(c.day, now.UnixMilli()),
	}
	rows, rest, doc := fit(c, header)
	why := c.want
	if why == CutSize && now.Before(c.due) && !crowded(c) && rest.Readings() == 0 &&
		float64(len(doc)) < trialShare*float64(c.device.sizer.Target(rows.Width())) {
		c.spare(c.bin.Values() + c.bin.Values()/16) // the estimate was too high
		return nil
	}
	w.mu.Lock()
	c.cut(&flight{rows: rows, id: id, key: key, doc: doc, reason: why}, rest)
	w.mu.Unlock()
	w.goOn(c, why, now)
	return &Create{Key: key, ID: id.String(), Doc: doc, chain: c}
}

// goOn decides what becomes of what a cut has left in the bin.
func (w *Worker) goOn(c *chain, why Reason, now time.Time) {
	if c.bin.Readings() == 0 {
		return
	}
	if c.seal != unsealed && c.bin.First() > c.seal {
		// All that was to be cut is out: the rest is a bin of its own, as old as the seal.
		c.seal, c.due = unsealed, c.sealAt.Add(w.cfg.Hold)
		if why != CutDrain {
			why = CutSize
		}
	}
	if why != CutSize || c.device.sizer.Full(c.bin.Values(), c.bin.Width()) || !now.Before(c.due) {
		c.ask(why)
	}
}

// trialShare is the share of the target below which a bin that was thought full goes on.
const trialShare = 0.9

// fit finds how much of the bin makes a document near the target, never more than the maximum unless one record alone
// is larger, and encodes it. It panics when one record can't be encoded: such a record was refused when it was fed.
func fit(c *chain, h chunk.Header) (rows, rest binning.Rows, doc []byte) {
	sizer := &c.device.sizer
	take := sizer.ReadingsFor(c.bin.Readings(), c.bin.Values(), c.bin.Width())
	if c.seal != unsealed {
		take = min(take, c.bin.Upto(c.seal))
	}
	for {
		rows, rest = c.bin, binning.Rows{}
		if take < c.bin.Readings() {
			rows, rest = c.bin.SplitAt(take)
		}
		h.First, h.Through, h.Readings = rows.First(), rows.Through(), rows.Readings()
		doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
		alone := rows.First() == rows.Through()
		switch {
		case errors.Is(err, chunk.ErrTooLarge) && !alone:
			take = rows.Readings() / 2
			continue
		case err != nil:
			panic(fmt.Sprintf("encode chunk %s of %s: %v", h.ID, h.Device, err))
		}
		width := rows.Width()
		learn(sizer, &rows, doc)
		if len(doc) <= sizer.Max(width) || alone {
			return rows, rest, doc
		}
		take = min(rows.Readings()-1, sizer.ReadingsFor(rows.Readings(), rows.Values(), width))
	}
}

// learn tells a device's sizer what a document takes.
func learn(sizer *binning.Sizer, rows *binning.Rows, doc []byte) {
	overhead, err := chunk.Overhead(doc)
	if err != nil {
		panic(fmt.Sprintf("what was encoded can't be read: %v", err))
	}
	sizer.Learn(rows.Values(), rows.Width(), len(doc), overhead)
}

// Next is when Jobs should be called again if nothing happens before.
func (w *Worker) Next(now time.Time) time.Time {
	next := now.Add(w.cfg.CommitEvery)
	if at, ok := w.index.next(); ok && at.Before(next) {
		next = at
	}
	if at, ok := w.queue.next(now); ok && at.Before(next) {
		next = at
	}
	return next
}

// Drain asks for everything to be cut, the fullest first, and cuts nothing later by itself.
func (w *Worker) Drain(now time.Time) {
	w.drain = true
	for c := w.index.fullest(); c != nil; c = w.index.fullest() {
		w.ask(c, CutDrain, now)
	}
	for _, t := range w.tenants {
		for _, d := range t.devices {
			if d != nil && (d.news || d.stretched()) {
				w.noteSoon(d)
			}
		}
	}
}

// Busy reports whether something is still to be written.
func (w *Worker) Busy() bool {
	return w.index.open() > 0 || w.letters.len() > 0 || w.queue.busy > 0 || w.noting > 0 || w.unnoted.len() > 0
}
