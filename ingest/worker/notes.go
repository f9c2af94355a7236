package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// maxNotes bounds the notes under way.
const maxNotes = 64

// MaxJobs bounds the jobs of one Worker that are under way: writes, notes, burials, one stamp.
func (c Config) MaxJobs() int { return c.MaxWrites + maxNotes + maxBurials + 2 }

func newNews() ordered[*device] {
	return newOrdered(func(d *device) *int32 { return &d.held }, func(a, b *device) bool {
		x, _ := a.holdsBack()
		y, _ := b.holdsBack()
		return x < y
	})
}

func newLooks() ordered[*device] {
	place := func(d *device) *int32 { return &d.look }
	return newOrdered(place, func(a, b *device) bool { return a.lookAt.Before(b.lookAt) })
}

// fileNews puts a device among those that hold back the committed offset, or takes it out.
func (w *Worker) fileNews(d *device) {
	if _, ok := d.holdsBack(); ok {
		w.news.put(d)
	} else {
		w.news.remove(d)
	}
}

// observe takes note of what a reading shows of its device.
func (w *Worker) observe(d *device, offset int64, r *telemetry.Reading, repeats bool) {
	if d.observe(offset, r, repeats, &w.columns) {
		w.countDevice(d)
		w.fileNews(d)
		w.noteSoon(d)
	}
	if d.look == 0 && w.cfg.NoteEvery >= 0 && d.stretched() {
		w.noteSoon(d)
	}
}

// restored takes note of rows that turned out to be stored already, from an offset on: whoever stored them may have
// died before the catalog had their times.
func (w *Worker) restored(d *device, offset int64) {
	if w.cfg.NoteEvery >= 0 || !d.stretched() {
		return
	}
	d.tell(offset)
	w.fileNews(d)
	w.noteSoon(d)
}

// tailed takes note of the times of a chunk that the store told of.
func (w *Worker) tailed(c *chain, tail *store.Tail) {
	if d := c.device; tail != nil && !d.seen.empty() {
		d.seen.span(tail.From)
		d.seen.span(tail.To)
		if d.stretched() {
			w.noteSoon(d)
		}
	}
}

// noteSoon puts a device among those that may have something for the catalog.
func (w *Worker) noteSoon(d *device) {
	if !d.queued {
		d.queued = true
		w.unnoted.push(d)
	}
}

// notes brings the catalog up to date: at once for what was never seen, now and then for times.
func (w *Worker) notes(jobs []Job, now time.Time) []Job {
	for w.looks.len() > 0 && !w.looks.first().lookAt.After(now) {
		d := w.looks.first()
		w.looks.remove(d)
		if d.stretched() {
			w.noteSoon(d)
		}
	}
	w.allow(now)
	for w.unnoted.len() > 0 && w.noting < maxNotes && w.allowed >= 1 && w.catalog.open(now) {
		d := w.unnoted.pop()
		d.queued = false
		if !d.noting && w.notable(d, now) { // else it comes back when the note under way is done, or it is time
			w.noting++
			w.allowed--
			jobs = append(jobs, w.note(d, now))
		}
	}
	return jobs
}

// notable reports whether a device has something for the catalog now: what is new at once, a later time when it is due.
func (w *Worker) notable(d *device, now time.Time) bool {
	return d.news || d.stretched() && (!d.listed || d.seen.first < d.first || w.timely(d, now))
}

// timely reports whether a later time alone is worth a write.
func (w *Worker) timely(d *device, now time.Time) bool {
	return w.cfg.NoteEvery < 0 || w.drain || len(d.chains) == 0 || d.listed && !now.Before(d.lookAt)
}

// A takeover finds every device unknown, and each must be compared with its entry before the floor may pass its first
// reading. The bins hold the floor anyway until the hold is over, so that is done evenly within half of it; a few are
// done at once.
const (
	noteBurst = 256
	noteRate  = 64 // a second, at least
)

// allow says how many notes may begin now.
func (w *Worker) allow(now time.Time) {
	if w.backlog = max(w.backlog, w.unnoted.len()); w.unnoted.len() == 0 {
		w.backlog = 0
	}
	rate := max(noteRate, 2*float64(w.backlog)/max(w.cfg.Hold.Seconds(), 1))
	if since := now.Sub(w.allowedAt); w.drain || w.allowedAt.IsZero() || since < 0 {
		w.allowed = noteBurst
	} else {
		w.allowed = min(noteBurst, w.allowed+rate*since.Seconds())
	}
	w.allowedAt = now
}

// note is the next Note of a device, and clears the news that it carries.
func (w *Worker) note(d *device, now time.Time) *Note {
	d.noting, d.carried = true, d.since
	if !d.news {
		d.carried = noOffset
	}
	d.news, d.since = false, 0
	w.fileNews(d)
	times := w.timely(d, now)
	if w.cfg.NoteEvery >= 0 && (times || !d.listed) {
		every := w.cfg.NoteEvery
		if !d.listed {
			every = binning.FirstHold(d.id, every) // a fleet that came over together is not written together
		}
		d.lookAt = now.Add(every)
		w.looks.put(d)
	}
	seen := d.seen.entry(d.tenant.name, d.id)
	return &Note{Tenant: d.tenant.name, Device: d.id, Seen: seen, Times: times, device: d}
}

// noted takes a Note back.
func (w *Worker) noted(j *Note, now time.Time) {
	w.noting--
	d := j.device
	d.noting = false
	switch r := j.Ended(); r.Fault {
	case None:
		w.catalog = backoff{}
		d.listed, d.first, d.last = true, j.Entry.First, j.Entry.Last
	case Rejected: // what the catalog will never take holds nothing up: it is for listing only
		d.listed, d.first, d.last = true, d.seen.first, d.seen.last
	default:
		w.catalog.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
		if d.carried != noOffset {
			d.tell(d.carried)
		}
		if d.lookAt = now; j.Times && w.cfg.NoteEvery >= 0 {
			w.looks.put(d)
		}
		w.noteSoon(d)
	}
	w.fileNews(d)
	if d.news || w.drain && d.stretched() || d.listed && d.seen.first < d.first {
		w.noteSoon(d)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(d)
}

// noteStretch has the catalog follow with every chunk: the offset is committed only when it has.
func (w *Worker) noteStretch(c *chain, f *flight) {
	if d := c.device; d.stretched() {
		d.tell(f.rows.First())
		w.fileNews(d)
		w.noteSoon(d)
	}
}
