package worker

import (
	"binnacle/ingest/admit"
	"binnacle/internal/control"
	"time"
)

// Deferred is the readings of a partition that are deferred: they stay in the log, which is read again for them.
type Deferred struct {
	*admit.Limits
	w *Worker
}

// Deferred returns the readings that are deferred.
func (w *Worker) Deferred() Deferred { return Deferred{w.admission.Limits, w} }

// Next returns the offset from which the caller must read the log again now; ok is false if nothing may be taken yet.
// The caller feeds each record from there, in order, calls SkipTo where records are missing, and asks again.
func (d Deferred) Next(now time.Time) (offset int64, ok bool) {
	return d.Limits.Next(d.w.bins.Log.Log, now)
}

// SkipTo says that nothing is deferred below an offset any more.
func (d Deferred) SkipTo(next int64, now time.Time) {
	d.Limits.SkipTo(next, d.w.bins.Log.Log, now)
}

// Awaits reports whether no new record should be fed because registrations are under way and the last records held
// nothing but readings that wait for them.
func (d Deferred) Awaits(now time.Time) bool { return d.w.admission.Awaits(now) }

// CatchesUp reports whether the records that Next asks for go before new ones.
func (d Deferred) CatchesUp() bool { return d.w.admission.CatchesUp() }

// Feed takes the next record that was read again, and resumes the readings that may be. It fails as Worker.Feed does.
func (d Deferred) Feed(rec admit.Record, snapshot *control.Snapshot, now time.Time) error {
	w := d.w
	if !d.Pass(rec.Offset) {
		return nil
	}
	if rec.Offset >= w.bins.Log.Position {
		d.SkipTo(rec.Offset, now)
		return nil
	}
	defer w.taking.end()
	out, ok, err := w.admission.AdmitAgain(&rec, admit.Moment{Snapshot: snapshot, Now: now, Log: w.bins.Log.Log})
	if err != nil {
		return err
	}
	if ok {
		for i := range out.Refused {
			w.writer.Publisher.RefuseDeferred(&rec, &out.Refused[i])
		}
		w.take(rec.Offset, out.Take, now)
		w.settle()
		w.observer.Resumed(len(out.Take))
	}
	d.SkipTo(rec.Offset+1, now)
	return nil
}
