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
// Worker's position are read from the log again when it is time.
type deferral struct {
	tenant    *tenant
	device    *device // nil: all of the tenant's
	limit     limitName
	from      int64 // offset below which nothing is deferred
	published int64 // when what stands there was published, ms
	until     int64 // when that may be taken, ns

	blocked bool  // in the current pass: it is not taken before then
	refuses int64 // one above the offset of the record that was deferred for too long, 0 for none
	count   int64 // of readings that were deferred when they were read first
}

// dueAt returns when the log is to be read again for it: something may be taken, or is refused because it has been
// deferred for too long. One record may overdraw a bucket for much longer than that.
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

// deferrals has the log read again for what is deferred, in passes. A pass begins with the lowest offset that is
// deferred and may be taken, and ends at the position, or when all have taken what they may. Stretches in which nothing
// is deferred are skipped.
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

// deferFrom defers readings of a device, or of all, from an offset on; inPass says that the pass has just come to it.
// The caller holds the lock.
func (th *throttle) deferFrom(x deferral, inPass bool) {
	t, d := x.tenant, x.device
	if d != nil && t.deferredDevices >= maxDeferredDevices {
		d = nil
	}
	if d == nil && t.deferral != nil {
		return // as the devices do, of which there are too many
	}
	x.device = d
	if d != nil {
		th.ratedOf(d).deferral = &x
		t.deferredDevices++
	} else {
		t.deferral = &x
	}
	r := &th.deferrals
	r.all = append(r.all, &x)
	if x.blocked = inPass; r.running && !inPass {
		r.upcoming = append(r.upcoming, &x) // nothing is deferred from a higher offset on
	}
}

// endDeferral ends a deferral: all was taken. The caller holds the lock.
func (th *throttle) endDeferral(x *deferral) {
	if x.device == nil {
		x.tenant.deferral = nil
		return
	}
	th.ratedOf(x.device).deferral = nil
	x.tenant.deferredDevices--
	th.forget(x.device)
}

// deferredAt reports whether a reading at an offset is deferred, and whether it can't be taken in this pass.
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

// isDeferred reports whether readings of the device are deferred: what is taken of them was published long ago, and
// comes slowly.
func (d *device) isDeferred() bool {
	return d.tenant.deferral != nil || d.tenant.deferredDevices > 0 && d.deferral() != nil
}

// next returns the offset from which the log is to be read again now; ok is false if nothing may be taken yet.
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

// dueAt returns when next is to be asked again; ok is false while there is no need to.
func (th *throttle) dueAt() (at time.Time, ok bool) {
	r := &th.deferrals
	if len(r.all) == 0 || th.fair.yielding {
		return time.Time{}, false // it is asked again after what comes in
	}
	for i, x := range r.all {
		if due := x.dueAt(th.cfg.HeldFor); i == 0 || due.Before(at) {
			at = due
		}
	}
	if r.running || r.all[0].from < r.urgentBelow {
		return r.next, true
	}
	if r.next.After(at) {
		at = r.next
	}
	return at, true
}

// beginPass begins a pass if something may be taken, or has been deferred for too long.
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

// advancePass activates the deferrals that the pass has reached, skips to the next one if none is active, and ends the
// pass when nothing is left for it to do. The caller holds the lock.
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

// block ends a deferral's part in the pass: a record can't be taken yet.
func (r *deferrals) block(x *deferral, rec *Record, until int64) {
	if !x.blocked {
		x.blocked = true
		r.active--
	}
	x.from, x.published, x.until = rec.Offset, rec.Time, until
}

// FeedDeferred takes the next record that was read again: of its readings those that are deferred and may go on. It
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
		f := feed{Record: &rec, readings: mine, index: index, snapshot: snapshot, now: now, again: true}
		if err := w.verdicts.placeable(&f); err != nil {
			return err
		}
		taken := w.takeAll(&f)
		w.countMemory()
		w.observer.Resumed(taken)
	}
	w.SkipDeferred(rec.Offset+1, now)
	return nil
}

// skipTo says that nothing else is deferred below an offset.
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

// truncate drops what is deferred below an offset, which the log has lost, and returns the first offset of it; ok is
// false for none.
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

// endPass ends a pass early: the next one begins where it was.
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
	Readings int64     `json:"readings"` // that were deferred so far, those taken since among them
}

// list returns what is deferred, of one tenant or, with "", of all.
func (th *throttle) list(tenant string) (out []Deferral) {
	th.mu.Lock()
	defer th.mu.Unlock()
	for _, x := range th.deferrals.all {
		if tenant != "" && tenant != x.tenant.Name {
			continue
		}
		one := Deferral{Tenant: x.tenant.Name, Limit: string(x.limit), From: th.deferredFrom(x),
			Since: time.UnixMilli(x.published).UTC(), Readings: x.count}
		if x.device != nil {
			one.Device = x.device.ID
		}
		out = append(out, one)
	}
	return out
}

// headDeferrals returns what is deferred of some devices of a tenant, or of all. The caller holds the lock.
func (th *throttle) headDeferrals(t *tenant, devices []string) (out []store.HeadDeferral) {
	for _, x := range th.deferrals.all {
		if x.tenant != t || x.device != nil && devices != nil && !slices.Contains(devices, x.device.ID) {
			continue
		}
		one := store.HeadDeferral{From: th.deferredFrom(x), Since: x.published, Limit: string(x.limit)}
		if x.device != nil {
			one.Device = x.device.ID
		}
		out = append(out, one)
	}
	return out
}

// deferredFrom returns the offset below which nothing is deferred any more.
func (th *throttle) deferredFrom(x *deferral) int64 {
	if r := &th.deferrals; r.running && !x.blocked && x.from <= r.cursor {
		return r.cursor
	}
	return x.from
}

// deferralBytes is what a wait takes in memory.
const deferralBytes = 160

// resumeDeferrals drops what is deferred below a position: another process has taken it. The caller holds the lock.
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

// releaseDecided queues chains again when all dead letters of their deferred readings are acknowledged.
func (w *Worker) releaseDecided(now time.Time) {
	for n := w.awaiting.deferred.Len(); n > 0; n-- {
		c := w.awaiting.deferred.Pop()
		switch {
		case c.phase != sealed:
		case w.publisher.awaitsDeferred(c):
			w.awaiting.deferred.Push(c)
		default:
			c.release()
			w.enqueue(c, now)
			w.file(c)
		}
	}
}
