package worker

import (
	"time"

	"binnacle/internal/control"
)

// maxNotes bounds the notes under way.
const maxNotes = 64

// MaxJobs bounds the jobs of one Worker that are under way: writes, notes, one burial, one stamp.
func (c Config) MaxJobs() int { return c.MaxWrites + maxNotes + 2 }

// noteSoon puts a device among those that may have something for the catalog.
func (w *Worker) noteSoon(d *device) {
	if !d.queued {
		d.queued = true
		w.unnoted = append(w.unnoted, d)
	}
}

// notes brings the catalog up to date: at once for what was never seen, now and then, which is when look is set, for times.
func (w *Worker) notes(jobs []Job, now time.Time, look bool) []Job {
	if look && w.cfg.NoteEvery >= 0 {
		for _, d := range w.devices {
			if d.stretched() && now.Sub(d.noted) >= w.cfg.NoteEvery {
				w.noteSoon(d)
			}
		}
	}
	for len(w.unnoted) > 0 && w.noting < maxNotes {
		d := w.unnoted[0]
		w.unnoted[0] = nil
		w.unnoted = w.unnoted[1:]
		d.queued = false
		if !d.noting && (d.news || d.stretched()) { // else it comes back when the note under way is done
			w.noting++
			jobs = append(jobs, d.note(now))
		}
	}
	return jobs
}

// note is the next Note, and clears the news that it carries.
func (d *device) note(now time.Time) *Note {
	d.noting, d.carried, d.noted = true, d.since, now
	if !d.news {
		d.carried = noOffset
	}
	d.news, d.since = false, 0
	seen := merged(control.Device{Tenant: d.key.tenant, Device: d.key.device}, d.seen.Device)
	return &Note{Tenant: d.key.tenant, Device: d.key.device, Seen: seen, device: d}
}

// noted takes the answer of a Note.
func (w *Worker) noted(j *Note) {
	w.noting--
	d := j.device
	d.noting, d.listed, d.first, d.last = false, true, j.Entry.First, j.Entry.Last
	if d.news || w.drain && d.stretched() {
		w.noteSoon(d)
	}
}

// noteStretch has the catalog follow with every chunk: the offset is committed only when it has.
func (w *Worker) noteStretch(c *chain, f *flight) {
	if d := c.device; d.stretched() {
		d.tell(f.rows.First())
		w.noteSoon(d)
	}
}
