package worker

import (
	"sync"
	"time"

	"binnacle/binning"
	"binnacle/internal/store"
)

const (
	maxUpdates = 8 // under way
	// updateBatch is the most devices of one CatalogUpdate: some pages of the catalog.
	updateBatch = 4096
)

// MaxJobs returns the most jobs of one Worker that may be in flight: writes, catalog updates, publications of three
// kinds, a lookup of label values, a stamp, an append.
func (c Config) MaxJobs() int { return c.MaxWrites + maxUpdates + maxPublications + 2 + 3 }

// catalogUpdates brings the catalog up to date with what readings show of devices: names, labels and tags soon, times
// now and then. It holds back the floor while the catalog lacks a name (rule W7).
type catalogUpdates struct {
	cfg      *Config
	mu       *sync.Mutex // the Worker's
	registry *registry
	spreads  *spreads

	pending fifo[*device] // that may lack something in the catalog
	running int           // updates in flight
	at      time.Time     // when the last ones began
	retry   backoff
	drain   bool // times are written too, at once

	acked   fifo[*device]    // updated, and not every reader may see that yet
	holding minHeap[*device] // that hold back the floor, by the offset
	lookups minHeap[*device] // by when their times are compared with the catalog's again
}

// floor returns the lowest offset of a record with a name that the catalog lacks; ok is false for none.
func (u *catalogUpdates) floor() (offset int64, ok bool) {
	if u.holding.len() == 0 {
		return 0, false
	}
	return u.holding.first().holdsBack()
}

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

// fileHolding files a device among those that hold back the committed offset, or takes it out.
func (u *catalogUpdates) fileHolding(d *device) {
	if _, ok := d.holdsBack(); ok {
		u.holding.put(d)
	} else {
		u.holding.remove(d)
	}
}

// observe records what a reading shows of its device.
func (u *catalogUpdates) observe(d *device, x shown) {
	if d.observe(x, &u.registry.columns) {
		d.tenant.updatePending(d)
		u.registry.countDevice(d)
		u.fileHolding(d)
		u.queueUpdate(d)
	}
	if u.cfg.CatalogEvery >= 0 && d.timesPending() && (d.lookupPlace == 0 || u.timesOff(d)) {
		u.queueUpdate(d)
	}
}

// observeStored has the catalog follow, where it does so with every chunk, after rows were found to be stored already,
// from an offset on: the process that stored them may have died before it did.
func (u *catalogUpdates) observeStored(d *device, offset int64) {
	if u.cfg.CatalogEvery >= 0 || !d.timesPending() {
		return
	}
	d.require(offset)
	u.fileHolding(d)
	u.queueUpdate(d)
}

// observeTail records the times of a chunk that was read from the store.
func (u *catalogUpdates) observeTail(c *chain, tail *store.Tail) {
	if d := c.device; tail != nil {
		u.mu.Lock()
		d.seen.span(tail.From)
		d.seen.span(tail.To)
		u.mu.Unlock()
		if d.timesPending() {
			u.queueUpdate(d)
		}
	}
}

// urge has the catalog take times of a device now: the journal is down.
func (u *catalogUpdates) urge(d *device) {
	if d.owed != nil {
		d.owed.urgent = true
		u.queueUpdate(d)
	}
}

// queueUpdate queues a device that may lack something in the catalog.
func (u *catalogUpdates) queueUpdate(d *device) {
	if !d.queued {
		d.queued = true
		u.pending.push(d)
	}
}

// jobs appends updates of the catalog: names soon, times now and then. Devices in one update share pages, so after an
// update the next one waits for more devices, unless hurry is set.
func (u *catalogUpdates) jobs(jobs []Job, now time.Time, hurry bool) []Job {
	for u.lookups.len() > 0 && !u.lookups.first().lookupAt.After(now) {
		d := u.lookups.first()
		u.lookups.remove(d)
		if d.timesPending() {
			u.queueUpdate(d)
		}
	}
	for u.acked.len() > 0 && u.acked.front().visibleAt < now.UnixMilli() {
		u.becameVisible(u.acked.pop())
	}
	at := u.pending.len()
	hurry = hurry || at >= updateBatch
	if at == 0 || !u.retry.open(now) || !hurry && now.Sub(u.at) < u.cfg.CatalogWait {
		return jobs
	}
	open := make(map[*tenant]*CatalogUpdate)
	for ; at > 0 && u.running < maxUpdates; at-- {
		d := u.pending.pop()
		d.queued = false
		if d.updating || !u.updateDue(d, now) { // it is queued again when its update is done, or when it is time
			continue
		}
		j := open[d.tenant]
		if j == nil {
			j = &CatalogUpdate{Tenant: d.tenant.name}
			open[d.tenant] = j
			u.running++
			jobs = append(jobs, j)
		}
		u.addUpdate(j, d, now)
		if len(j.devices) == updateBatch {
			delete(open, d.tenant)
		}
	}
	if at == 0 && (len(open) > 0 || u.running > 0) { // what is left over goes on as soon as others have ended
		u.at = now
	}
	return jobs
}

// updateDue reports whether the catalog is to be updated with a device now: with a name at once, with a later time when
// that is due.
func (u *catalogUpdates) updateDue(d *device, now time.Time) bool {
	return d.pending || d.timesPending() && (!d.listed || u.timesOff(d) || u.timesDue(d, now))
}

// timesOff reports whether the catalog's times of a device are too far off to wait for their turn: lists of a range
// rely on the first time, and on a last one that is not more than CatalogEvery behind.
func (u *catalogUpdates) timesOff(d *device) bool {
	return d.listed && (d.seen.first < d.first || u.lastOff(d))
}

func (u *catalogUpdates) lastOff(d *device) bool {
	return d.seen.last-d.last >= u.cfg.CatalogEvery.Milliseconds()
}

// timesDue reports whether a later time alone is worth a write.
func (u *catalogUpdates) timesDue(d *device, now time.Time) bool {
	return u.cfg.CatalogEvery < 0 || u.drain || len(d.chains) == 0 || d.owed != nil && d.owed.urgent ||
		d.listed && (!now.Before(d.lookupAt) || u.lastOff(d))
}

// addUpdate adds a device to an update.
func (u *catalogUpdates) addUpdate(j *CatalogUpdate, d *device, now time.Time) {
	d.updating, d.updatingFrom = true, d.pendingFrom
	if !d.pending {
		d.updatingFrom = noOffset
	}
	d.pending, d.pendingFrom = false, 0
	u.fileHolding(d)
	times := u.timesDue(d, now)
	if u.cfg.CatalogEvery >= 0 && (times || !d.listed) {
		every := u.cfg.CatalogEvery
		if !d.listed {
			every = binning.FirstHold(d.id, every) // a fleet that came over together is not written together
		}
		u.scheduleLookup(d, now, every)
	}
	j.devices, j.Times = append(j.devices, d), append(j.Times, times)
	j.Entries = append(j.Entries, d.seen.entry(d.id, d.tenant.units))
}

// lookupsPerPeriod is how many times in CatalogEvery devices' times are compared with the catalog's.
const lookupsPerPeriod = 14

// scheduleLookup has the times of a device compared with the catalog's after about so long, together with those of
// others: an update of one device alone takes a page.
func (u *catalogUpdates) scheduleLookup(d *device, now time.Time, after time.Duration) {
	d.lookupAt = now.Add(after)
	if group := u.cfg.CatalogEvery / lookupsPerPeriod; group > 0 {
		d.lookupAt = d.lookupAt.Truncate(group)
		if !d.lookupAt.After(now) { // a takeover of many devices does not update all of them at once
			d.lookupAt = d.lookupAt.Add(group)
		}
	}
	u.lookups.put(d)
}

// becameVisible has heads leave a device out that every reader sees in the catalog, unless it has another update
// pending.
func (u *catalogUpdates) becameVisible(d *device) {
	if d.visibleAt > 0 {
		u.mu.Lock()
		d.tenant.updateVisible(d)
		u.mu.Unlock()
	}
}

// done takes an update back.
func (u *catalogUpdates) done(j *CatalogUpdate, now time.Time) {
	u.running--
	r := j.Outcome()
	switch r.Fault {
	case None, Rejected: // what the catalog will never take holds nothing up: it only serves lists
		u.retry = backoff{}
	default:
		u.retry.failed(now, u.cfg.retry(r.After, u.spreads))
		u.at = time.Time{} // nothing was written: the next attempt does not wait for more devices
	}
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
			if d.lookupAt = now; j.Times[i] && u.cfg.CatalogEvery >= 0 {
				u.lookups.put(d)
			}
			u.queueUpdate(d)
		}
		u.fileHolding(d)
		if d.pending || u.drain && d.timesPending() || u.cfg.CatalogEvery >= 0 && u.timesOff(d) {
			u.queueUpdate(d)
		}
		if r.Fault == None && !d.pending {
			d.tenant.updateAcked(d, now.Add(u.cfg.Linger))
			u.acked.push(d)
		}
	}
}

// requireTimes has the catalog follow with a chunk before its offsets are committed.
func (u *catalogUpdates) requireTimes(c *chain, f *flight) {
	if d := c.device; d.timesPending() {
		d.require(f.rows.First())
		u.fileHolding(d)
		u.queueUpdate(d)
	}
}
