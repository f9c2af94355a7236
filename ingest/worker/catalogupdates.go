package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

const (
	maxUpdates = 8 // under way
	// updateBatch is how many devices one Note tells of at most: some pages of the catalog.
	updateBatch = 4096
)

// MaxJobs bounds the jobs of one Worker that are under way: writes, notes, burials of chunks, of what was refused when
// it came and of what had waited, a census, a stamp, an append.
func (c Config) MaxJobs() int { return c.MaxWrites + maxUpdates + maxPublications + 2 + 3 }

func newHolding() minHeap[*device] {
	return newMinHeap(func(d *device) *int32 { return &d.holdingPlace }, func(a, b *device) bool {
		x, _ := a.holdsBack()
		y, _ := b.holdsBack()
		return x < y
	})
}

func newLookups() minHeap[*device] {
	place := func(d *device) *int32 { return &d.lookupPlace }
	return newMinHeap(place, func(a, b *device) bool { return a.lookupAt.Before(b.lookupAt) })
}

// fileHolding puts a device among those that hold back the committed offset, or takes it out.
func (w *Worker) fileHolding(d *device) {
	if _, ok := d.holdsBack(); ok {
		w.holding.put(d)
	} else {
		w.holding.remove(d)
	}
}

// observe takes note of what a reading shows of its device.
func (w *Worker) observe(d *device, offset int64, r *telemetry.Reading, repeats bool) {
	if d.observe(offset, r, repeats, &w.columns) {
		d.tenant.updatePending(d)
		w.countDevice(d)
		w.fileHolding(d)
		w.queueUpdate(d)
	}
	if w.cfg.CatalogEvery >= 0 && d.timesPending() && (d.lookupPlace == 0 || w.timesOff(d)) {
		w.queueUpdate(d)
	}
}

// observeStored takes note of rows that turned out to be stored already, from an offset on: whoever stored them may have
// died before the catalog had their times.
func (w *Worker) observeStored(d *device, offset int64) {
	if w.cfg.CatalogEvery >= 0 || !d.timesPending() {
		return
	}
	d.require(offset)
	w.fileHolding(d)
	w.queueUpdate(d)
}

// observeTail takes note of the times of a chunk that the store told of.
func (w *Worker) observeTail(c *chain, tail *store.Tail) {
	if d := c.device; tail != nil && !d.seen.empty() {
		w.mu.Lock()
		d.seen.span(tail.From)
		d.seen.span(tail.To)
		w.mu.Unlock()
		if d.timesPending() {
			w.queueUpdate(d)
		}
	}
}

// queueUpdate puts a device among those that may have something for the catalog.
func (w *Worker) queueUpdate(d *device) {
	if !d.queued {
		d.queued = true
		w.pending.push(d)
	}
}

// catalogUpdates brings the catalog up to date: soon with what was never seen, now and then with times. What is told together
// takes few documents, so that after some news the next ones wait for others.
func (w *Worker) catalogUpdates(jobs []Job, now time.Time) []Job {
	for w.lookups.len() > 0 && !w.lookups.first().lookupAt.After(now) {
		d := w.lookups.first()
		w.lookups.remove(d)
		if d.timesPending() {
			w.queueUpdate(d)
		}
	}
	for w.acked.len() > 0 && w.acked.front().visibleAt < now.UnixMilli() {
		w.becameVisible(w.acked.pop())
	}
	at := w.pending.len()
	hurry := w.drain || w.journal.flush || at >= updateBatch
	if at == 0 || !w.updateRetry.open(now) || !hurry && now.Sub(w.updatedAt) < w.cfg.CatalogWait {
		return jobs
	}
	open := make(map[*tenant]*CatalogUpdate)
	for ; at > 0 && w.updating < maxUpdates; at-- {
		d := w.pending.pop()
		d.queued = false
		if d.updating || !w.updateDue(d, now) { // it comes back when the note under way is done, or it is time
			continue
		}
		j := open[d.tenant]
		if j == nil {
			j = &CatalogUpdate{Tenant: d.tenant.name}
			open[d.tenant] = j
			w.updating++
			jobs = append(jobs, j)
		}
		w.addUpdate(j, d, now)
		if len(j.devices) == updateBatch {
			delete(open, d.tenant)
		}
	}
	if at == 0 && (len(open) > 0 || w.updating > 0) { // what is left over goes on as soon as others have ended
		w.updatedAt = now
	}
	return jobs
}

// updateDue reports whether a device has something for the catalog now: what is new at once, a later time when it is due.
func (w *Worker) updateDue(d *device, now time.Time) bool {
	return d.pending || d.timesPending() && (!d.listed || w.timesOff(d) || w.timesDue(d, now))
}

// timesOff reports whether the times that the catalog has of a device do not wait for their turn: lists of a range count
// on its first time, and on a last one that is no further behind than a device gets that reports as time goes by.
func (w *Worker) timesOff(d *device) bool {
	return d.listed && (d.seen.first < d.first || w.lastOff(d))
}

func (w *Worker) lastOff(d *device) bool {
	return d.seen.last-d.last >= w.cfg.CatalogEvery.Milliseconds()
}

// timesDue reports whether a later time alone is worth a write.
func (w *Worker) timesDue(d *device, now time.Time) bool {
	return w.cfg.CatalogEvery < 0 || w.drain || len(d.chains) == 0 || d.listed && (!now.Before(d.lookupAt) || w.lastOff(d))
}

// addUpdate puts a device into a Note, and clears the news that it carries.
func (w *Worker) addUpdate(j *CatalogUpdate, d *device, now time.Time) {
	d.updating, d.updatingFrom = true, d.pendingFrom
	if !d.pending {
		d.updatingFrom = noOffset
	}
	d.pending, d.pendingFrom = false, 0
	w.fileHolding(d)
	times := w.timesDue(d, now)
	if w.cfg.CatalogEvery >= 0 && (times || !d.listed) {
		every := w.cfg.CatalogEvery
		if !d.listed {
			every = binning.FirstHold(d.id, every) // a fleet that came over together is not written together
		}
		w.scheduleLookup(d, now, every)
	}
	j.devices, j.Times = append(j.devices, d), append(j.Times, times)
	j.Entries = append(j.Entries, d.seen.entry(d.id, d.tenant.units))
}

// lookupsPerPeriod is how many times in CatalogEvery devices' times are compared with the catalog's.
const lookupsPerPeriod = 14

// scheduleLookup has the times of a device compared with the catalog's after so long or a little sooner, together with those
// of others: what is told of one device alone takes a page, and a look at the pages that there are.
func (w *Worker) scheduleLookup(d *device, now time.Time, after time.Duration) {
	d.lookupAt = now.Add(after)
	if group := w.cfg.CatalogEvery / lookupsPerPeriod; group > 0 {
		d.lookupAt = d.lookupAt.Truncate(group)
		if !d.lookupAt.After(now) { // whoever takes over many devices tells none of them at once
			d.lookupAt = d.lookupAt.Add(group)
		}
	}
	w.lookups.put(d)
}

// becameVisible has heads tell no more of a device that every reader sees in the catalog, unless there is news of it again.
func (w *Worker) becameVisible(d *device) {
	if d.visibleAt > 0 {
		w.mu.Lock()
		d.tenant.updateVisible(d)
		w.mu.Unlock()
	}
}

// updated takes a Note back.
func (w *Worker) updated(j *CatalogUpdate, now time.Time) {
	w.updating--
	r := j.Outcome()
	switch r.Fault {
	case None, Rejected: // what the catalog will never take holds nothing up: it is for listing only
		w.updateRetry = backoff{}
	default:
		w.updateRetry.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
		w.updatedAt = time.Time{} // nothing was told: it does not wait for more, too
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range j.devices {
		d.updating = false
		switch r.Fault {
		case None:
			d.listed, d.first, d.last = true, j.Visible[i].First, j.Visible[i].Last
		case Rejected:
			d.listed, d.first, d.last = true, d.seen.first, d.seen.last
		default:
			if d.updatingFrom != noOffset {
				d.require(d.updatingFrom)
			}
			if d.lookupAt = now; j.Times[i] && w.cfg.CatalogEvery >= 0 {
				w.lookups.put(d)
			}
			w.queueUpdate(d)
		}
		w.fileHolding(d)
		if d.pending || w.drain && d.timesPending() || w.cfg.CatalogEvery >= 0 && w.timesOff(d) {
			w.queueUpdate(d)
		}
		if r.Fault == None && !d.pending {
			d.tenant.updateAcked(d, now.Add(w.cfg.Linger))
			w.acked.push(d)
		}
		w.forgetUnused(d)
	}
}

// requireTimes has the catalog follow with every chunk: the offset is committed only when it has.
func (w *Worker) requireTimes(c *chain, f *flight) {
	if d := c.device; d.timesPending() {
		d.require(f.rows.First())
		w.fileHolding(d)
		w.queueUpdate(d)
	}
}
