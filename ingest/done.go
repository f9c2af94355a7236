package ingest

import (
	"fmt"
	"time"
)

// Done takes the answer of a job.
func (w *Worker) Done(job Job, now time.Time) {
	switch j := job.(type) {
	case *Lookup:
		w.looked(j)
	case *Create:
		w.created(j, now)
	case *Bury:
		w.letters.done()
	case *Note:
		j.device.noting = false
		j.device.stored = j.Entry
	case *Stamp:
	default:
		panic(fmt.Sprintf("ingest: job %T is none of a Worker's", job))
	}
}

// looked takes the tail of a chain: rows at or below it are stored already (rules W3, W4).
func (w *Worker) looked(j *Lookup) {
	w.writes--
	c := j.chain
	c.looking = false
	number, tail := uint32(0), int64(-1)
	if j.Found {
		number, tail = j.Tail.Number+1, j.Tail.Through
	}
	w.adopt(c, number, tail)
	w.metrics.lookups.Inc()
}

// created takes the answer of a create: stored, or somebody else's chunk has that number (rule W6).
func (w *Worker) created(j *Create, now time.Time) {
	w.writes--
	c := j.chain
	if j.Existing != nil {
		w.metrics.conflicts.Inc()
		why := c.flight.reason
		w.adopt(c, j.Existing.Number+1, j.Existing.Through)
		if c.bin.Readings() > 0 {
			c.due = now
			w.ask(c, why)
		}
		return
	}
	f := c.flight
	w.metrics.chunk(f.reason, len(f.doc), f.rows.Values())
	w.mu.Lock()
	c.tail, c.number, c.used = f.rows.Through(), c.number+1, now
	c.linger = append(c.linger, lingering{f.rows, now.Add(w.cfg.Linger)})
	c.flight = nil
	w.mu.Unlock()
	if w.cfg.NoteEvery < 0 {
		w.noteStretch(c, f)
	}
	w.again(c)
}

// noteStretch has the catalog follow with every chunk: the offset is committed only when it has.
func (w *Worker) noteStretch(c *chain, f *flight) {
	d := w.device(c.key.deviceKey())
	if d.stretched() && !d.news {
		d.news, d.since = true, f.rows.First()
	}
}

// adopt takes number and tail as the truth, and drops what is at or below the tail.
func (w *Worker) adopt(c *chain, number uint32, tail int64) {
	w.mu.Lock()
	freed := c.adopt(number, tail)
	w.mu.Unlock()
	w.memory.add(-freed)
	w.suspect = max(w.suspect, tail)
	w.again(c)
}

// again puts a chain back into the queue when it is still to be cut.
func (w *Worker) again(c *chain) {
	if c.bin.Readings() == 0 {
		c.want = ""
		return
	}
	if c.want == "" && w.drain {
		w.ask(c, CutDrain)
	}
	if c.want != "" {
		w.ask(c, c.want)
	}
}

// Committed says up to where the log is committed, and answers a Stamp when one is due (rule W9).
func (w *Worker) Committed(offset int64, now time.Time) *Stamp {
	m := w.candidate
	if m == nil || m.Offset >= offset {
		return nil
	}
	w.candidate = nil
	if !w.stamped.IsZero() && now.Sub(w.stamped) < w.cfg.StampEvery {
		return nil
	}
	w.stamped = now
	return &Stamp{Stream: w.stream, Partition: w.partition, Mark: *m}
}
