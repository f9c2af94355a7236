package admit

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
	tenant    *tenantState
	device    *device // nil: all of the tenant's
	limit     limitName
	from      int64 // offset below which nothing is deferred
	published int64 // time at which the record at from was published, ms
	// until is when that record may be taken, ns.
	until   int64
	through int64 // with a registration, the last offset that is deferred: a pass need not read on
	// since is, with a registration, when the first record began to wait here, ms.
	since int64

	blocked bool  // nothing more is taken in the current pass
	refuses int64 // one above the offset of the record that was deferred for too long, 0 for none
	count   int64 // readings that were deferred when they were read first
}

// dueAt returns when the log must be read again for the deferral: a reading may be taken, or is refused because it
// has been deferred for too long. One record may overdraw a bucket for much longer than heldFor.
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

// deferrals plans passes in which the log is read again for deferred readings. A pass begins with the lowest offset
// that may be taken, and ends at the position, or when no deferral may take more. All other stretches are skipped.
type deferrals struct {
	all      []*deferral
	running  bool        // a pass is under way
	admits   bool        // the pass began with readings of a tenant that was registered meanwhile
	cursor   int64       // offset that the pass has reached
	upcoming []*deferral // deferrals that the pass has not reached, by offset
	// active counts the deferrals that the pass has reached and that may take more.
	active      int
	ends        int64       // lowest offset through which an active deferral extends
	next        time.Time   // the next pass does not begin before
	urgentBelow int64       // the source is about to delete what lies below
	over        []*deferral // deferrals with nothing left to take, until Limits ends them
}

// passEvery is the least time between passes: all that time has paid for since the last pass is taken together.
const passEvery = 250 * time.Millisecond

// maxDeferredDevices bounds the devices of a tenant that wait one by one; with one more the tenant waits as a whole.
const maxDeferredDevices = 64

// deferFrom defers readings of a device, or of all, from an offset on; inPass says that the pass has just come to it.
func (l *Limits) deferFrom(x deferral, inPass bool) {
	t := x.tenant
	if t.deferredDevices >= maxDeferredDevices {
		x.device = nil
	}
	if x.device == nil && t.deferral != nil {
		return // the devices do the same when there are too many
	}
	if x.limit != limitRegistration {
		x.through = math.MaxInt64
	}
	if x.device != nil {
		x.device.deferral = &x
		t.deferredDevices++
	} else {
		t.deferral = &x
	}
	r := &l.deferrals
	r.all = append(r.all, &x)
	if x.blocked = inPass; r.running && !inPass {
		r.upcoming = append(r.upcoming, &x) // nothing is deferred from a higher offset on
	}
}

// settle ends the deferrals with nothing left to take, and forgets their devices and tenants unless still needed.
func (l *Limits) settle() {
	for _, x := range l.deferrals.over {
		t := x.tenant
		if x.device == nil {
			t.deferral = nil
			l.registering.ended(x)
		} else {
			x.device.deferral = nil
			t.deferredDevices--
			if !l.cfg.Devices.Seen(t.name, x.device.id, 0).Known {
				l.tenants.forgetDevice(t, x.device)
			}
		}
		l.forgetTenant(t)
	}
	clear(l.deferrals.over)
	l.deferrals.over = l.deferrals.over[:0]
}

// deferredAt reports whether a reading at an offset is deferred, and whether this pass can't take it. d may be nil.
func (t *tenantState) deferredAt(d *device, offset int64) (waits, blocked bool) {
	if x := t.deferral; x != nil && offset >= x.from {
		waits, blocked = true, x.blocked
	}
	if x := d.waits(); x != nil && offset >= x.from {
		waits, blocked = true, blocked || x.blocked
	}
	return waits, blocked
}

// waits returns the deferral of a device, nil for none; the device may be nil too.
func (d *device) waits() *deferral {
	if d == nil {
		return nil
	}
	return d.deferral
}

// Defers reports whether readings of a device are deferred: its readings come late and slowly.
func (l *Limits) Defers(tenant, id string) bool {
	t := l.tenants.all[tenant]
	return t != nil && (t.deferral != nil || t.deferredDevices > 0 && t.devices[id].waits() != nil)
}

// Next returns the offset from which the caller must read the log again now; ok is false if nothing may be taken yet.
// The caller admits each record from there again, in order, calls SkipTo where records are missing, and asks again.
func (l *Limits) Next(log Log, now time.Time) (offset int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.deferrals
	if len(r.all) == 0 || l.yields(&log, now) {
		return 0, false
	}
	if !r.running && !now.Before(r.next) {
		r.beginPass(log.Position, l.cfg.HeldFor, now)
		l.settle()
	}
	return r.cursor, r.running
}

// DueAt returns when the caller must ask Next again; ok is false while nothing is due.
func (l *Limits) DueAt() (at time.Time, ok bool) {
	r := &l.deferrals
	if len(r.all) == 0 || l.fair.yielding {
		return time.Time{}, false // the caller asks again after the next records
	}
	for i, x := range r.all {
		if due := x.dueAt(l.cfg.HeldFor); i == 0 || due.Before(at) {
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

// SkipTo says that nothing else is deferred below an offset.
func (l *Limits) SkipTo(next int64, log Log, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := &l.deferrals; r.running {
		r.cursor = max(r.cursor, min(next, log.Position))
		r.advance(log.Position, now)
		l.settle()
	}
}

// Truncate drops what is deferred below an offset, which the log has lost, and returns the first offset of it; ok is
// false for none.
func (l *Limits) Truncate(first int64) (from int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.deferrals.all {
		if x.from < first {
			if !ok || x.from < from {
				from, ok = x.from, true
			}
			x.from = first
		}
	}
	if ok {
		l.deferrals.endPass()
	}
	return from, ok
}

// Hurry has what is deferred below an offset taken despite limits: the log is about to lose it.
func (l *Limits) Hurry(below int64) { l.deferrals.urgentBelow = max(l.deferrals.urgentBelow, below) }

// Pass reports whether a record that was read again is the next one of the pass; it must lie below the position.
func (l *Limits) Pass(offset int64) bool { return l.deferrals.running && offset >= l.deferrals.cursor }

// resumes reports whether a reading of a record that was read again is deferred, and may be taken in this pass.
func (x *tenants) resumes(r *telemetry.Reading, offset int64) bool {
	t := x.get(r.Tenant)
	if t == nil || t.deferral == nil && t.deferredDevices == 0 {
		return false
	}
	waits, blocked := t.deferredAt(t.device(r.Device), offset)
	return waits && !blocked
}

// Floor returns the lowest offset at which something is deferred; ok is false for none.
func (l *Limits) Floor() (offset int64, ok bool) {
	for _, x := range l.deferrals.all {
		if at := l.deferrals.fromOf(x); !ok || at < offset {
			offset, ok = at, true
		}
	}
	return offset, ok
}

// beginPass begins a pass if something may be taken, or has been deferred for too long.
func (r *deferrals) beginPass(position int64, heldFor time.Duration, now time.Time) {
	r.upcoming, r.active, r.ends, r.admits = r.upcoming[:0], 0, math.MaxInt64, false
	for _, x := range r.all {
		if x.blocked = x.dueAt(heldFor).After(now) && x.from >= r.urgentBelow; !x.blocked {
			r.upcoming = append(r.upcoming, x)
			r.admits = r.admits || x.limit == limitRegistration && x.until == 0
		}
	}
	if len(r.upcoming) == 0 {
		return
	}
	slices.SortFunc(r.upcoming, func(a, b *deferral) int { return cmp.Compare(a.from, b.from) })
	r.running, r.cursor = true, r.upcoming[0].from
	r.advance(position, now)
}

// advance activates the deferrals that the pass has reached, skips to the next one if none is active, and ends the
// pass when nothing is left for it to do.
func (r *deferrals) advance(position int64, now time.Time) {
	for {
		if r.active == 0 && len(r.upcoming) > 0 {
			r.cursor = max(r.cursor, r.upcoming[0].from)
		}
		for len(r.upcoming) > 0 && r.upcoming[0].from <= r.cursor {
			r.ends = min(r.ends, r.upcoming[0].through)
			r.active++
			r.upcoming = r.upcoming[1:]
		}
		if r.cursor > r.ends {
			r.endTaken()
		}
		if r.active > 0 && r.cursor < position {
			return
		}
		if r.active > 0 || len(r.upcoming) == 0 || r.upcoming[0].from >= position {
			break
		}
	}
	waits := r.all[:0]
	for _, x := range r.all {
		if x.blocked || x.from > r.cursor {
			waits = append(waits, x)
		} else {
			r.over = append(r.over, x)
		}
	}
	clear(r.all[len(waits):])
	r.all, r.running, r.next = waits, false, now.Add(passEvery)
	for _, x := range r.all {
		x.blocked = false
	}
}

// endTaken ends the deferrals with a last record below the pass's cursor.
func (r *deferrals) endTaken() {
	r.ends = math.MaxInt64
	r.all = slices.DeleteFunc(r.all, func(x *deferral) bool {
		switch {
		case x.blocked || x.from > r.cursor:
		case x.through < r.cursor:
			r.over = append(r.over, x)
			r.active--
			return true
		default:
			r.ends = min(r.ends, x.through)
		}
		return false
	})
}

// block ends a deferral's part in the pass: a record can't be taken yet.
func (r *deferrals) block(x *deferral, f *feed, until int64) {
	if !x.blocked {
		x.blocked = true
		r.active--
	}
	x.from, x.published, x.until = f.Offset, f.Time, until
}

// endPass ends a pass early: the next one begins where it was.
func (r *deferrals) endPass() {
	if !r.running {
		return
	}
	for _, x := range r.all {
		x.from = r.fromOf(x)
	}
	for _, x := range r.all {
		x.blocked = false
	}
	r.running, r.upcoming, r.active = false, nil, 0
}

// fromOf returns the offset below which nothing is deferred any more.
func (r *deferrals) fromOf(x *deferral) int64 {
	if r.running && !x.blocked && x.from <= r.cursor {
		return r.cursor
	}
	return x.from
}

// Deferral is readings that wait in the log for a limit.
type Deferral struct {
	Tenant   string    `json:"tenant"`
	Device   string    `json:"device,omitempty"` // empty: all of the tenant's
	Limit    string    `json:"limit"`
	From     int64     `json:"offset"`   // the first deferred record's
	Since    time.Time `json:"since"`    // time at which that record was published
	Readings int64     `json:"readings"` // readings deferred so far, also those resumed since
}

// Deferrals returns what is deferred, of one tenant or, with "", of all. Anyone may call it at any time.
func (l *Limits) Deferrals(tenant string) (out []Deferral) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.deferrals.all {
		if tenant == "" || tenant == x.tenant.name {
			out = append(out, Deferral{Tenant: x.tenant.name, Device: x.deviceID(), Limit: string(x.limit),
				From: l.deferrals.fromOf(x), Since: time.UnixMilli(x.published).UTC(), Readings: x.count})
		}
	}
	return out
}

// HeadDeferrals returns what is deferred of some devices of a tenant, or of all. Anyone may call it at any time.
func (l *Limits) HeadDeferrals(tenant string, devices []string) (out []store.HeadDeferral) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.deferrals.all {
		if x.tenant.name != tenant || x.device != nil && devices != nil && !slices.Contains(devices, x.device.id) {
			continue
		}
		out = append(out, store.HeadDeferral{Device: x.deviceID(), From: l.deferrals.fromOf(x), Since: x.published,
			Limit: string(x.limit)})
	}
	return out
}

// deviceID returns the deferral's device, empty for all of the tenant's.
func (x *deferral) deviceID() string {
	if x.device == nil {
		return ""
	}
	return x.device.id
}

// deferralBytes is what a wait takes in memory.
const deferralBytes = 160
