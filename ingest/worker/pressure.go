package worker

import (
	"cmp"
	"slices"
	"time"
)

// relieveEvery bounds how often all bins are looked through while memory is short.
const relieveEvery = 50 * time.Millisecond

// relieve cuts the fullest bins while memory is short: this worker's part of what must go, less what is going already
// (rule W11).
func (w *Worker) relieve(now time.Time) {
	over := w.memory.over()
	if over == 0 || now.Sub(w.relieved) < relieveEvery && w.writes > 0 {
		return
	}
	w.relieved = now
	over = int64(float64(over) * float64(w.held) / float64(max(w.held, w.memory.Used())))
	over -= int64(w.letters.bytes)
	// Who waits for dead letters will go soon, as a rule; when nothing more can be taken, somebody else must.
	full := w.memory.Full()
	goes := func(c *chain) bool { return c.want != "" && !(full && w.waits(c)) }
	for _, c := range w.chains {
		over -= int64(c.leaving())
		if goes(c) {
			over -= int64(size(&c.bin))
		}
	}
	if over <= 0 {
		return
	}
	for _, c := range w.fullest() {
		if c.want == "" && !(full && w.waits(c)) {
			w.ask(c, CutMemory)
			if over -= int64(size(&c.bin)); over <= 0 {
				return
			}
		}
	}
}

// waits tells whether dead letters below the bin's last row are not acknowledged (rule W5).
func (w *Worker) waits(c *chain) bool {
	at, ok := w.letters.first()
	return ok && c.bin.Readings() > 0 && at <= c.bin.Through()
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

// How long a chain without rows is remembered, so that its next chunk needs no lookup: one of a day that ended long ago gets
// readings in bursts, if at all.
const (
	idleFor    = 24 * time.Hour
	idleForOld = time.Hour
)

// sweep lets go of rows that have lingered, and of chains and devices that are idle.
func (w *Worker) sweep(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	freed := 0
	for key, c := range w.chains {
		freed += c.letGo(now)
		if !c.idle() {
			continue
		}
		keep := idleFor
		if now.UnixMilli() > key.day.End()+idleFor.Milliseconds() {
			keep = idleForOld
		}
		if now.Sub(c.used) > keep {
			w.forget(c, now)
		}
	}
	w.hold(-freed)
}

// forget drops what is known of an idle chain: if it comes back its tail must be looked up (rule W3). The caller holds the
// lock.
func (w *Worker) forget(c *chain, now time.Time) {
	w.assigned = max(w.assigned, now.UnixMilli())
	w.timers.remove(c)
	delete(w.chains, c.key)
	d := c.device
	d.chains = slices.DeleteFunc(d.chains, func(x *chain) bool { return x == c })
	if len(d.chains) == 0 && !d.noting && !d.queued && !d.news && !d.stretched() {
		delete(w.devices, d.key)
	}
}

// letGo drops the rows that have lingered, and answers how many bytes of memory that frees. The caller holds the lock.
func (c *chain) letGo(now time.Time) (freed int) {
	n := 0
	for n < len(c.linger) && !c.linger[n].until.After(now) {
		freed += size(&c.linger[n].rows)
		n++
	}
	if c.linger = slices.Delete(c.linger, 0, n); len(c.linger) == 0 {
		c.linger = nil
	}
	return freed
}
