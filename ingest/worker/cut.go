package worker

import (
	"errors"
	"fmt"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/control"
)

// open makes the state of a chain. A chain whose day begins after the assignment can't have a chunk that is not
// from here, or the create will tell (rule W3). The caller holds the lock.
func (w *Worker) open(key chainKey) *chain {
	d := w.devices[key.deviceKey()]
	if d == nil {
		d = newDevice(key.deviceKey())
		w.devices[d.key] = d
	}
	c := &chain{key: key, device: d, tail: -1, place: -1, sealed: unsealed, known: key.day.Start() >= w.assigned}
	w.chains[key] = c
	d.chains = append(d.chains, c)
	return c
}

// begin starts the clock of a bin that gets its first reading.
func (w *Worker) begin(c *chain, now time.Time) {
	hold := w.cfg.Hold
	if !c.device.held {
		c.device.held = true
		hold = binning.FirstHold(c.key.device, hold)
	}
	w.schedule(c, now.Add(hold))
	c.trial = 0
}

// schedule says when a chain's bin is cut at the latest.
func (w *Worker) schedule(c *chain, due time.Time) {
	c.due = due
	w.timers.schedule(c)
}

// crowded tells whether a bin has so many readings, however small they are when encoded, that it must be cut: half of what
// a chunk takes.
func crowded(c *chain) bool {
	return c.bin.Readings() >= chunk.MaxRows/2 || c.bin.Values() >= chunk.MaxValues/2
}

// ask has a chain cut as soon as nothing stands in its way.
func (w *Worker) ask(c *chain, why Reason) {
	if c.want == "" {
		c.want = why
	}
	if !c.queued {
		c.queued = true
		w.ready = append(w.ready, c)
	}
}

// Jobs decides what is to be cut and answers what is to be done outside. It is called after records were fed,
// after a job was done, and when the time of Next has come.
func (w *Worker) Jobs(now time.Time, view *control.View) []Job {
	for c := w.timers.pop(now); c != nil; c = w.timers.pop(now) {
		w.ask(c, CutHold)
	}
	w.relieve(now)
	tick := now.Sub(w.swept) >= w.cfg.CommitEvery
	if tick {
		w.swept = now
		w.catchUp()
		w.sweep(now)
	}
	jobs := w.notes(nil, now, tick)
	if b := w.letters.job(); b != nil {
		jobs = append(jobs, b)
	}
	return w.cuts(jobs, now, view)
}

// catchUp cuts the bins that hold back the committed offset by more records than allowed (rule W7).
func (w *Worker) catchUp() {
	for _, c := range w.chains {
		if c.bin.Readings() > 0 && w.position-c.bin.First() > w.cfg.MaxBehind {
			w.ask(c, CutBehind)
		}
	}
}

// cuts starts what is ready, as far as writes may be in flight.
func (w *Worker) cuts(jobs []Job, now time.Time, view *control.View) []Job {
	if w.unmarked {
		return jobs // not before the Stamp
	}
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
	if !w.buried(c, now) {
		return nil, true
	}
	return w.cut(c, tenant, now), false
}

// buried tells whether the dead letters below what is to be cut are acknowledged (rule W5). While they are not, what comes
// into the bin is left out of the cut.
func (w *Worker) buried(c *chain, now time.Time) bool {
	if !w.waits(c) {
		c.sealed = unsealed
		return true
	}
	if c.sealed == unsealed {
		c.sealed, c.sealedAt = c.bin.Through(), now
	}
	at, _ := w.letters.first()
	return at > c.sealed
}

// cut encodes the bin, or as much of it as fills a document, and takes it out of the bin; nil if there is room for more.
func (w *Worker) cut(c *chain, tenant control.Tenant, now time.Time) Job {
	id := chunk.ID{Day: c.key.day, Stream: w.stream, Partition: w.partition, Number: c.number}
	key := tenant.Placement.Key(c.key.device, c.key.day, c.number)
	header := chunk.Header{
		ID: id, TenantShard: key.TenantShard, Device: key.Device,
		After: c.tail, Cut: now.UnixMilli(), TTL: tenant.TTL(c.key.day, now.UnixMilli()),
	}
	rows, rest, doc := fit(c, header)
	if c.want == CutSize && now.Before(c.due) && !crowded(c) && rest.Readings() == 0 && float64(len(doc)) < trialShare*binning.TargetBytes {
		// The estimate was too high.
		c.want, c.trial, c.sealed = "", c.bin.Values()+c.bin.Values()/16, unsealed
		w.timers.schedule(c)
		return nil
	}
	f := &flight{rows: rows, id: id, key: key, doc: doc, reason: c.want}
	before := c.bytes()
	w.mu.Lock()
	c.flight, c.bin = f, rest
	w.mu.Unlock()
	w.hold(c.bytes() - before)
	w.goOn(c, now)
	return &Create{Key: key, ID: id.String(), Doc: doc, chain: c}
}

// goOn decides what becomes of what a cut has left in the bin.
func (w *Worker) goOn(c *chain, now time.Time) {
	why := c.want
	c.want, c.trial = "", 0
	if c.bin.Readings() == 0 {
		c.sealed = unsealed
		return
	}
	if c.sealed != unsealed && c.bin.First() > c.sealed {
		// All that was to be cut is out: the rest is a bin of its own, as old as the seal.
		c.sealed = unsealed
		w.schedule(c, c.sealedAt.Add(w.cfg.Hold))
		if why != CutDrain {
			why = CutSize
		}
	}
	if why != CutSize || c.device.sizer.Full(c.bin.Values()) || !now.Before(c.due) {
		w.ask(c, why)
		return
	}
	w.timers.schedule(c)
}

// trialShare is the share of the target below which a bin that was thought full goes on.
const trialShare = 0.9

// fit finds how much of the bin makes a document near the target, never more than the maximum unless one record
// alone is larger, and encodes it. It panics when one record can't be encoded: such a record was refused when it was fed.
func fit(c *chain, h chunk.Header) (rows, rest binning.Rows, doc []byte) {
	sizer := &c.device.sizer
	take := sizer.ReadingsFor(c.bin.Readings(), c.bin.Values())
	if c.sealed != unsealed {
		take = min(take, c.bin.Upto(c.sealed))
	}
	for {
		rows, rest = c.bin, binning.Rows{}
		if take < c.bin.Readings() {
			rows, rest = c.bin.SplitAt(take)
		}
		h.First, h.Through, h.Readings = rows.First(), rows.Through(), rows.Readings()
		doc, err := chunk.Encode(h, rows.Frame(binning.All, nil))
		alone := rows.First() == rows.Through()
		switch {
		case errors.Is(err, chunk.ErrTooLarge) && !alone:
			take = rows.Readings() / 2
			continue
		case err != nil:
			panic(fmt.Sprintf("encode chunk %s of %s: %v", h.ID, h.Device, err))
		}
		sizer.Learn(rows.Values(), len(doc))
		if len(doc) <= binning.MaxBytes || alone {
			return rows, rest, doc
		}
		take = min(rows.Readings()-1, rows.Readings()*binning.TargetBytes/len(doc))
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
	for _, d := range w.devices {
		if d.news || d.stretched() {
			w.noteSoon(d)
		}
	}
}

// Busy tells whether something is still to be written.
func (w *Worker) Busy() bool {
	if len(w.letters.waiting) > 0 || w.writes > 0 || len(w.ready) > 0 || w.noting > 0 || len(w.unnoted) > 0 {
		return true
	}
	for _, c := range w.chains {
		if _, ok := c.first(); ok {
			return true
		}
	}
	return false
}
