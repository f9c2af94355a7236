package worker

import (
	"cmp"
	"time"

	"binnacle/ingest/decode"
	"binnacle/ingest/throttle"
	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// throttled is the registry of devices as the throttle needs it.
type throttled struct{ w *Worker }

// Device returns what a device carries for its limits, nil when nothing is known of the device.
func (x throttled) Device(tenant, id string) *throttle.Device {
	if t := x.w.registry.known(tenant); t != nil {
		if d := t.find(id); d != nil {
			return &d.limited
		}
	}
	return nil
}

// Chain reports whether a device has a chain of a day, and whether rows of that are about to be cut.
func (x throttled) Chain(tenant, id string, day telemetry.Day) (known, cutting bool) {
	t := x.w.registry.known(tenant)
	if t == nil {
		return false, false
	}
	d := t.find(id)
	if d == nil {
		return false, false
	}
	c := d.chain(day)
	return c != nil, c != nil && c.acting() && c.flight == nil
}

// Forget drops a device that is not needed any more.
func (x throttled) Forget(tenant, id string) {
	if t := x.w.registry.known(tenant); t != nil {
		if d := t.find(id); d != nil {
			x.w.forgetUnused(d)
		}
	}
}

// takeAll takes the readings of a record, or of one that was read again those that are deferred and may go on, and
// returns how many it took.
func (w *Worker) takeAll(f *feed) (taken int) {
	f.oversize = w.verdicts.oversize(f.record, f.Readings)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.throttle.CheckRates(&f.Feed)
	for i := range f.Readings {
		r := &f.Readings[i]
		if w.erasing.covers(f, r) {
			continue
		}
		if f.Limited && w.throttle.Defers(&f.Feed, r) {
			continue
		}
		bad := w.verdicts.verdict(f, r)
		if bad == nil && f.Limited {
			bad = w.throttle.Refuses(&f.Feed, r)
		}
		if bad == nil {
			w.take(f, r)
			taken++
			continue
		}
		if f.Limited && bad.Reason != decode.Limit {
			w.throttle.ChargeRefused(&f.Feed, r)
		}
		if bad.Index = f.index[i]; f.Again {
			w.publisher.refuseDeferred(f.record, r, *bad)
		} else {
			w.publisher.refuse(f.record, *bad)
		}
	}
	return taken
}

// FeedDeferred takes the next record that was read again: of its readings those that are deferred and may go on. It
// fails as Feed does.
func (w *Worker) FeedDeferred(rec Record, snapshot *control.Snapshot, now time.Time) error {
	if !w.throttle.Pass(rec.Offset) {
		return nil
	}
	if rec.Offset >= w.log.Position {
		w.throttle.SkipTo(rec.Offset, now)
		return nil
	}
	defer w.taking.end()
	result := rec.decode(w.decoder)
	if result.Unknown != nil {
		return result.Unknown
	}
	mine := result.Readings[:0]
	index := result.Index[:0]
	for i := range result.Readings {
		if x := &result.Readings[i]; w.throttle.Resumes(x, rec.Offset) {
			mine, index = append(mine, *x), append(index, result.Index[i])
		}
	}
	if len(mine) > 0 {
		f := newFeed(&rec, snapshot, now)
		f.Readings, f.index, f.Again = mine, index, true
		if err := cmp.Or(w.erasing.awaited(&f), w.verdicts.placeable(&f)); err != nil {
			return err
		}
		taken := w.takeAll(&f)
		w.countMemory()
		w.observer.Resumed(taken)
	}
	w.throttle.SkipTo(rec.Offset+1, now)
	return nil
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
