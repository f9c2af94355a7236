package worker

import (
	"time"
)

// stall is what keeps a chain from going on.
type stall struct {
	backoff
	fault Fault
	since time.Time // of the first of the attempts that have failed
	ready bool      // it stands in the queue: its time has come, or it waits for its lane's
}

// maxRetry is what a pause grows to at most, in first pauses: a little over three seconds.
const maxRetry = 64

// maxFull is the same for a partition key that is full: six hours.
const maxFull = 24

// failed has a chain wait after an attempt that failed, and slows down its lane.
func (w *Worker) failed(c *chain, r Result, now time.Time) {
	w.mu.Lock()
	c.fail(r.Fault, now)
	w.mu.Unlock()
	l, s := w.queue.lane(c), c.stall
	switch r.Fault {
	case NoContainer:
		// Who comes next would find the same: one chain of the lane tries for all.
		s.ready = true
		w.queue.first(c)
		l.retry.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, 0, w.spreads.next())
		if !l.parked() {
			w.park(l, now)
		}
	case KeyFull:
		if s.fails == 0 {
			w.observer.KeyFull(c.flight.key)
		}
		s.failed(now, w.cfg.FullBackoff, maxFull*w.cfg.FullBackoff, 0, w.spreads.next())
	default:
		l.failing = r.Fault
		s.failed(now, w.cfg.RetryBackoff, maxRetry*w.cfg.RetryBackoff, r.After, w.spreads.next())
	}
	w.index.file(c)
}

// park keeps a lane's chains from counting as on their way out while the container is missing.
func (w *Worker) park(l *lane, now time.Time) {
	l.failing = NoContainer
	for _, c := range l.waiting.all() {
		if c.phase == asked {
			w.stand(c, now)
		}
	}
}

// stand has a chain wait for its lane.
func (w *Worker) stand(c *chain, now time.Time) {
	c.fail(NoContainer, now)
	c.stall.ready = true
	w.index.file(c)
}

// succeeded ends what has kept a chain's lane.
func (w *Worker) succeeded(c *chain, now time.Time) {
	l := w.queue.lane(c)
	l.failing, l.retry = None, backoff{}
	w.progress = now
	w.queue.tidy(l)
}

// enqueue has a chain wait for its turn.
func (w *Worker) enqueue(c *chain, now time.Time) {
	if w.queue.push(c).parked() && c.phase == asked {
		w.stand(c, now)
	}
}

// wakeStalled lets a chain go on whose time has come.
func (w *Worker) wakeStalled(c *chain) {
	c.stall.ready = true
	w.queue.push(c)
	w.index.file(c)
}

// resumed is the job that a stalled chain goes on with, nil when it is asked to be cut again.
func (w *Worker) resumed(c *chain) Job {
	w.mu.Lock()
	c.resume()
	w.mu.Unlock()
	switch c.phase {
	case creating:
		return &Create{Key: c.flight.key, ID: c.flight.id.String(), Doc: c.flight.doc, chain: c} // the same again (rule W6)
	case burying:
		return w.bury(c)
	}
	return nil
}
