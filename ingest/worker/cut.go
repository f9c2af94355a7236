package worker

import (
	"errors"
	"fmt"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/store"
)

// due returns when a bin that gets its first reading now is cut at the latest.
//
// Where a bin may wait for half a day, its day decides: the fewer chunks a day is cut into, the cheaper they are, and a
// device that reports seldom fills not even one. The bin of a day that is not over waits until it is, and then the part
// of the hold that is the device's own: at midnight nothing is cut, and in the hold that follows each moment as much
// as the other. docs/internals/adr has the reckoning.
func (cfg *Config) due(c *chain, now time.Time) time.Time {
	if c.bin.Readings() > 0 {
		return c.due.time()
	}
	first := binning.FirstHold(c.device.ID, cfg.Hold)
	if end := time.UnixMilli(c.day.End()); cfg.waitsForDay() && now.Before(end) {
		return end.Add(first)
	}
	late := now.Sub(c.due.time())
	switch {
	case !c.begun:
		return now.Add(first)
	case c.every > 0 && late > 2*time.Duration(c.every)*time.Millisecond:
		// The device was away, and a fleet that returns together must not come due together: each keeps its phase.
		return now.Add(cfg.Hold - late%cfg.Hold)
	}
	return now.Add(cfg.Hold)
}

// LongHold is the hold from which on bins wait for the end of their day.
const LongHold = 12 * time.Hour

func (cfg *Config) waitsForDay() bool { return cfg.Hold >= LongHold }

// isFull reports whether the bin, which has grown, is to be cut for its size.
func (cfg *Config) isFull(c *chain, now time.Time) bool {
	values := c.bin.Values()
	switch {
	case crowded(c):
		return true
	case values < int(c.trial) || !c.device.sizer.Full(values, c.bin.Width()):
		return false
	case cfg.lastsTheDay(c, now):
		c.trial = int32(values + values/16)
		return false
	}
	return true
}

// lastsTheDay reports whether the rest of the day fits the document too, at the pace of the bin so far: one larger
// document is cheaper than one at the target and a small one.
func (cfg *Config) lastsTheDay(c *chain, now time.Time) bool {
	if !cfg.waitsForDay() || now.UnixMilli() >= c.day.End() {
		return false
	}
	from, to := c.bin.Span()
	if to <= from {
		return false
	}
	grown := float64(c.day.End()-from) / float64(to-from)
	return c.device.sizer.FitsOne(int(grown*float64(c.bin.Values())), c.bin.Width())
}

// budget returns how many records such a bin may hold back the committed offset: as with the hold, the first one of a
// chain a part of them, or a fleet that begins a day together would be cut together.
func (cfg *Config) budget(c *chain) int64 {
	if c.begun {
		return cfg.MaxBehind
	}
	return int64(binning.FirstHold(c.device.ID, time.Duration(cfg.MaxBehind)))
}

// crowded reports whether a bin has so many readings, however small they are when encoded, that it must be cut: half
// of what a chunk takes.
func crowded(c *chain) bool {
	return c.bin.Readings() >= chunk.MaxRows/2 || c.bin.Values() >= chunk.MaxValues/2
}

// ask has a chain cut as soon as nothing stands in its way.
func (w *Worker) ask(c *chain, why Reason, now time.Time) {
	if c.ask(why) {
		w.enqueue(c, now)
	}
	w.file(c)
}

// Jobs decides what is to be cut and returns what is to be done outside. It is called after records were fed,
// after a job was done, and when the time of Next has come.
func (w *Worker) Jobs(now time.Time, snapshot *control.Snapshot) []Job {
	w.queue.snapshot = snapshot
	w.applyErasures(snapshot)
	w.wake(now)
	w.relieve(now)
	ticked := now.Sub(w.ticked) >= w.cfg.CommitEvery
	if ticked {
		w.ticked = now
		w.catchUp(now)
		w.forgetIdle(now)
		w.names.renew(w.Held(), now, w.cfg.Hold+w.cfg.Linger)
	}
	var jobs []Job
	for _, u := range w.updates.Next(now, w.drain || w.journal.flush) {
		jobs = append(jobs, &CatalogUpdate{Update: u})
	}
	if ticked {
		if l := w.admission.Limits.NextLookup(now, snapshot); l != nil {
			jobs = append(jobs, &LabelLookup{LabelLookup: l})
		}
	}
	for _, tenant := range w.admission.Limits.NextRegistrations(w.cfg.Topic, now, snapshot) {
		jobs = append(jobs, &Register{Tenant: tenant})
	}
	jobs = w.cuts(jobs, now, snapshot)
	jobs = w.publications(jobs, now) // also of rows for which there was no cut
	if a := w.nextAppend(now, ticked); a != nil {
		jobs = append(jobs, a)
	}
	w.countMemory()
	return jobs
}

// wake has bins cut that are due, and drops rows that have lingered.
func (w *Worker) wake(now time.Time) {
	for c := w.index.awake(now); c != nil; c = w.index.awake(now) {
		if len(c.linger) > 0 && c.linger[0].until <= nanosOf(now) {
			w.mu.Lock()
			if c.letGo(now) {
				w.stored.unexplained()
			}
			w.mu.Unlock()
			w.file(c)
			continue
		}
		if c.phase == stalled && !c.stall.ready {
			c.stall.ready = true
			w.queue.push(c)
			w.file(c)
			continue
		}
		w.ask(c, CutHold, now)
	}
}

// CutBelow has the bins cut that hold back the committed offset below the one given: the log is about to lose what
// lies there (rule W7).
func (w *Worker) CutBelow(below int64, now time.Time) {
	for _, c := range w.index.below(below) {
		w.ask(c, CutBehind, now)
	}
	w.admission.Limits.Hurry(below)
}

// catchUp cuts the bins that hold back the committed offset by more records than allowed (rule W7).
func (w *Worker) catchUp(now time.Time) {
	for w.index.lagging.Len() > 0 {
		c := w.index.lagging.First()
		if w.log.Position-c.first <= c.budget {
			return
		}
		w.ask(c, CutBehind, now)
	}
}

// cuts starts what is ready, as far as writes may be in flight.
func (w *Worker) cuts(jobs []Job, now time.Time, snapshot *control.Snapshot) []Job {
	if w.stamps.unmarked {
		return jobs // not before the Stamp
	}
	w.unblock(snapshot, now)
	for c := w.queue.pop(now); c != nil; c = w.queue.pop(now) {
		if c.phase != asked && !c.resumes() {
			continue // it does not want to any more, and may even be forgotten
		}
		if job := w.start(c, now, snapshot); job != nil {
			w.queue.began(c)
			jobs = append(jobs, job)
		}
		w.file(c)
	}
	return jobs
}

// unblock queues chains again that waited for dead letters, acknowledged now, or for their tenant, which a newer
// snapshot may have.
func (w *Worker) unblock(snapshot *control.Snapshot, now time.Time) {
	at, some := w.publisher.refused.first()
	for w.awaiting.deadLetters.Len() > 0 && !(some && at <= w.awaiting.deadLetters.Front().seal) {
		if c := w.awaiting.deadLetters.Pop(); c.phase == sealed {
			c.release()
			w.enqueue(c, now)
			w.file(c)
		}
	}
	if snapshot.ReadAt.After(w.awaiting.snapshot) {
		for w.awaiting.tenant.Len() > 0 {
			w.enqueue(w.awaiting.tenant.Pop(), now)
		}
	}
}

// start begins the next step of a chain that was asked to be cut, or has stalled; nil if it has to wait, or has room
// for more.
func (w *Worker) start(c *chain, now time.Time, snapshot *control.Snapshot) Job {
	if c.resumes() {
		if job := w.resumed(c); job != nil {
			return job
		}
	}
	tenant, ok := snapshot.Tenant(c.device.tenant.Name)
	if !ok {
		// It was there when the reading was taken, and comes back with the next snapshot.
		w.awaiting.snapshot = snapshot.ReadAt
		w.awaiting.tenant.Push(c)
		return nil
	}
	orders := snapshot.Erasures(tenant.Name)
	if through := w.erasing.through(orders, c.device.ID, c.day); through >= c.bin.First() {
		w.mu.Lock() // a create that met another chunk has given back rows that are erased
		w.eraseRows(c, through)
		w.mu.Unlock()
		if c.phase != asked {
			return nil
		}
	}
	if orders.Pending(c.device.ID, c.day) || !w.isFresh(c, now) {
		w.awaiting.snapshot = snapshot.ReadAt
		w.awaiting.tenant.Push(c)
		return nil
	}
	if !c.knownIn(w.generation) {
		c.look()
		chain := store.Chain{Day: c.day, Stream: w.stream, Partition: w.partition}
		return &Lookup{Keys: tenant.Placement.Keys(c.device.ID, c.day), Chain: chain, chain: c}
	}
	if w.publisher.awaitsDeferred(c) {
		c.sealUpto(c.bin.Through(), now)
		w.awaiting.deferred.Push(c)
		return nil
	}
	if at, ok := w.publisher.refused.first(); ok && at <= c.bin.Through() {
		c.sealUpto(w.log.Position-1, now)
		if at <= c.seal {
			w.awaiting.deadLetters.Push(c)
			return nil
		}
		c.release()
	} else {
		c.seal = unsealed
	}
	if last := c.fresh - 1; w.erasing.isNew(c) && (c.seal == unsealed || c.seal > last) {
		c.seal = last
	}
	return w.cut(c, tenant, now)
}

// cut encodes the bin, or as much of it as fills a document, and takes it out of the bin; nil if there is room for
// more.
func (w *Worker) cut(c *chain, tenant control.Tenant, now time.Time) Job {
	id := chunk.ID{Day: c.day, Stream: w.stream, Partition: w.partition, Number: c.number}
	key := tenant.Placement.Key(c.device.ID, c.day, c.number)
	header := chunk.Header{
		ID: id, TenantShard: key.TenantShard, Device: key.Device, After: c.tail, Cut: now.UnixMilli(),
		TTL: tenant.TTLOf(c.device.ID, c.day, now.UnixMilli()),
	}
	rows, rest, doc, err := w.fit(c, header)
	switch {
	case errors.Is(err, errUnstorable):
		w.mu.Lock()
		c.abandon(rows, rest)
		w.mu.Unlock()
		w.rejectFlight(c, err.Error(), now)
		return nil
	case err != nil:
		w.lose(err)
		return nil
	}
	why := c.want
	if why == CutSize && now.Before(c.due.time()) && !crowded(c) && rest.Readings() == 0 &&
		float64(len(doc)) < trialShare*float64(c.device.sizer.Target(rows.Width())) {
		c.reopen(c.bin.Values() + c.bin.Values()/16) // the estimate was too high
		return nil
	}
	w.mu.Lock()
	c.cut(&flight{rows: rows, id: id, key: key, doc: doc, reason: why}, rest)
	w.mu.Unlock()
	w.goOn(c, why, now)
	return &Create{Key: key, ID: id.String(), Doc: doc, chain: c}
}

// goOn decides whether what a cut has left in the bin is cut too.
func (w *Worker) goOn(c *chain, why Reason, now time.Time) {
	if c.bin.Readings() == 0 {
		return
	}
	if c.seal != unsealed && c.bin.First() > c.seal {
		// All that was to be cut is out: the rest is a bin of its own, no older than the choice of those rows.
		c.seal, c.due = unsealed, nanosOf(time.UnixMilli(c.chosenAt).Add(w.cfg.Hold))
		if why != CutDrain {
			why = CutSize
		}
	}
	if why != CutSize || c.device.sizer.Full(c.bin.Values(), c.bin.Width()) || !now.Before(c.due.time()) {
		c.ask(why)
	}
}

// trialShare is the share of the target below which a bin that was thought full goes on.
const trialShare = 0.9

// errUnstorable is of rows of one record that make no document, though they were taken.
var errUnstorable = errors.New("the readings make no document")

// fit finds how much of the bin makes a document near the target, never more than the maximum unless one record alone
// is larger, and encodes it. It fails with errUnstorable when the first record makes none: then rows are that record's.
// Feed refuses such records, but an earlier release may have taken one. Else it fails when a shelf has lost rows.
func (w *Worker) fit(c *chain, h chunk.Header) (rows, rest binning.Bin, doc []byte, err error) {
	sizer := &c.device.sizer
	take := sizer.ReadingsFor(c.bin.Readings(), c.bin.Values(), c.bin.Width())
	if c.seal != unsealed {
		below, _, err := c.bin.UpTo(c.seal, w.names.schemas)
		if err != nil {
			return rows, rest, nil, err
		}
		take = min(take, below.Readings())
	}
	for {
		rows, rest = c.bin, binning.Bin{}
		if take < c.bin.Readings() {
			if rows, rest, err = c.bin.SplitAt(take, w.names.schemas); err != nil {
				return rows, rest, nil, err
			}
		}
		frame, err := rows.Frame(binning.Selection{Above: -1, Below: rows.Through() + 1, Span: binning.All})
		if err != nil {
			return rows, rest, nil, err
		}
		h.First, h.Through, h.Readings = rows.First(), rows.Through(), rows.Readings()
		doc, overhead, err := encode(h, frame)
		alone := rows.First() == rows.Through()
		switch {
		case err != nil && alone:
			return rows, rest, nil, fmt.Errorf("%w: %w", errUnstorable, err)
		case err != nil:
			take = rows.Readings() / 2
			continue
		}
		width := rows.Width()
		w.registry.learnSize(sizer, binning.Measured{
			Values: rows.Values(), Columns: width, Bytes: len(doc), Overhead: overhead,
		})
		if len(doc) <= sizer.Max(width) || alone {
			return rows, rest, doc, nil
		}
		take = min(rows.Readings()-1, sizer.ReadingsFor(rows.Readings(), rows.Values(), width))
	}
}

// encode returns the document of a frame, and how many bytes of it do not depend on the number of rows.
func encode(h chunk.Header, f chunk.Frame) (doc []byte, overhead int, err error) {
	if doc, err = chunk.Encode(h, f); err == nil {
		overhead, err = chunk.Overhead(doc)
	}
	return doc, overhead, err
}

// learnSize updates a device's sizer with the size of a document.
func (g *registry) learnSize(sizer *binning.Sizer, m binning.Measured) {
	g.mu.Lock()
	defer g.mu.Unlock()
	sizer.Observe(m)
}

// Next returns when Jobs should be called again if nothing happens before.
func (w *Worker) Next(now time.Time) time.Time {
	next := now.Add(w.cfg.CommitEvery)
	if at, ok := w.index.next(); ok && at.Before(next) {
		next = at
	}
	if at, ok := w.queue.next(now); ok && at.Before(next) {
		next = at
	}
	return next
}

// Drain asks for everything to be cut, the fullest first, and cuts nothing later by itself.
func (w *Worker) Drain(now time.Time) {
	w.drain = true
	w.updates.Drain()
	for c := w.index.size.largest(); c != nil; c = w.index.size.largest() {
		w.ask(c, CutDrain, now)
	}
	for _, t := range w.registry.tenants {
		for _, d := range t.devices {
			if d != nil && d.Lacks() {
				w.updates.Queue(&d.Device)
			}
		}
	}
}

// Busy reports whether something is still to be written.
func (w *Worker) Busy() bool {
	return w.index.open() > 0 || w.publisher.refused.len() > 0 || w.publisher.deferred.len() > 0 || w.queue.busy > 0 ||
		w.updates.Busy()
}
