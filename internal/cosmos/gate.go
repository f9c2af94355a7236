package cosmos

import (
	"sync"
	"time"

	"binnacle/internal/epk"
)

// gate is the way to one physical partition. When the service refuses a request for want of budget it says for how long
// the partition wants to be left alone: until then the gate is shut, and who comes is told when to come again without
// the service being asked. After that few are let through at a time, and more with every one that is served, so that
// of those who have waited not all are refused again.
type gate struct {
	span epk.Range

	mu       sync.Mutex // guards below
	id       string     // of the partition; "" until an answer has told it
	opens    time.Time
	opensLow time.Time     // as opens, for who is of low priority
	limit    float64       // how many may be under way; 0: any number
	inFlight int           // requests under way
	took     time.Duration // the last one that was served
}

// A gate that lets through so many takes no notice of their number any more.
const openWidth = 256

// enter lets a request through, or says how long it has to wait before it tries again. Only those who come back by
// themselves are counted against the width: who waits here has been counted by those who wait for it.
func (g *gate) enter(now time.Time, low, counted bool) (wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.opens
	if low {
		at = g.opensLow
	}
	switch {
	case now.Before(at):
		return at.Sub(now)
	case counted && g.limit > 0 && g.inFlight >= max(1, int(g.limit)):
		return max(g.took, minRetryAfter)
	}
	g.inFlight++
	return 0
}

// leave takes back what enter counted.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
}

// recordLatency notes a request that the partition had budget for.
func (g *gate) recordLatency(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.took = took
	if g.limit == 0 {
		return
	}
	if g.limit += 1 / g.limit; g.limit >= openWidth {
		g.limit = 0
	}
}

// close notes that the partition has refused a request and wants to be left alone for so long. Who is refused for its
// low priority has learnt nothing about others.
func (g *gate) close(now time.Time, low bool, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := now.Add(wait)
	if until.After(g.opensLow) {
		g.opensLow = until
	}
	if low {
		return
	}
	if !now.Before(g.opens) { // of those who are refused together the first one counts
		g.limit = max(1, float64(g.inFlight+1)/2)
	}
	if until.After(g.opens) {
		g.opens = until
	}
}

// setID notes the id of the partition that has answered, and reports whether it is another one than before: then the
// partition has been split.
func (g *gate) setID(id string) (another bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.id == "" {
		g.id = id
	}
	return g.id != id
}

// name returns the partition's id, "" if no answer has told it.
func (g *gate) name() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.id
}
