package worker

import (
	"cmp"
	"slices"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// waiting is readings that stay in the log because they are over a rate: all of a tenant, or of one of its devices,
// from an offset on. So they keep their order (rule W2), and what is not taken needs no memory. Those below the
// Worker's position are recalled: read from the log again when it is time.
type waiting struct {
	tenant *tenant
	device *device // nil: all of the tenant's
	limit  limitName
	from   int64 // offset below which nothing waits
	since  int64 // when what stands there was published, ms
	until  int64 // when that may be taken, ns

	blocked bool  // in the pass that is under way: it waits until then
	refuses int64 // the offset above that of the record that has waited for too long, 0 for none
	count   int64 // of readings that were set aside when they were read first
}

// at is from when on it is worth while to read the log for it again: something may be taken, or has waited for so long
// that it is refused. A bucket may be overdrawn for much longer than anything waits, by a single record.
func (x *waiting) at(heldFor time.Duration) time.Time {
	paid := time.Unix(0, x.until)
	if x.since < 0 {
		return paid
	}
	if expires := time.UnixMilli(x.since).Add(heldFor).Add(time.Millisecond); expires.Before(paid) {
		return expires
	}
	return paid
}

// recall reads the log again for what waits, in passes. A pass begins with the lowest offset that waits for somebody
// who may take something, and ends at the position, or when all have taken what they may. Where nobody waits for
// anything it jumps.
type recall struct {
	all    []*waiting
	under  bool       // a pass is under way
	cursor int64      // where it is
	later  []*waiting // those that it has not reached, by offset
	active int        // how many it has reached that may take more
	next   time.Time  // the next pass does not begin before
	threat int64      // the source is about to delete what lies below

	letters deadLetters      // of what was recalled
	lowest  minima           // their offsets
	pending map[chainKey]int // how many of them are of a chain
}

// recallEvery is the least time between passes: what has been paid for meanwhile is taken together.
const recallEvery = 250 * time.Millisecond

// mostWaiting bounds the devices of a tenant that wait by themselves; with one more the tenant waits as a whole.
const mostWaiting = 64

// set has readings wait from an offset on, of a device or of all of them; recalled says that the pass has come to it
// just now. The caller holds the lock.
func (w *Worker) set(t *tenant, d *device, x waiting, recalled bool) {
	if d != nil && t.slow >= mostWaiting {
		d = nil
	}
	if d == nil && t.waits != nil {
		return // as the devices do, of which there are too many
	}
	x.tenant, x.device = t, d
	if d != nil {
		w.rating(d).waits = &x
		t.slow++
	} else {
		t.waits = &x
	}
	r := &w.recall
	r.all = append(r.all, &x)
	if x.blocked = recalled; r.under && !recalled {
		r.later = append(r.later, &x) // nothing waits from a higher offset on
	}
}

// release ends a wait: all was taken. The caller holds the lock.
func (w *Worker) release(x *waiting) {
	if x.device == nil {
		x.tenant.waits = nil
		return
	}
	w.rating(x.device).waits = nil
	x.tenant.slow--
	w.leave(x.device)
}

// waitsAt reports whether a reading at an offset waits, and whether it can't be taken in this pass.
func (t *tenant) waitsAt(d *device, offset int64) (waits, blocked bool) {
	if x := t.waits; x != nil && offset >= x.from {
		waits, blocked = true, x.blocked
	}
	if t.slow > 0 {
		if x := d.waiting(); x != nil && offset >= x.from {
			waits, blocked = true, blocked || x.blocked
		}
	}
	return waits, blocked
}

// isSlow reports whether readings of the device wait: what is taken of them was read long ago, and comes slowly.
func (d *device) isSlow() bool {
	return d.tenant.waits != nil || d.tenant.slow > 0 && d.waiting() != nil
}

// Recall is the offset from which on the log is to be read again now; ok is false if nothing may be taken yet. Whoever
// reads it calls Recalled with each record, in their order, and RecalledTo where there is none, and asks again.
func (w *Worker) Recall(now time.Time) (offset int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.recall
	if len(r.all) == 0 || w.yield(now) {
		return 0, false
	}
	if !r.under && !now.Before(r.next) {
		w.beginPass(now)
	}
	return r.cursor, r.under
}

// RecallAt is when Recall is worth a question; ok is false for not at all.
func (w *Worker) RecallAt() (at time.Time, ok bool) {
	r := &w.recall
	if len(r.all) == 0 || w.fair.yields {
		return time.Time{}, false // who yields is asked again after what comes in
	}
	for i, x := range r.all {
		if due := x.at(w.cfg.HeldFor); i == 0 || due.Before(at) {
			at = due
		}
	}
	if r.under || r.all[0].from < r.threat {
		return r.next, true
	}
	return later(at, r.next), true
}

// beginPass begins a pass if somebody may take something, or has waited for too long.
func (w *Worker) beginPass(now time.Time) {
	r := &w.recall
	r.later, r.active = r.later[:0], 0
	for _, x := range r.all {
		if x.blocked = x.at(w.cfg.HeldFor).After(now) && x.from >= r.threat; !x.blocked {
			r.later = append(r.later, x)
		}
	}
	if len(r.later) == 0 {
		return
	}
	slices.SortFunc(r.later, func(a, b *waiting) int { return cmp.Compare(a.from, b.from) })
	r.under, r.cursor = true, r.later[0].from
	w.reach(now)
}

// reach goes on with those whose offset the pass has reached, jumps to the next one if there are none, and ends the
// pass when there is nothing left for it to do. The caller holds the lock.
func (w *Worker) reach(now time.Time) {
	r := &w.recall
	if r.active == 0 && len(r.later) > 0 {
		r.cursor = max(r.cursor, r.later[0].from)
	}
	for len(r.later) > 0 && r.later[0].from <= r.cursor {
		r.active++
		r.later = r.later[1:]
	}
	if r.active > 0 && r.cursor < w.position {
		return
	}
	waits := r.all[:0]
	for _, x := range r.all {
		if x.blocked || x.from > r.cursor {
			waits = append(waits, x)
			continue
		}
		w.release(x)
	}
	clear(r.all[len(waits):])
	r.all, r.under, r.next = waits, false, now.Add(recallEvery)
	for _, x := range r.all {
		x.blocked = false
	}
}

// block ends a wait's part in the pass: what stands at an offset can't be taken yet.
func (r *recall) block(x *waiting, rec *Record, until int64) {
	if !x.blocked {
		x.blocked = true
		r.active--
	}
	x.from, x.since, x.until = rec.Offset, rec.Time, until
}

// Recalled takes the next record of the log that was read again: of its readings those that wait and may go on. It
// fails as Feed does.
func (w *Worker) Recalled(rec Record, view *control.View, now time.Time) error {
	r := &w.recall
	if !r.under || rec.Offset < r.cursor {
		return nil
	}
	if rec.Offset >= w.position {
		w.RecalledTo(rec.Offset, now)
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
		if t := w.known(x.Tenant); t != nil && (t.waits != nil || t.slow > 0) {
			if waits, blocked := t.waitsAt(t.find(x.Device), rec.Offset); waits && !blocked {
				mine, index = append(mine, *x), append(index, result.Index[i])
			}
		}
	}
	if len(mine) > 0 {
		if err := w.placeable(&rec, mine, view, now); err != nil {
			return err
		}
		taken := w.takeAll(&rec, mine, index, view, now, true)
		w.settle()
		w.observer.Recalled(taken)
	}
	w.RecalledTo(rec.Offset+1, now)
	return nil
}

// RecalledTo says that there is nothing else to recall below an offset.
func (w *Worker) RecalledTo(next int64, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.recall
	if !r.under {
		return
	}
	r.cursor = max(r.cursor, min(next, w.position))
	w.reach(now)
}

// Gone says that the log has lost what lies below an offset, and returns from where on something waited there; ok is
// false if nothing did.
func (w *Worker) Gone(first int64) (from int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.recall.all {
		if x.from < first {
			if !ok || x.from < from {
				from, ok = x.from, true
			}
			x.from = first
		}
	}
	if ok {
		w.endPass()
	}
	return from, ok
}

// endPass breaks a pass off: the next one begins where it was.
func (w *Worker) endPass() {
	r := &w.recall
	if !r.under {
		return
	}
	for _, x := range r.all {
		x.from = w.reached(x)
	}
	for _, x := range r.all {
		x.blocked = false
	}
	r.under, r.later, r.active = false, nil, 0
}

// waitsFrom is the lowest offset at which something waits, or was recalled and refused without anybody having
// acknowledged it; ok is false for none.
func (w *Worker) waitsFrom() (offset int64, ok bool) {
	r := &w.recall
	offset, ok = r.lowest.first()
	for _, x := range r.all {
		if at := w.reached(x); !ok || at < offset {
			offset, ok = at, true
		}
	}
	return offset, ok
}

// refuseRecalled makes a dead letter of a reading that has waited.
func (w *Worker) refuseRecalled(rec *Record, x *telemetry.Reading, bad decode.Bad) {
	r := &w.recall
	l := DeadLetter{Topic: w.cfg.Topic, Partition: w.partition, Record: *rec, Bad: bad}
	l.chain = chainKey{x.Tenant, x.Device, telemetry.DayOf(x.Time)}
	w.observer.Refused(bad.Reason)
	if r.letters.add(l) {
		r.lowest.push(rec.Offset)
	} else if !r.letters.also(l.chain) {
		return // the last one speaks for it
	}
	if r.pending == nil {
		r.pending = map[chainKey]int{}
	}
	r.pending[l.chain]++
}

// acknowledged takes dead letters of what was recalled as published.
func (r *recall) acknowledged(letters []DeadLetter) {
	for i := range letters {
		l := &letters[i]
		r.lowest.pop(l.Record.Offset)
		r.decided(l.chain)
		for c := range l.also {
			r.decided(c)
		}
	}
}

// decided takes a letter that speaks for a chain as published.
func (r *recall) decided(c chainKey) {
	if r.pending[c]--; r.pending[c] <= 0 {
		delete(r.pending, c)
	}
}

// undecidedOf reports whether dead letters of a chain's readings that had waited are not acknowledged: no chunk and no
// block of it may be made before, as with other dead letters (rules W5, J2). Those are of its own chain, and stand
// below what it takes later: no other chain waits for them.
func (w *Worker) undecidedOf(c *chain) bool {
	return len(w.recall.pending) > 0 && w.recall.pending[chainKey{c.device.tenant.name, c.device.id, c.day}] > 0
}

// Waiting is readings that wait in the log for a limit.
type Waiting struct {
	Tenant   string    `json:"tenant"`
	Device   string    `json:"device,omitempty"` // empty: all of the tenant's
	Limit    string    `json:"limit"`
	From     int64     `json:"offset"`   // of the first record with some
	Since    time.Time `json:"since"`    // when that was published
	Readings int64     `json:"readings"` // that were set aside so far, those among them that have gone on since too
}

// Waiting is what waits, of one tenant or, with "", of all. It may be called by anyone at any time.
func (w *Worker) Waiting(tenant string) (out []Waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.recall.all {
		if tenant != "" && tenant != x.tenant.name {
			continue
		}
		one := Waiting{Tenant: x.tenant.name, Limit: string(x.limit), From: w.reached(x),
			Since: time.UnixMilli(x.since).UTC(), Readings: x.count}
		if x.device != nil {
			one.Device = x.device.id
		}
		out = append(out, one)
	}
	return out
}

// headWaits is what waits of some devices of a tenant, or of all. The caller holds the lock.
func (w *Worker) headWaits(t *tenant, devices []string) (out []store.HeadWait) {
	for _, x := range w.recall.all {
		if x.tenant != t || x.device != nil && devices != nil && !slices.Contains(devices, x.device.id) {
			continue
		}
		one := store.HeadWait{From: w.reached(x), Since: x.since, Limit: string(x.limit)}
		if x.device != nil {
			one.Device = x.device.id
		}
		out = append(out, one)
	}
	return out
}

// reached is the offset below which nothing waits any more.
func (w *Worker) reached(x *waiting) int64 {
	if r := &w.recall; r.under && !x.blocked && x.from <= r.cursor {
		return r.cursor
	}
	return x.from
}

// minima is a queue of numbers that knows the least of them.
type minima struct{ candidates fifo[int64] }

func (m *minima) push(n int64) {
	for c := &m.candidates; c.len() > 0 && c.items[len(c.items)-1] > n; {
		c.unpush()
	}
	m.candidates.push(n)
}

// pop takes out the number that came first, which is given.
func (m *minima) pop(n int64) {
	if m.candidates.len() > 0 && m.candidates.front() == n {
		m.candidates.pop()
	}
}

func (m *minima) first() (n int64, ok bool) {
	if m.candidates.len() == 0 {
		return 0, false
	}
	return m.candidates.front(), true
}

// waitingBytes is what a wait takes in memory.
const waitingBytes = 160

// goneOn takes that everything below a position was taken by somebody else. The caller holds the lock.
func (w *Worker) goneOn(position int64) {
	w.endPass()
	for _, x := range w.recall.all {
		x.from = max(x.from, position)
	}
}

// share shares out limits to so many partitions. The caller holds the lock.
func (w *Worker) share(partitions int) {
	if partitions = max(1, partitions); partitions == w.partitions {
		return
	}
	w.partitions = partitions
	for _, t := range w.tenants {
		t.limits = newLimits(t.said, partitions)
	}
}

// decided lets chains go on that have waited for dead letters of what was recalled.
func (w *Worker) decided(now time.Time) {
	for n := w.undecideds.len(); n > 0; n-- {
		c := w.undecideds.pop()
		switch {
		case c.phase != sealed:
		case w.undecidedOf(c):
			w.undecideds.push(c)
		default:
			c.release()
			w.enqueue(c, now)
			w.file(c)
		}
	}
}
