package worker

import (
	"time"

	"binnacle/binning"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

const (
	maxNotes = 8 // under way
	// noteBatch is how many devices one Note tells of at most: some pages of the catalog.
	noteBatch = 4096
)

// MaxJobs bounds the jobs of one Worker that are under way: writes, notes, burials of chunks, of what was refused when
// it came and of what had waited, a census, a stamp, an append.
func (c Config) MaxJobs() int { return c.MaxWrites + maxNotes + maxBurials + 2 + 3 }

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
		d.tenant.news(d)
		w.countDevice(d)
		w.fileNews(d)
		w.noteSoon(d)
	}
	if w.cfg.NoteEvery >= 0 && d.stretched() && (d.look == 0 || w.astray(d)) {
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
		w.mu.Lock()
		d.seen.span(tail.From)
		d.seen.span(tail.To)
		w.mu.Unlock()
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

// notes brings the catalog up to date: soon with what was never seen, now and then with times. What is told together
// takes few documents, so that after some news the next ones wait for others.
func (w *Worker) notes(jobs []Job, now time.Time) []Job {
	for w.looks.len() > 0 && !w.looks.first().lookAt.After(now) {
		d := w.looks.first()
		w.looks.remove(d)
		if d.stretched() {
			w.noteSoon(d)
		}
	}
	for w.toldOnes.len() > 0 && w.toldOnes.front().toldUntil < now.UnixMilli() {
		w.shown(w.toldOnes.pop())
	}
	at := w.unnoted.len()
	hurry := w.drain || w.journal.flush || at >= noteBatch
	if at == 0 || !w.catalog.open(now) || !hurry && now.Sub(w.notedAt) < w.cfg.NoteWait {
		return jobs
	}
	open := make(map[*tenant]*Note)
	for ; at > 0 && w.noting < maxNotes; at-- {
		d := w.unnoted.pop()
		d.queued = false
		if d.noting || !w.notable(d, now) { // it comes back when the note under way is done, or it is time
			continue
		}
		j := open[d.tenant]
		if j == nil {
			j = &Note{Tenant: d.tenant.name}
			open[d.tenant] = j
			w.noting++
			jobs = append(jobs, j)
		}
		w.note(j, d, now)
		if len(j.devices) == noteBatch {
			delete(open, d.tenant)
		}
	}
	if at == 0 && (len(open) > 0 || w.noting > 0) { // what is left over goes on as soon as others have ended
		w.notedAt = now
	}
	return jobs
}

// notable reports whether a device has something for the catalog now: what is new at once, a later time when it is due.
func (w *Worker) notable(d *device, now time.Time) bool {
	return d.news || d.stretched() && (!d.listed || w.astray(d) || w.timely(d, now))
}

// astray reports whether the times that the catalog has of a device do not wait for their turn: lists of a range count
// on its first time, and on a last one that is no further behind than a device gets that reports as time goes by.
func (w *Worker) astray(d *device) bool {
	return d.listed && (d.seen.first < d.first || w.ahead(d))
}

func (w *Worker) ahead(d *device) bool { return d.seen.last-d.last >= w.cfg.NoteEvery.Milliseconds() }

// timely reports whether a later time alone is worth a write.
func (w *Worker) timely(d *device, now time.Time) bool {
	return w.cfg.NoteEvery < 0 || w.drain || len(d.chains) == 0 || d.listed && (!now.Before(d.lookAt) || w.ahead(d))
}

// note puts a device into a Note, and clears the news that it carries.
func (w *Worker) note(j *Note, d *device, now time.Time) {
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
		w.lookLater(d, now, every)
	}
	j.devices, j.Times = append(j.devices, d), append(j.Times, times)
	j.Seen = append(j.Seen, d.seen.entry(d.id, d.tenant.units))
}

// looksOfNoteEvery is how many times in NoteEvery devices' times are compared with the catalog's.
const looksOfNoteEvery = 14

// lookLater has the times of a device compared with the catalog's after so long or a little sooner, together with those
// of others: what is told of one device alone takes a page, and a look at the pages that there are.
func (w *Worker) lookLater(d *device, now time.Time, after time.Duration) {
	d.lookAt = now.Add(after)
	if group := w.cfg.NoteEvery / looksOfNoteEvery; group > 0 {
		d.lookAt = d.lookAt.Truncate(group)
		if !d.lookAt.After(now) { // whoever takes over many devices tells none of them at once
			d.lookAt = d.lookAt.Add(group)
		}
	}
	w.looks.put(d)
}

// shown has heads tell no more of a device that every reader sees in the catalog, unless there is news of it again.
func (w *Worker) shown(d *device) {
	if d.toldUntil > 0 {
		w.mu.Lock()
		d.tenant.shown(d)
		w.mu.Unlock()
	}
}

// noted takes a Note back.
func (w *Worker) noted(j *Note, now time.Time) {
	w.noting--
	r := j.Ended()
	switch r.Fault {
	case None, Rejected: // what the catalog will never take holds nothing up: it is for listing only
		w.catalog = backoff{}
	default:
		w.catalog.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
		w.notedAt = time.Time{} // nothing was told: it does not wait for more, too
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range j.devices {
		d.noting = false
		switch r.Fault {
		case None:
			d.listed, d.first, d.last = true, j.Listed[i].First, j.Listed[i].Last
		case Rejected:
			d.listed, d.first, d.last = true, d.seen.first, d.seen.last
		default:
			if d.carried != noOffset {
				d.tell(d.carried)
			}
			if d.lookAt = now; j.Times[i] && w.cfg.NoteEvery >= 0 {
				w.looks.put(d)
			}
			w.noteSoon(d)
		}
		w.fileNews(d)
		if d.news || w.drain && d.stretched() || w.cfg.NoteEvery >= 0 && w.astray(d) {
			w.noteSoon(d)
		}
		if r.Fault == None && !d.news {
			d.tenant.told(d, now.Add(w.cfg.Linger))
			w.toldOnes.push(d)
		}
		w.leave(d)
	}
}

// noteStretch has the catalog follow with every chunk: the offset is committed only when it has.
func (w *Worker) noteStretch(c *chain, f *flight) {
	if d := c.device; d.stretched() {
		d.tell(f.rows.First())
		w.fileNews(d)
		w.noteSoon(d)
	}
}
