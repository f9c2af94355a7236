package worker

import (
	"cmp"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
)

// deferral is readings that stay in the log because they are over a rate: all of a tenant, or of one of its devices,
// from an offset on. So they keep their order (rule W2), and what is not taken needs no memory. Those below the
// Worker's position are recalled: read from the log again when it is time.
type deferral struct {
	tenant    *tenant
	device    *device // nil: all of the tenant's
	limit     limitName
	from      int64 // offset below which nothing waits
	published int64 // when what stands there was published, ms
	until     int64 // when that may be taken, ns

	blocked bool  // in the pass that is under way: it waits until then
	refuses int64 // the offset above that of the record that has waited for too long, 0 for none
	count   int64 // of readings that were set aside when they were read first
}

// dueAt is from when on it is worth while to read the log for it again: something may be taken, or has waited for so long
// that it is refused. A bucket may be overdrawn for much longer than anything waits, by a single record.
func (x *deferral) dueAt(heldFor time.Duration) time.Time {
	paid := time.Unix(0, x.until)
	if x.published < 0 {
		return paid
	}
	if expires := time.UnixMilli(x.published).Add(heldFor).Add(time.Millisecond); expires.Before(paid) {
		return expires
	}
	return paid
}

// deferrals reads the log again for what waits, in passes. A pass begins with the lowest offset that waits for somebody
// who may take something, and ends at the position, or when all have taken what they may. Where nobody waits for
// anything it jumps.
type deferrals struct {
	all         []*deferral
	running     bool        // a pass is under way
	cursor      int64       // where it is
	upcoming    []*deferral // those that it has not reached, by offset
	active      int         // how many it has reached that may take more
	next        time.Time   // the next pass does not begin before
	urgentBelow int64       // the source is about to delete what lies below
}

// passEvery is the least time between passes: what has been paid for meanwhile is taken together.
const passEvery = 250 * time.Millisecond

// maxDeferredDevices bounds the devices of a tenant that wait by themselves; with one more the tenant waits as a whole.
const maxDeferredDevices = 64

// deferFrom has readings wait from an offset on, of a device or of all of them; recalled says that the pass has come to it
// just now. The caller holds the lock.
func (th *throttle) deferFrom(t *tenant, d *device, x deferral, recalled bool) {
	if d != nil && t.deferredDevices >= maxDeferredDevices {
		d = nil
	}
	if d == nil && t.deferral != nil {
		return // as the devices do, of which there are too many
	}
	x.tenant, x.device = t, d
	if d != nil {
		th.ratedOf(d).deferral = &x
		t.deferredDevices++
	} else {
		t.deferral = &x
	}
	r := &th.deferrals
	r.all = append(r.all, &x)
	if x.blocked = recalled; r.running && !recalled {
		r.upcoming = append(r.upcoming, &x) // nothing waits from a higher offset on
	}
}

// endDeferral ends a wait: all was taken. The caller holds the lock.
func (th *throttle) endDeferral(x *deferral) {
	if x.device == nil {
		x.tenant.deferral = nil
		return
	}
	th.ratedOf(x.device).deferral = nil
	x.tenant.deferredDevices--
	th.forget(x.device)
}

// deferredAt reports whether a reading at an offset waits, and whether it can't be taken in this pass.
func (t *tenant) deferredAt(d *device, offset int64) (waits, blocked bool) {
	if x := t.deferral; x != nil && offset >= x.from {
		waits, blocked = true, x.blocked
	}
	if t.deferredDevices > 0 {
		if x := d.deferral(); x != nil && offset >= x.from {
			waits, blocked = true, blocked || x.blocked
		}
	}
	return waits, blocked
}

// isDeferred reports whether readings of the device wait: what is taken of them was read long ago, and comes slowly.
func (d *device) isDeferred() bool {
	return d.tenant.deferral != nil || d.tenant.deferredDevices > 0 && d.deferral() != nil
}

// next is the offset from which on the log is to be read again now; ok is false if nothing may be taken yet. Whoever
// reads it calls Recalled with each record, in their order, and SkipDeferred where there is none, and asks again.
func (th *throttle) next(now time.Time) (offset int64, ok bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	r := &th.deferrals
	if len(r.all) == 0 || th.yields(now) {
		return 0, false
	}
	if !r.running && !now.Before(r.next) {
		th.beginPass(now)
	}
	return r.cursor, r.running
}

// dueAt is when Recall is worth a question; ok is false for not at all.
func (th *throttle) dueAt() (at time.Time, ok bool) {
	r := &th.deferrals
	if len(r.all) == 0 || th.fair.yielding {
		return time.Time{}, false // who yields is asked again after what comes in
	}
	for i, x := range r.all {
		if due := x.dueAt(th.cfg.HeldFor); i == 0 || due.Before(at) {
			at = due
		}
	}
	if r.running || r.all[0].from < r.urgentBelow {
		return r.next, true
	}
	return later(at, r.next), true
}

// beginPass begins a pass if somebody may take something, or has waited for too long.
func (th *throttle) beginPass(now time.Time) {
	r := &th.deferrals
	r.upcoming, r.active = r.upcoming[:0], 0
	for _, x := range r.all {
		if x.blocked = x.dueAt(th.cfg.HeldFor).After(now) && x.from >= r.urgentBelow; !x.blocked {
			r.upcoming = append(r.upcoming, x)
		}
	}
	if len(r.upcoming) == 0 {
		return
	}
	slices.SortFunc(r.upcoming, func(a, b *deferral) int { return cmp.Compare(a.from, b.from) })
	r.running, r.cursor = true, r.upcoming[0].from
	th.advancePass(now)
}

// advancePass goes on with those whose offset the pass has reached, jumps to the next one if there are none, and ends the
// pass when there is nothing left for it to do. The caller holds the lock.
func (th *throttle) advancePass(now time.Time) {
	r := &th.deferrals
	if r.active == 0 && len(r.upcoming) > 0 {
		r.cursor = max(r.cursor, r.upcoming[0].from)
	}
	for len(r.upcoming) > 0 && r.upcoming[0].from <= r.cursor {
		r.active++
		r.upcoming = r.upcoming[1:]
	}
	if r.active > 0 && r.cursor < th.log.position {
		return
	}
	waits := r.all[:0]
	for _, x := range r.all {
		if x.blocked || x.from > r.cursor {
			waits = append(waits, x)
			continue
		}
		th.endDeferral(x)
	}
	clear(r.all[len(waits):])
	r.all, r.running, r.next = waits, false, now.Add(passEvery)
	for _, x := range r.all {
		x.blocked = false
	}
}

// block ends a wait's part in the pass: what stands at an offset can't be taken yet.
func (r *deferrals) block(x *deferral, rec *Record, until int64) {
	if !x.blocked {
		x.blocked = true
		r.active--
	}
	x.from, x.published, x.until = rec.Offset, rec.Time, until
}

// FeedDeferred takes the next record of the log that was read again: of its readings those that wait and may go on. It
// fails as Feed does.
func (w *Worker) FeedDeferred(rec Record, snapshot *control.Snapshot, now time.Time) error {
	r := &w.throttle.deferrals
	if !r.running || rec.Offset < r.cursor {
		return nil
	}
	if rec.Offset >= w.log.position {
		w.SkipDeferred(rec.Offset, now)
		return nil
	}
	result := w.decode(&rec)
	if result.Unknown != nil {
		return result.Unknown
	}
	mine := result.Readings[:0]
	index := result.Index[:0]
	for i := range result.Readings {
		x := &result.Readings[i]
		if t := w.registry.known(x.Tenant); t != nil && (t.deferral != nil || t.deferredDevices > 0) {
			if waits, blocked := t.deferredAt(t.find(x.Device), rec.Offset); waits && !blocked {
				mine, index = append(mine, *x), append(index, result.Index[i])
			}
		}
	}
	if len(mine) > 0 {
		if err := w.verdicts.placeable(&rec, mine, snapshot, now); err != nil {
			return err
		}
		taken := w.takeAll(&rec, mine, index, snapshot, now, true)
		w.countMemory()
		w.observer.Resumed(taken)
	}
	w.SkipDeferred(rec.Offset+1, now)
	return nil
}

// skipTo says that there is nothing else to recall below an offset.
func (th *throttle) skipTo(next int64, now time.Time) {
	th.mu.Lock()
	defer th.mu.Unlock()
	r := &th.deferrals
	if !r.running {
		return
	}
	r.cursor = max(r.cursor, min(next, th.log.position))
	th.advancePass(now)
}

// truncate says that the log has lost what lies below an offset, and returns from where on something waited there; ok is
// false if nothing did.
func (th *throttle) truncate(first int64) (from int64, ok bool) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, x := range th.deferrals.all {
		if x.from < first {
			if !ok || x.from < from {
				from, ok = x.from, true
			}
			x.from = first
		}
	}
	if ok {
		th.endPass()
	}
	return from, ok
}

// endPass breaks a pass off: the next one begins where it was.
func (th *throttle) endPass() {
	r := &th.deferrals
	if !r.running {
		return
	}
	for _, x := range r.all {
		x.from = th.deferredFrom(x)
	}
	for _, x := range r.all {
		x.blocked = false
	}
	r.running, r.upcoming, r.active = false, nil, 0
}

// floor returns the lowest offset at which something is deferred; ok is false for none.
func (th *throttle) floor() (offset int64, ok bool) {
	for _, x := range th.deferrals.all {
		if at := th.deferredFrom(x); !ok || at < offset {
			offset, ok = at, true
		}
	}
	return offset, ok
}

// Deferral is readings that wait in the log for a limit.
type Deferral struct {
	Tenant   string    `json:"tenant"`
	Device   string    `json:"device,omitempty"` // empty: all of the tenant's
	Limit    string    `json:"limit"`
	From     int64     `json:"offset"`   // of the first record with some
	Since    time.Time `json:"since"`    // when that was published
	Readings int64     `json:"readings"` // that were set aside so far, those among them that have gone on since too
}

// list is what waits, of one tenant or, with "", of all. It may be called by anyone at any time.
func (th *throttle) list(tenant string) (out []Deferral) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, x := range th.deferrals.all {
		if tenant != "" && tenant != x.tenant.name {
			continue
		}
		one := Deferral{Tenant: x.tenant.name, Limit: string(x.limit), From: th.deferredFrom(x),
			Since: time.UnixMilli(x.published).UTC(), Readings: x.count}
		if x.device != nil {
			one.Device = x.device.id
		}
		out = append(out, one)
	}
	return out
}

// headDeferrals is what waits of some devices of a tenant, or of all. The caller holds the lock.
func (th *throttle) headDeferrals(t *tenant, devices []string) (out []store.HeadDeferral) {
	for _, x := range th.deferrals.all {
		if x.tenant != t || x.device != nil && devices != nil && !slices.Contains(devices, x.device.id) {
			continue
		}
		one := store.HeadDeferral{From: th.deferredFrom(x), Since: x.published, Limit: string(x.limit)}
		if x.device != nil {
			one.Device = x.device.id
		}
		out = append(out, one)
	}
	return out
}

// deferredFrom is the offset below which nothing waits any more.
func (th *throttle) deferredFrom(x *deferral) int64 {
	if r := &th.deferrals; r.running && !x.blocked && x.from <= r.cursor {
		return r.cursor
	}
	return x.from
}

// deferralBytes is what a wait takes in memory.
const deferralBytes = 160

// resumeDeferrals takes that everything below a position was taken by somebody else. The caller holds the lock.
func (th *throttle) resumeDeferrals(position int64) {
	th.endPass()
	for _, x := range th.deferrals.all {
		x.from = max(x.from, position)
	}
}

// shareLimits shares out limits to so many partitions. The caller holds the lock.
func (th *throttle) shareLimits(partitions int) {
	if partitions = max(1, partitions); partitions == th.partitions {
		return
	}
	th.partitions = partitions
	for _, t := range th.registry.tenants {
		t.limits = newLimits(t.configured, partitions)
	}
}

// releaseDecided lets chains go on that have waited for dead letters of what was recalled.
func (w *Worker) releaseDecided(now time.Time) {
	for n := w.awaiting.deferred.len(); n > 0; n-- {
		c := w.awaiting.deferred.pop()
		switch {
		case c.phase != sealed:
		case w.publisher.awaitsDeferred(c):
			w.awaiting.deferred.push(c)
		default:
			c.release()
			w.enqueue(c, now)
			w.file(c)
		}
	}
}
