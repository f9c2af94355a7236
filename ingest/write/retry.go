package write

import (
	"binnacle/ingest/bins"
	"binnacle/internal/retry"
	"time"
)

// maxRetry is what a pause grows to at most, in first pauses: a little over three seconds.
const maxRetry = 64

// Retry returns the pauses between attempts at a job.
func (c *Config) Retry(least time.Duration) retry.Schedule {
	return retry.Schedule{First: c.RetryBackoff, Longest: maxRetry * c.RetryBackoff, Least: least,
		Spread: c.Spreads.Float64()}
}

// busyPace is the pause for each chain that waits for the same: a busy store refuses hundreds of thousands in vain, and
// each attempt takes memory and CPU time. So a Worker tries a thousand times a second at most once very many wait.
const busyPace = time.Millisecond

// maxFull is the same for a partition key that is full: six hours.
const maxFull = 24

// failed stalls a chain after an attempt that failed, and slows down its queue.
func (w *Writer) failed(c *bins.Chain, r Result, now time.Time) {
	w.bins.Lock()
	c.Fail(r.Fault, now)
	w.bins.Unlock()
	l, s := w.Queue.queueOf(c), c.Stall
	switch r.Fault {
	case bins.NoContainer:
		// The next chain would find the same: one chain of the queue tries for all.
		s.Ready = true
		w.Queue.pushFront(c)
		l.retry.Fail(now, w.Cfg.Retry(0))
		if !l.parked() {
			w.parkQueue(l, now)
		}
	case bins.KeyFull:
		if !c.Full && c.Flight != nil {
			c.Full = true
			w.observer.KeyFull(c.Flight.Key)
		}
		first := w.Cfg.FullBackoff
		s.Fail(now, retry.Schedule{First: first, Longest: maxFull * first, Spread: w.Cfg.Spreads.Float64()})
	case bins.Busy: // a physical partition has no budget: that says nothing of the queue's others
		turn := time.Duration(w.bins.Index.Stalls[bins.Busy.Code()]) * busyPace
		s.Fail(now, w.Cfg.Retry(max(r.After, turn)))
	default:
		l.failing = r.Fault
		s.Fail(now, w.Cfg.Retry(r.After))
	}
	w.bins.File(c)
}

// parkQueue keeps a queue's chains from counting as on their way out while the container is missing.
func (w *Writer) parkQueue(l *tenantQueue, now time.Time) {
	l.failing, l.since = bins.NoContainer, now
	for _, c := range l.waiting.All() {
		if c.Phase == bins.Asked {
			w.awaitQueue(c, now)
		}
	}
}

// awaitQueue stalls a chain until its queue's container is there.
func (w *Writer) awaitQueue(c *bins.Chain, now time.Time) {
	c.Fail(bins.NoContainer, now)
	c.Stall.Ready = true
	w.bins.File(c)
}

// succeeded ends what has held up a chain's queue.
func (w *Writer) succeeded(c *bins.Chain, now time.Time) {
	l := w.Queue.queueOf(c)
	l.failing, l.retry = bins.None, retry.Backoff{}
	w.Queue.success = now
	w.Queue.tidy(l)
}

func (w *Writer) enqueue(c *bins.Chain, now time.Time) {
	if w.Queue.Push(c).parked() && c.Phase == bins.Asked {
		w.awaitQueue(c, now)
	}
}

// resumed returns the job that continues a stalled chain, nil when the chain asks to be cut again.
func (w *Writer) resumed(c *bins.Chain) Job {
	w.bins.Lock()
	c.Resume()
	w.bins.Unlock()
	if c.Flight == nil {
		return nil
	}
	return &Create{Key: c.Flight.Key, ID: c.Flight.Id.String(), Doc: c.Flight.Doc, chain: c} // the same again (rule W6)
}
