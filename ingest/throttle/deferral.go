package throttle

import (
	"cmp"
	"math"
	"slices"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// deferral is readings that stay in the log because they are over a rate: all of a tenant, or of one of its devices,
// from an offset on. So they keep their order (rule W2), and what is not taken needs no memory. Those below the
// Worker's position are read from the log again when it is time.
type deferral struct {
	tenant    *Tenant
	device    *Device // nil: all of the tenant's
	id        string  // of the device
	limit     limitName
	from      int64 // offset below which nothing is deferred
	published int64 // when what stands there was published, ms
	until     int64 // when that may be taken, ns
	through   int64 // with a registration, the last offset that is deferred: a pass need not read on
	since     int64 // and since when the first one waits here, ms

	blocked bool  // in the current pass: it is not taken before then
	refuses int64 // one above the offset of the record that was deferred for too long, 0 for none
	count   int64 // of readings that were deferred when they were read first
}

// dueAt returns when the log is to be read again for it: something may be taken, or is refused because it has been
// deferred for too long. One record may overdraw a bucket for much longer than that.
func (x *deferral) dueAt(heldFor time.Duration) time.Time {
	paid, since := time.Unix(0, x.until), x.published
	if x.limit == limitRegistration {
		since = x.since
	}
	if since < 0 {
		return paid
	}
	if expires := time.UnixMilli(since).Add(heldFor).Add(time.Millisecond); expires.Before(paid) {
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
	ends        int64       // the lowest offset through which one of those is deferred
	next        time.Time   // the next pass does not begin before
	urgentBelow int64       // the source is about to delete what lies below
}

// passEvery is the least time between passes: what has been paid for meanwhile is taken together.
const passEvery = 250 * time.Millisecond

// maxDeferredDevices bounds the devices of a tenant that wait by themselves; with one more the tenant waits as a whole.
const maxDeferredDevices = 64

// deferFrom defers readings of a device, or of all, from an offset on; inPass says that the pass has just come to it.
// The caller holds the lock.
func (th *Throttle) deferFrom(x deferral, inPass bool) {
	t, d := x.tenant, x.device
	if d != nil && t.deferredDevices >= maxDeferredDevices {
		d = nil
	}
	if d == nil && t.deferral != nil {
		return // as the devices do: there are too many
	}
	if x.device = d; x.limit != limitRegistration {
		x.through = math.MaxInt64
	}
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
func (th *Throttle) endDeferral(x *deferral) {
	if x.device == nil {
		x.tenant.deferral = nil
		th.registering.ended(x)
		if !x.tenant.kept {
			th.Forget(x.tenant)
		}
		return
	}
	th.ratedOf(x.device).deferral = nil
	x.tenant.deferredDevices--
	th.cfg.Registry.Forget(x.tenant.Name, x.id)
}

// deferredAt reports whether a reading at an offset is deferred, and whether it can't be taken in this pass.
func (t *Tenant) deferredAt(d *Device, offset int64) (waits, blocked bool) {
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

// Defers reports whether readings of a device are deferred: what is taken of them was published long ago, and
// comes slowly.
func (t *Tenant) Defers(d *Device) bool {
	return t.deferral != nil || t.deferredDevices > 0 && d.deferral() != nil
}

// Next returns the offset from which the log is to be read again now for what is deferred; ok is false if nothing may
// be taken yet. The caller feeds each record from there to Worker.FeedDeferred, in order, calls SkipTo where there is
// none, and asks again.
func (th *Throttle) Next(now time.Time) (offset int64, ok bool) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	r := &th.deferrals
	if len(r.all) == 0 || th.yields(now) {
		return 0, false
	}
	if !r.running && !now.Before(r.next) {
		th.beginPass(now)
	}
	return r.cursor, r.running
}

// DueAt returns when Next is to be asked again; ok is false while there is no need to.
func (th *Throttle) DueAt() (at time.Time, ok bool) {
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
func (th *Throttle) beginPass(now time.Time) {
	r := &th.deferrals
	r.upcoming, r.active, r.ends = r.upcoming[:0], 0, math.MaxInt64
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
func (th *Throttle) advancePass(now time.Time) {
	r := &th.deferrals
	if r.active == 0 && len(r.upcoming) > 0 {
		r.cursor = max(r.cursor, r.upcoming[0].from)
	}
	for len(r.upcoming) > 0 && r.upcoming[0].from <= r.cursor {
		r.ends = min(r.ends, r.upcoming[0].through)
		r.active++
		r.upcoming = r.upcoming[1:]
	}
	if r.cursor > r.ends {
		th.endTaken()
	}
	if r.active > 0 && r.cursor < th.cfg.Log.Position {
		return
	}
	if r.active == 0 && len(r.upcoming) > 0 && r.upcoming[0].from < th.cfg.Log.Position {
		th.advancePass(now)
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

// endTaken ends the deferrals of which the pass has read the last record.
func (th *Throttle) endTaken() {
	r := &th.deferrals
	r.ends = math.MaxInt64
	r.all = slices.DeleteFunc(r.all, func(x *deferral) bool {
		switch {
		case x.blocked || x.from > r.cursor:
		case x.through < r.cursor:
			th.endDeferral(x)
			r.active--
			return true
		default:
			r.ends = min(r.ends, x.through)
		}
		return false
	})
}

// block ends a deferral's part in the pass: a record can't be taken yet.
func (r *deferrals) block(x *deferral, f *Feed, until int64) {
	if !x.blocked {
		x.blocked = true
		r.active--
	}
	x.from, x.published, x.until = f.Offset, f.Time, until
}

// SkipTo says that nothing else is deferred below an offset.
func (th *Throttle) SkipTo(next int64, now time.Time) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	r := &th.deferrals
	if !r.running {
		return
	}
	r.cursor = max(r.cursor, min(next, th.cfg.Log.Position))
	th.advancePass(now)
}

// Truncate drops what is deferred below an offset, which the log has lost, and returns the first offset of it; ok is
// false for none.
func (th *Throttle) Truncate(first int64) (from int64, ok bool) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
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
func (th *Throttle) endPass() {
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

// Floor returns the lowest offset at which something is deferred; ok is false for none.
func (th *Throttle) Floor() (offset int64, ok bool) {
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

// Deferrals returns what is deferred, of one tenant or, with "", of all. Anyone may call it at any time.
func (th *Throttle) Deferrals(tenant string) (out []Deferral) {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	for _, x := range th.deferrals.all {
		if tenant != "" && tenant != x.tenant.Name {
			continue
		}
		one := Deferral{Tenant: x.tenant.Name, Limit: string(x.limit), From: th.deferredFrom(x),
			Since: time.UnixMilli(x.published).UTC(), Readings: x.count}
		if x.device != nil {
			one.Device = x.id
		}
		out = append(out, one)
	}
	return out
}

// HeadDeferrals returns what is deferred of some devices of a tenant, or of all. The caller holds the lock.
func (th *Throttle) HeadDeferrals(tenant string, devices []string) (out []store.HeadDeferral) {
	t := th.tenants[tenant]
	if t == nil || t.deferral == nil && t.deferredDevices == 0 {
		return nil
	}
	for _, x := range th.deferrals.all {
		if x.tenant != t || x.device != nil && devices != nil && !slices.Contains(devices, x.id) {
			continue
		}
		one := store.HeadDeferral{From: th.deferredFrom(x), Since: x.published, Limit: string(x.limit)}
		if x.device != nil {
			one.Device = x.id
		}
		out = append(out, one)
	}
	return out
}

// deferredFrom returns the offset below which nothing is deferred any more.
func (th *Throttle) deferredFrom(x *deferral) int64 {
	if r := &th.deferrals; r.running && !x.blocked && x.from <= r.cursor {
		return r.cursor
	}
	return x.from
}

// deferralBytes is what a wait takes in memory.
const deferralBytes = 160

// Resume goes on in one of so many partitions, which share limits, and drops what is deferred below a position: another
// process has taken it. The caller holds the lock.
func (th *Throttle) Resume(partitions int, position int64) {
	if partitions = max(1, partitions); partitions != th.partitions {
		th.partitions = partitions
		for _, t := range th.tenants {
			t.limits = newLimits(t.configured, partitions)
		}
	}
	th.endPass()
	for _, x := range th.deferrals.all {
		x.from = max(x.from, position)
	}
}

// Hurry has what is deferred below an offset taken despite limits: the log is about to lose it.
func (th *Throttle) Hurry(below int64) {
	th.deferrals.urgentBelow = max(th.deferrals.urgentBelow, below)
}

// Pass reports whether a record that was read again is the next one of the pass; it must lie below the position.
func (th *Throttle) Pass(offset int64) bool {
	return th.deferrals.running && offset >= th.deferrals.cursor
}

// Resumes reports whether a reading of a record that was read again is deferred, and may be taken in this pass.
func (th *Throttle) Resumes(r *telemetry.Reading, offset int64) bool {
	t := th.known(r.Tenant)
	if t == nil || t.deferral == nil && t.deferredDevices == 0 {
		return false
	}
	waits, blocked := t.deferredAt(th.cfg.Registry.Device(t.Name, r.Device), offset)
	return waits && !blocked
}
