package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/internal/retry"
)

// stall is what keeps a chain from going on.
type stall struct {
	retry.Backoff
	fault Fault
	since nanos // of the first of the attempts that have failed
	ready bool  // it stands in the queue: its time has come, or the queue's has not
}

// maxRetry is what a pause grows to at most, in first pauses: a little over three seconds.
const maxRetry = 64

// busyPace is the pause for each chain that waits for the same: a busy store refuses hundreds of thousands in vain, and
// each attempt takes memory and CPU time. So a Worker tries a thousand times a second at most once very many wait.
const busyPace = time.Millisecond

// maxFull is the same for a partition key that is full: six hours.
const maxFull = 24

// failed has a chain wait after an attempt that failed, and slows down its queue.
func (w *Worker) failed(c *chain, r Result, now time.Time) {
	w.mu.Lock()
	c.fail(r.Fault, now)
	w.mu.Unlock()
	l, s := w.queue.queueOf(c), c.stall
	switch r.Fault {
	case NoContainer:
		// The next chain would find the same: one chain of the queue tries for all.
		s.ready = true
		w.queue.pushFront(c)
		l.retry.Fail(now, w.cfg.retry(0, w.spreads))
		if !l.parked() {
			w.parkQueue(l, now)
		}
	case KeyFull:
		if !c.full && c.flight != nil {
			c.full = true
			w.observer.KeyFull(c.flight.key)
		}
		first := w.cfg.FullBackoff
		s.Fail(now, retry.Schedule{First: first, Longest: maxFull * first, Spread: w.spreads.Float64()})
	case Busy: // a physical partition has no budget: that says nothing of the queue's others
		turn := time.Duration(w.index.stalls[Busy.code()]) * busyPace
		s.Fail(now, w.cfg.retry(max(r.After, turn), w.spreads))
	default:
		l.failing = r.Fault
		s.Fail(now, w.cfg.retry(r.After, w.spreads))
	}
	w.file(c)
}

// parkQueue keeps a queue's chains from counting as on their way out while the container is missing.
func (w *Worker) parkQueue(l *tenantQueue, now time.Time) {
	l.failing, l.since = NoContainer, now
	for _, c := range l.waiting.All() {
		if c.phase == asked {
			w.awaitQueue(c, now)
		}
	}
}

// awaitQueue has a chain wait for its queue.
func (w *Worker) awaitQueue(c *chain, now time.Time) {
	c.fail(NoContainer, now)
	c.stall.ready = true
	w.file(c)
}

// succeeded ends what has held up a chain's queue.
func (w *Worker) succeeded(c *chain, now time.Time) {
	l := w.queue.queueOf(c)
	l.failing, l.retry = None, retry.Backoff{}
	w.queue.success = now
	w.queue.tidy(l)
}

// enqueue has a chain wait for its turn.
func (w *Worker) enqueue(c *chain, now time.Time) {
	if w.queue.push(c).parked() && c.phase == asked {
		w.awaitQueue(c, now)
	}
}

// resumed returns the job that a stalled chain goes on with, nil when it is asked to be cut again.
func (w *Worker) resumed(c *chain) Job {
	w.mu.Lock()
	c.resume()
	w.mu.Unlock()
	if c.phase == asked {
		return nil
	}
	return &Create{Key: c.flight.key, ID: c.flight.id.String(), Doc: c.flight.doc, chain: c} // the same again (rule W6)
}

// hopeless is for how long a container is missing before what is to go there gives way when memory is full, if the
// store takes other things: else it is an outage, which will end, and for which everything waits.
const hopeless = 10 * time.Minute

// abandon has rows that can't be written become dead letters, those that take most memory first, until there is room.
func (w *Worker) abandon(over int64, now time.Time) {
	if now.Sub(w.queue.searched) < time.Second {
		return // they are looked through for it
	}
	w.queue.searched = now
	var hold []*chain
	w.index.acting.UpTo(func(*chain) bool { return true }, func(c *chain) {
		if c.phase == stalled && c.doomed() {
			over -= int64(size(&c.flight.rows))
		} else if c.phase == stalled && w.queue.isHopeless(c, now) {
			hold = append(hold, c)
		}
	})
	slices.SortFunc(hold, func(a, b *chain) int {
		return cmp.Or(cmp.Compare(b.bytes(), a.bytes()), cmp.Compare(a.first, b.first))
	})
	for _, c := range hold {
		if over <= 0 {
			return
		}
		why := fmt.Sprintf("%s since %s, and memory is full", c.stall.fault, c.stall.since.time().UTC().Format(time.RFC3339))
		if c.flight == nil {
			rows, rest := c.bin, binning.Bin{}
			if rows.Readings() > maxPublish {
				var err error
				if rows, rest, err = c.bin.SplitAt(maxPublish, w.names.schemas); err != nil {
					w.lose(err)
					return
				}
			}
			w.mu.Lock()
			c.abandon(rows, rest)
			w.mu.Unlock()
		}
		over -= int64(size(&c.flight.rows))
		w.rejectFlight(c, why, now)
	}
}

// isHopeless reports whether a chain that has stalled had better give way.
func (q *writeQueue) isHopeless(c *chain, now time.Time) bool {
	switch c.stall.fault {
	case KeyFull:
		return true
	case NoContainer:
		l := q.queueOf(c)
		return now.Sub(l.since) >= hopeless && q.success.After(l.since) && !q.troubled()
	}
	return false
}

// Stalled calls each with every fault and how many chains have stalled for it.
func (w *Worker) Stalled(each func(f Fault, chains int)) {
	for i, f := range faults {
		each(f, w.index.stalls[i+1])
	}
}
