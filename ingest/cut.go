package ingest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/control"
)

// Jobs decides what is to be cut and answers what is to be done outside. It is called after records were fed,
// after a job was done, and when the time of Next has come.
func (w *Worker) Jobs(now time.Time, view *control.View) []Job {
	for c := w.timers.pop(now); c != nil; c = w.timers.pop(now) {
		w.ask(c, CutHold)
	}
	if len(w.ready) == 0 {
		w.relieve()
	}
	var jobs []Job
	if w.drain || now.Sub(w.swept) >= w.cfg.CommitEvery {
		w.swept = now
		w.catchUp()
		w.sweep(now)
		jobs = w.notes(jobs, now)
	}
	if b := w.letters.job(); b != nil {
		jobs = append(jobs, b)
	}
	return w.cuts(jobs, now, view)
}

// relieve cuts the fullest bins while memory is short.
func (w *Worker) relieve() {
	over := w.memory.over()
	if over == 0 {
		return
	}
	for _, c := range w.chains {
		if c.flight != nil {
			over -= int64(c.flight.rows.Bytes())
		}
	}
	for _, c := range w.fullest() {
		if over <= 0 {
			return
		}
		over -= int64(c.bin.Bytes())
		w.ask(c, CutMemory)
	}
}

// fullest is the chains with an open bin, those that hold most first.
func (w *Worker) fullest() []*chain {
	var open []*chain
	for _, c := range w.chains {
		if c.bin.Readings() > 0 {
			open = append(open, c)
		}
	}
	slices.SortFunc(open, func(a, b *chain) int {
		return cmp.Or(cmp.Compare(b.bin.Bytes(), a.bin.Bytes()), cmp.Compare(a.bin.First(), b.bin.First()))
	})
	return open
}

// catchUp cuts the bins that hold back the committed offset by more records than allowed (rule W7).
func (w *Worker) catchUp() {
	if w.position-w.Floor() <= w.cfg.MaxBehind {
		return
	}
	for _, c := range w.chains {
		if c.bin.Readings() > 0 && w.position-c.bin.First() > w.cfg.MaxBehind {
			w.ask(c, CutBehind)
		}
	}
}

// cuts starts what is ready, as far as writes may be in flight.
func (w *Worker) cuts(jobs []Job, now time.Time, view *control.View) []Job {
	queue := w.ready
	w.ready = nil
	for i, c := range queue {
		if w.writes >= w.cfg.MaxWrites {
			w.ready = append(w.ready, queue[i:]...)
			break
		}
		c.queued = false
		job, wait := w.start(c, now, view)
		if wait {
			c.queued = true
			w.ready = append(w.ready, c)
		}
		if job != nil {
			w.writes++
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// start begins the next step towards a chain's next chunk. wait says that it must be tried again later.
func (w *Worker) start(c *chain, now time.Time, view *control.View) (job Job, wait bool) {
	if c.want == "" || c.flight != nil || c.looking {
		return nil, false // the job under way will ask again
	}
	if c.bin.Readings() == 0 {
		c.want = ""
		return nil, false
	}
	tenant, ok := view.Tenant(c.key.tenant)
	if !ok {
		return nil, true // it was there when the reading was taken, and comes back with the next reading of the map
	}
	if !c.known {
		c.looking = true
		return &Lookup{Keys: tenant.Placement.Keys(c.key.device, c.key.day), Chain: w.chainOf(c), chain: c}, false
	}
	return w.cut(c, tenant, now)
}

// cut encodes the bin, or as much of it as fills a document, and takes it out of the bin.
func (w *Worker) cut(c *chain, tenant control.Tenant, now time.Time) (job Job, wait bool) {
	if at, ok := w.letters.first(); ok && at <= c.bin.Through() {
		return nil, true // rule W5: first the dead letters
	}
	dev := w.device(c.key.deviceKey())
	id := chunk.ID{Day: c.key.day, Stream: w.stream, Partition: w.partition, Number: c.number}
	key := tenant.Placement.Key(c.key.device, c.key.day, c.number)
	header := chunk.Header{ID: id, TenantShard: key.TenantShard, Device: key.Device, After: c.tail, TTL: tenant.TTL(c.key.day, now.UnixMilli())}
	rows, rest, doc := w.fit(c, dev, header)
	if c.want == CutSize && now.Before(c.due) && !crowded(c) && rest.Readings() == 0 && float64(len(doc)) < trialShare*binning.TargetBytes {
		// The estimate was too high: there is room for more.
		c.want, c.trial = "", c.bin.Values()+c.bin.Values()/16
		return nil, false
	}
	f := &flight{rows: rows, id: id, key: key, doc: doc, reason: c.want}
	before := c.bin.Bytes()
	w.mu.Lock()
	c.flight, c.bin = f, rest
	w.mu.Unlock()
	w.memory.add(c.bytes() - lingered(c) - before)
	c.want, c.trial = "", 0
	if rest.Readings() > 0 && (f.reason != CutSize || dev.sizer.Full(rest.Values()) || !now.Before(c.due)) {
		w.ask(c, f.reason)
	}
	return &Create{Key: key, ID: id.String(), Doc: doc, chain: c}, false
}

// trialShare is the share of the target below which a bin that was thought full goes on.
const trialShare = 0.9

// fit finds how much of the bin makes a document near the target, never more than the maximum unless one record
// alone is larger, and encodes it. It panics when one record can't be encoded: such a record was refused when it was fed.
func (w *Worker) fit(c *chain, dev *device, h chunk.Header) (rows, rest binning.Rows, doc []byte) {
	take := dev.sizer.ReadingsFor(c.bin.Readings(), c.bin.Values())
	for {
		rows, rest = c.bin, binning.Rows{}
		if take < c.bin.Readings() {
			rows, rest = c.bin.SplitAt(take)
		}
		h.First, h.Through, h.Readings = rows.First(), rows.Through(), rows.Readings()
		doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
		alone := rows.Records() == 1
		switch {
		case errors.Is(err, chunk.ErrTooLarge) && !alone:
			take = rows.Readings() / 2
			continue
		case err != nil:
			panic(fmt.Sprintf("encode chunk %s of %s: %v", h.ID, h.Device, err))
		}
		dev.sizer.Learn(rows.Values(), len(doc))
		if len(doc) <= binning.MaxBytes || alone {
			return rows, rest, doc
		}
		take = min(rows.Readings()-1, rows.Readings()*binning.TargetBytes/len(doc))
	}
}

// maxNotes bounds the notes of one call: a fleet that is seen for the first time comes in steps.
const maxNotes = 64

// notes brings the catalog up to date: at once for what was never seen, now and then for times.
func (w *Worker) notes(jobs []Job, now time.Time) []Job {
	n := 0
	for _, d := range w.devices {
		if n == maxNotes {
			break
		}
		late := w.drain || w.cfg.NoteEvery > 0 && now.Sub(d.noted) >= w.cfg.NoteEvery
		if !d.noting && (d.news || d.stretched() && late) {
			jobs = append(jobs, d.note(now))
			n++
		}
	}
	return jobs
}

// idleFor is how long a chain without rows is remembered: its next chunk then needs no lookup.
const idleFor = 24 * time.Hour

// sweep lets go of chunks that have lingered, and of chains that are idle.
func (w *Worker) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, c := range w.chains {
		keep := slices.IndexFunc(c.linger, func(l lingering) bool { return l.until.After(now) })
		if keep < 0 {
			keep = len(c.linger)
		}
		for _, l := range c.linger[:keep] {
			w.memory.add(-l.rows.Bytes())
		}
		c.linger = c.linger[keep:]
		if c.idle() && now.Sub(c.used) > idleFor {
			delete(w.chains, key)
			w.device(key.deviceKey()).forget(c)
		}
	}
}

// Next is when Jobs should be called again if nothing happens before.
func (w *Worker) Next(now time.Time) time.Time {
	next := now.Add(w.cfg.CommitEvery)
	if at, ok := w.timers.next(); ok && at.Before(next) {
		next = at
	}
	return next
}

// Drain asks for everything to be cut, the fullest first, and cuts nothing later by itself.
func (w *Worker) Drain() {
	w.drain = true
	for _, c := range w.fullest() {
		w.ask(c, CutDrain)
	}
}

// Busy tells whether something is still to be written.
func (w *Worker) Busy() bool {
	if len(w.letters.waiting) > 0 || w.writes > 0 {
		return true
	}
	for _, c := range w.chains {
		if c.bin.Readings() > 0 || c.flight != nil {
			return true
		}
	}
	for _, d := range w.devices {
		if d.noting || d.news || d.stretched() {
			return true
		}
	}
	return false
}
