// Package catalogupdates decides when the catalog is updated with what readings of one partition show of devices:
// names, labels and tags soon, times now and then. It is pure: an Update carries the entries to write.
// docs/internals/format/catalog.md has their format.
package catalogupdates

import (
	"time"

	"binnacle/binning"
	"binnacle/ingest/queue"
	"binnacle/internal/catalog"
	"binnacle/internal/retry"
)

// MaxRunning is the most updates in flight.
const MaxRunning = 8

// updateBatch is the most devices of one Update: some pages of the catalog.
const updateBatch = 4096

// Update carries to the catalog what readings have shown of devices of a tenant.
type Update struct {
	Tenant  string
	Entries []catalog.Entry
	Times   []bool // entries written for a later time alone
	// Since is the instant after which the catalog must have been read that the entries are compared with.
	Since   time.Time
	devices []*Device

	// Visible is the answer: every entry's times in the catalog now; nil if it will never take the update.
	Visible []Times
}

// Times are the event times of a device, ms.
type Times struct{ First, Last int64 }

// Config is how Updates works.
type Config struct {
	Every  time.Duration // until later times alone are written; negative: with every chunk
	Wait   time.Duration // until the next update, so that devices share pages
	Linger time.Duration // until every reader of the catalog sees an update
	// Retry returns the pauses between attempts at an update, of at least so long.
	Retry func(least time.Duration) retry.Schedule
}

// Updates decides when the catalog is updated, and with which devices. It holds back the floor while the catalog
// lacks a name (rule W7). One goroutine owns it. Others may read a Tenant's Version and Unseen, and what HasUnits and
// Times return: methods that change these say that the caller holds a lock, which is the caller's own.
type Updates struct {
	// Damaged returns why nothing may be written of a tenant, nil if it may. Nil holds up no tenant.
	Damaged func(tenant string) error

	cfg Config

	columns columnSets          // shared by all devices
	pending queue.FIFO[*Device] // devices that the catalog may lack something of
	running int                 // updates in flight
	at      time.Time           // begin of the last updates
	retry   retry.Backoff
	drain   bool // times are written too, at once
	// assigned is when the partition was taken over. Records below from were taken by others since, if it is above 0.
	assigned time.Time
	from     int64

	acked queue.FIFO[*Device] // updated, and not every reader may see that yet
	// updated has the names in updates that are in flight.
	updated *names
	holding queue.Heap[*Device] // devices that hold back the floor, by the offset
	lookups queue.Heap[*Device] // devices, by the time at which the catalog's times are compared again

	// Devices that Next has changed: Show shows them as pending, or no more.
	pendingNow, visibleNow []*Device
}

// names gives, by device, the offset of the first record with a name that an update has.
type names map[*Device]int64

// take returns the device's offset, and forgets it.
func (n *names) take(d *Device) (offset int64, ok bool) {
	if offset, ok = (*n)[d]; ok {
		if delete(*n, d); len(*n) == 0 {
			*n = names{} // an emptied map would keep its memory
		}
	}
	return offset, ok
}

// New returns an Updates without devices.
func New(cfg Config) Updates {
	updated := &names{}
	return Updates{
		cfg:     cfg,
		updated: updated,
		columns: columnSets{sets: map[uint64]*columns{}},
		holding: queue.NewHeap(func(d *Device) *int32 { return &d.holdingPlace }, func(d *Device) int64 {
			offset, _ := updated.holdsBack(d)
			return offset
		}),
		lookups: queue.NewHeap(func(d *Device) *int32 { return &d.lookupPlace },
			func(d *Device) int64 { return d.lookupAt }),
	}
}

// Floor returns the lowest offset of a record with a name that the catalog lacks; ok is false for none.
func (u *Updates) Floor() (offset int64, ok bool) {
	if u.holding.Len() == 0 {
		return 0, false
	}
	return u.updated.holdsBack(u.holding.First())
}

// holdsBack returns the lowest offset of a record with a name that the catalog lacks; ok is false for none.
func (n *names) holdsBack(d *Device) (offset int64, ok bool) {
	if offset, ok = (*n)[d]; ok {
		return offset, ok
	}
	return d.pendingFrom, d.pending
}

// Bytes returns how much memory the columns of devices take.
func (u *Updates) Bytes() int { return u.columns.bytes }

// Busy reports whether an update is in flight, or due.
func (u *Updates) Busy() bool { return u.running > 0 || u.pending.Len() > 0 }

// Drain has times written too, at once, of the devices that are queued from now on.
func (u *Updates) Drain() { u.drain = true }

// Assign says that the partition is taken over now. If it was here before, others have taken records below an offset.
// For Linger a reader may lack tags that others have committed, and no tag is compared with the catalog (rule W13).
func (u *Updates) Assign(from int64, now time.Time) { u.from, u.assigned = from, now }

// Forget drops a device. The caller holds the lock.
func (u *Updates) Forget(d *Device) {
	u.lookups.Remove(d)
	d.Tenant.updateVisible(d)
	u.columns.swap(d.seen.columns, nil)
}

// Reset forgets what was seen and is listed of an erased device, and the update in flight. The caller holds the lock.
func (u *Updates) Reset(d *Device) {
	u.Forget(d)
	d.seen, d.listed, d.first, d.last = nothing, false, 0, 0
	d.pending, d.pendingFrom, d.outdated = false, 0, true
	u.updated.take(d)
	u.fileHolding(d)
}

// fileHolding adds a device to the devices that hold back the committed offset, or removes it.
func (u *Updates) fileHolding(d *Device) {
	_, ok := u.updated.holdsBack(d)
	u.holding.Keep(d, ok)
}

// Observe records what a reading shows of its device, and reports whether a name is new. The caller holds the lock.
func (u *Updates) Observe(d *Device, x Shown) (fresh bool) {
	if fresh = d.observe(x, u); fresh {
		d.Tenant.updatePending(d)
		u.fileHolding(d)
		u.Queue(d)
	}
	if u.cfg.Every >= 0 && d.TimesPending() && (d.lookupPlace == 0 || u.timesOff(d)) {
		u.Queue(d)
	}
	return fresh
}

// ObserveBlock records what a block of the journal shows of its device; named is set if the names of it were seen with
// the one before. The catalog has the names: no offset that was committed passes one that it lacks. Which times it has
// is not known; they are compared after the device's next reading. The caller holds the lock.
func (u *Updates) ObserveBlock(d *Device, b *binning.Block, named bool) {
	d.Spans(b.From, b.To)
	if named {
		return
	}
	d.list(b.Fields(), &u.columns)
	for _, set := range b.Sets() {
		for _, l := range set {
			d.seen.label(l)
		}
	}
}

// Require queues an update of the catalog with a device, which must come before the record at an offset is committed.
func (u *Updates) Require(d *Device, offset int64) {
	d.require(offset)
	u.fileHolding(d)
	u.Queue(d)
}

// ObserveStored requires an update of the catalog, where it follows with every chunk, after rows from an offset on
// were stored, or found to be: the process that stored them may have died before it updated the catalog.
func (u *Updates) ObserveStored(d *Device, offset int64) {
	if u.cfg.Every < 0 && d.TimesPending() {
		u.Require(d, offset)
	}
}

// ObserveTimes records the times of a chunk that was read from the store. The caller holds the lock.
func (u *Updates) ObserveTimes(d *Device, first, last int64) {
	d.Spans(first, last)
	if d.TimesPending() {
		u.Queue(d)
	}
}

// Urge queues a device's times for the catalog now: the journal is down.
func (u *Updates) Urge(d *Device) {
	d.urgent = true
	u.Queue(d)
}

// Queue queues a device that may lack something in the catalog.
func (u *Updates) Queue(d *Device) {
	if !d.queued {
		d.queued = true
		u.pending.Push(d)
	}
}

// Next returns the updates that are due: names soon, times now and then. Devices in one update share pages, so after an
// update the next one waits for more devices, unless hurry is set. Where Changed reports it, the caller calls Show
// before an update is made.
func (u *Updates) Next(now time.Time, hurry bool) (due []*Update) {
	for u.lookups.Len() > 0 && u.lookups.First().lookupAt <= now.UnixNano() {
		d := u.lookups.First()
		u.lookups.Remove(d)
		if d.TimesPending() {
			u.Queue(d)
		}
	}
	for u.acked.Len() > 0 && u.acked.Front().visibleAt() < now.UnixMilli() {
		u.visibleNow = append(u.visibleNow, u.acked.Pop())
	}
	at := u.pending.Len()
	hurry = hurry || at >= updateBatch
	if at == 0 || !u.retry.Open(now) || !hurry && now.Sub(u.at) < u.cfg.Wait {
		return due
	}
	open := make(map[*Tenant]*Update)
	for ; at > 0 && u.running < MaxRunning; at-- {
		d := u.pending.Pop()
		d.queued = false
		if d.updating || !u.updateDue(d, now) { // it is queued again when its update is done, or when it is time
			continue
		}
		isDamaged := u.Damaged != nil && u.Damaged(d.Tenant.Name) != nil
		if age := now.Sub(u.assigned); isDamaged || len(d.seen.tags) > 0 && age >= 0 && age < u.cfg.Linger {
			u.Queue(d)
			continue
		}
		j := open[d.Tenant]
		if j == nil {
			j = &Update{Tenant: d.Tenant.Name, Since: u.assigned.Add(u.cfg.Linger)}
			open[d.Tenant] = j
			u.running++
			due = append(due, j)
		}
		u.addUpdate(j, d, now)
		if len(j.devices) == updateBatch {
			delete(open, d.Tenant)
		}
	}
	if at == 0 && (len(open) > 0 || u.running > 0) { // devices that are left over follow
		u.at = now
	}
	return due
}

// updateDue reports whether the catalog needs an update of a device now: a name at once, a later time when it is due.
func (u *Updates) updateDue(d *Device, now time.Time) bool {
	return d.pending || d.TimesPending() && (!d.listed || u.timesOff(d) || u.timesDue(d, now))
}

// timesOff reports whether the catalog's times of a device are too far off to wait for their turn: lists of a range
// rely on the first time, and on a last one that is not more than Every behind.
func (u *Updates) timesOff(d *Device) bool {
	return d.listed && (d.seen.first < d.first || u.lastOff(d))
}

func (u *Updates) lastOff(d *Device) bool {
	return d.seen.last-d.last >= u.cfg.Every.Milliseconds()
}

// timesDue reports whether a later time alone is worth a write.
func (u *Updates) timesDue(d *Device, now time.Time) bool {
	return u.cfg.Every < 0 || u.drain || !d.InUse || d.urgent ||
		d.listed && (now.UnixNano() >= d.lookupAt || u.lastOff(d))
}

func (u *Updates) addUpdate(j *Update, d *Device, now time.Time) {
	d.updating, d.outdated = true, false
	if d.pending {
		(*u.updated)[d] = d.pendingFrom
	}
	d.pending, d.pendingFrom = false, 0
	u.fileHolding(d)
	times := u.timesDue(d, now)
	if u.cfg.Every >= 0 && (times || !d.listed) {
		every := u.cfg.Every
		if !d.listed {
			every = binning.FirstHold(d.ID, every) // a fleet that came over together is not written together
		}
		u.scheduleLookup(d, now, every)
	}
	if d.TimesPending() && u.cfg.Every >= 0 { // heads list the times until every reader sees them
		u.pendingNow = append(u.pendingNow, d)
	}
	j.devices, j.Times = append(j.devices, d), append(j.Times, times)
	j.Entries = append(j.Entries, d.seen.entry(d.ID, d.Tenant))
}

// lookupsPerPeriod is how many times in Every devices' times are compared with the catalog's.
const lookupsPerPeriod = 14

// scheduleLookup schedules the comparison of a device's times with the catalog's after about that duration, together
// with other devices: an update of one device alone takes a page.
func (u *Updates) scheduleLookup(d *Device, now time.Time, after time.Duration) {
	at := now.Add(after)
	if group := u.cfg.Every / lookupsPerPeriod; group > 0 {
		at = at.Truncate(group)
		if !at.After(now) { // a takeover of many devices does not update all of them at once
			at = at.Add(group)
		}
	}
	d.lookupAt = at.UnixNano()
	u.lookups.Put(d)
}

// Changed reports whether Show has something to do.
func (u *Updates) Changed() bool { return len(u.pendingNow)+len(u.visibleNow) > 0 }

// Show changes what tenants show of devices as Next has decided. Of a device that every reader sees in the catalog they
// show nothing, unless an update of it is pending: visible is called for it. The caller holds the lock.
func (u *Updates) Show(visible func(tenant, device string)) {
	for _, d := range u.visibleNow {
		if d.visibleAt() > 0 {
			d.Tenant.updateVisible(d)
			visible(d.Tenant.Name, d.ID)
		}
	}
	for _, d := range u.pendingNow {
		d.Tenant.updatePending(d)
	}
	u.pendingNow, u.visibleNow = nil, nil // a list of a whole fleet keeps its room
}

// Done takes an update back that is written, or that the catalog will never take: it only serves lists, so that holds
// nothing up. The caller holds the lock.
func (u *Updates) Done(j *Update, now time.Time) {
	u.running--
	u.retry = retry.Backoff{}
	for i, d := range j.devices {
		d.updating, d.urgent, d.listed = false, false, !d.outdated
		u.updated.take(d)
		if d.first, d.last = d.seen.first, d.seen.last; j.Visible != nil {
			d.first, d.last = j.Visible[i].First, j.Visible[i].Last
		}
		u.goOn(d)
		if j.Visible != nil && !d.pending {
			d.Tenant.updateAcked(d, now.Add(u.cfg.Linger))
			u.acked.Push(d)
		}
	}
}

// Failed takes an update back that failed: it is made again, not before the time that the store said. The caller holds
// the lock.
func (u *Updates) Failed(j *Update, after time.Duration, now time.Time) {
	u.running--
	u.retry.Fail(now, u.cfg.Retry(after))
	u.at = time.Time{} // nothing was written: the next attempt does not wait for more devices
	for i, d := range j.devices {
		d.updating = false
		if from, ok := u.updated.take(d); ok {
			d.require(from)
		}
		if d.lookupAt = now.UnixNano(); j.Times[i] && u.cfg.Every >= 0 {
			u.lookups.Put(d)
		}
		if d.Lacks() {
			u.Queue(d)
		}
		u.goOn(d)
	}
}

// goOn files a device after an update, and queues it again if it needs another one.
func (u *Updates) goOn(d *Device) {
	u.fileHolding(d)
	if d.pending || (u.drain || d.outdated) && d.TimesPending() || u.cfg.Every >= 0 && u.timesOff(d) {
		u.Queue(d)
	}
}
