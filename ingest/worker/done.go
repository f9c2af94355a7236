package worker

import (
	"fmt"
	"time"

	"binnacle/internal/store"
)

// Done takes the answer of a job.
func (w *Worker) Done(job Job, now time.Time) {
	switch j := job.(type) {
	case *Lookup:
		w.looked(j, now)
	case *Create:
		w.created(j, now)
	case *Bury:
		w.hold(-w.letters.done())
	case *Note:
		w.noted(j)
	case *Stamp:
		w.stamping, w.unmarked, w.stamped = false, false, now
	default:
		panic(fmt.Sprintf("worker: job %T is none of a Worker's", job))
	}
}

// looked takes the tail of a chain: rows at or below it are stored already (rules W3, W4).
func (w *Worker) looked(j *Lookup, now time.Time) {
	w.writes--
	c := j.chain
	c.looking = false
	var tail *store.Tail
	if j.Found {
		tail = &j.Tail
	}
	w.adopt(c, tail, now)
	w.observer.LookedUp()
	w.again(c)
}

// created takes the answer of a create: stored, or somebody else's chunk has that number (rule W6).
func (w *Worker) created(j *Create, now time.Time) {
	w.writes--
	c, f := j.chain, j.chain.flight
	if j.Existing != nil {
		w.observer.Conflict()
		w.adopt(c, j.Existing, now)
		if c.bin.Readings() > 0 && c.bin.First() <= f.rows.Through() {
			w.schedule(c, now) // it was to be cut already
			w.ask(c, f.reason)
		}
		w.again(c)
		return
	}
	w.observer.Stored(f.reason, len(f.doc), f.rows.Values())
	from, to := f.rows.Span()
	w.mu.Lock()
	c.tail, c.number, c.span, c.used = f.rows.Through(), c.number+1, span{from, to}, now
	c.linger = append(c.linger, lingering{f.rows, now.Add(w.cfg.Linger)})
	c.flight = nil
	w.mu.Unlock()
	if w.cfg.NoteEvery < 0 {
		w.noteStretch(c, f)
	}
	w.again(c)
}

// adopt takes a tail, nil for none, as the truth, and drops what is at or below it.
func (w *Worker) adopt(c *chain, tail *store.Tail, now time.Time) {
	w.mu.Lock()
	grown := c.adopt(tail, now.Add(w.cfg.Linger))
	w.mu.Unlock()
	w.hold(grown)
	if tail != nil {
		w.suspect = max(w.suspect, tail.Through)
	}
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

// Committed says up to where the log is committed, and answers a Stamp when one is due: the first one at once, because
// nothing is created before it, later ones for records that are committed (rule W9).
func (w *Worker) Committed(offset int64, now time.Time) *Stamp {
	m := w.candidate
	if m == nil || w.stamping || !w.unmarked && m.Offset >= offset {
		return nil
	}
	w.candidate = nil
	if !w.unmarked && !w.stamped.IsZero() && now.Sub(w.stamped) < w.cfg.StampEvery {
		return nil
	}
	w.stamping = true
	return &Stamp{Stream: w.stream, Partition: w.partition, Mark: *m}
}
