package worker

import (
	"sync"
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

	acked   fifo[*device]    // whose update not every reader may see yet
	holding minHeap[*device] // that hold back the floor, by the offset
	lookups minHeap[*device] // by when their times are compared with the catalog's again
}

func newCatalogUpdates(cfg *Config, mu *sync.Mutex, g *registry, s *spreads) catalogUpdates {
	return catalogUpdates{cfg: cfg, mu: mu, registry: g, spreads: s, holding: newHolding(), lookups: newLookups()}
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

// fileHolding puts a device among those that hold back the committed offset, or takes it out.
func (u *catalogUpdates) fileHolding(d *device) {
	if _, ok := d.holdsBack(); ok {
		u.holding.put(d)
	} else {
		u.holding.remove(d)
	}
}

// observe takes note of what a reading shows of its device.
func (u *catalogUpdates) observe(d *device, offset int64, r *telemetry.Reading, repeats bool) {
	if d.observe(offset, r, repeats, &u.registry.columns) {
		d.tenant.updatePending(d)
		u.registry.countDevice(d)
		u.fileHolding(d)
		u.queueUpdate(d)
	}
	if u.cfg.CatalogEvery >= 0 && d.timesPending() && (d.lookupPlace == 0 || u.timesOff(d)) {
		u.queueUpdate(d)
	}
}

// observeStored takes note of rows that turned out to be stored already, from an offset on: whoever stored them may have
// died before the catalog had their times.
func (u *catalogUpdates) observeStored(d *device, offset int64) {
	if u.cfg.CatalogEvery >= 0 || !d.timesPending() {
		return
	}
	d.require(offset)
	u.fileHolding(d)
	u.queueUpdate(d)
}

// observeTail takes note of the times of a chunk that the store told of.
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

// queueUpdate puts a device among those that may have something for the catalog.
func (u *catalogUpdates) queueUpdate(d *device) {
	if !d.queued {
		d.queued = true
		u.pending.push(d)
	}
}

// catalogUpdates brings the catalog up to date: soon with what was never seen, now and then with times. What is told together
// takes few documents, so that after some news the next ones wait for others.
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
		if d.updating || !u.updateDue(d, now) { // it comes back when the note under way is done, or it is time
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

// updateDue reports whether a device has something for the catalog now: what is new at once, a later time when it is due.
func (u *catalogUpdates) updateDue(d *device, now time.Time) bool {
	return d.pending || d.timesPending() && (!d.listed || u.timesOff(d) || u.timesDue(d, now))
}

// timesOff reports whether the times that the catalog has of a device do not wait for their turn: lists of a range count
// on its first time, and on a last one that is no further behind than a device gets that reports as time goes by.
func (u *catalogUpdates) timesOff(d *device) bool {
	return d.listed && (d.seen.first < d.first || u.lastOff(d))
}

func (u *catalogUpdates) lastOff(d *device) bool {
	return d.seen.last-d.last >= u.cfg.CatalogEvery.Milliseconds()
}

// timesDue reports whether a later time alone is worth a write.
func (u *catalogUpdates) timesDue(d *device, now time.Time) bool {
	return u.cfg.CatalogEvery < 0 || u.drain || len(d.chains) == 0 || d.owed != nil && d.owed.urgent || d.listed && (!now.Before(d.lookupAt) || u.lastOff(d))
}

// addUpdate puts a device into a Note, and clears the news that it carries.
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

// scheduleLookup has the times of a device compared with the catalog's after so long or a little sooner, together with those
// of others: what is told of one device alone takes a page, and a look at the pages that there are.
func (u *catalogUpdates) scheduleLookup(d *device, now time.Time, after time.Duration) {
	d.lookupAt = now.Add(after)
	if group := u.cfg.CatalogEvery / lookupsPerPeriod; group > 0 {
		d.lookupAt = d.lookupAt.Truncate(group)
		if !d.lookupAt.After(now) { // whoever takes over many devices tells none of them at once
			d.lookupAt = d.lookupAt.Add(group)
		}
	}
	u.lookups.put(d)
}

// becameVisible has heads tell no more of a device that every reader sees in the catalog, unless there is news of it again.
func (u *catalogUpdates) becameVisible(d *device) {
	if d.visibleAt > 0 {
		u.mu.Lock()
		d.tenant.updateVisible(d)
		u.mu.Unlock()
	}
}

// updated takes a Note back.
func (u *catalogUpdates) done(j *CatalogUpdate, now time.Time) {
	u.running--
	r := j.Outcome()
	switch r.Fault {
	case None, Rejected: // what the catalog will never take holds nothing up: it is for listing only
		u.retry = backoff{}
	default:
		u.retry.failed(now, u.cfg.RetryBackoff, maxRetry*u.cfg.RetryBackoff, r.After, u.spreads.next())
		u.at = time.Time{} // nothing was told: it does not wait for more, too
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

// requireTimes has the catalog follow with every chunk: the offset is committed only when it has.
func (u *catalogUpdates) requireTimes(c *chain, f *flight) {
	if d := c.device; d.timesPending() {
		d.require(f.rows.First())
		u.fileHolding(d)
		u.queueUpdate(d)
	}
}
