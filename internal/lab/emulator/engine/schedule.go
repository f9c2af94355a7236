package engine

import (
	"math"
	"time"
)

// nothingDue is the time of Account.due when no split is under way.
const nothingDue = math.MaxInt64

// schedule makes sure that complete looks again at that time.
func (a *Account) schedule(at int64) {
	for {
		due := a.due.Load()
		if at >= due || a.due.CompareAndSwap(due, at) {
			return
		}
	}
}

// retryAfter is when a split that failed is tried again.
const retryAfter = time.Minute

// Complete does the splits that are due. Every request calls it first: it costs one look-up while nothing is due.
func (a *Account) Complete(now time.Time) {
	if now.UnixNano() < a.due.Load() || !a.splitting.TryLock() {
		return
	}
	defer a.splitting.Unlock()
	a.due.Store(nothingDue) // a split that is scheduled from here on, or found below, lowers it again
	for _, co := range a.containers() {
		for _, p := range co.parts() {
			a.attempt(now, p.dueAt(), func() error { return a.splitFull(co, p) })
		}
	}
	a.mu.RLock()
	offers := a.offers()
	a.mu.RUnlock()
	for _, o := range offers {
		if next := o.offer.Pending; next != nil {
			a.attempt(now, next.Due, func() error { return a.raise(o, now) })
		}
	}
}

// attempt does what is due, and schedules what is not or has failed. At 0 there is nothing to do.
func (a *Account) attempt(now time.Time, at int64, do func() error) {
	switch {
	case at == 0:
	case at > now.UnixNano():
		a.schedule(at)
	default:
		if err := do(); err != nil {
			a.cfg.Logger.Error("split a physical partition", "error", err)
			a.schedule(now.Add(retryAfter).UnixNano())
		}
	}
}

func (p *partition) dueAt() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due
}
