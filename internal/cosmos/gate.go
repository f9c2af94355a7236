package cosmos

import (
	"sync"
	"time"

	"binnacle/sharding/epk"
)

// gate limits requests to one physical partition. When the service throttles a request it says for how long the
// partition wants to be left alone: until then the gate is closed, and requests get the time at which to come again
// without the service being asked. After that a few are let through at a time, and more with every one that succeeds,
// so that the requests that have waited are not all throttled again.
type gate struct {
	span epk.Range

	mu       sync.Mutex // guards below
	id       string     // the partition's; "" until an answer had it
	opens    time.Time
	opensLow time.Time     // as opens, for requests of low priority
	limit    float64       // how many may be under way; 0: any number
	inFlight int           // requests under way
	took     time.Duration // the last one that was served

	// waiting counts requests with a caller that waits for the answer, such as those of queries. They take turns with
	// the others, which repeat themselves: writes of an ingester may use up a partition, second after second.
	waiting int
	// turns is how many of the others may pass while some wait: one for each of these that was served.
	turns   int
	yielded time.Time // time when one of the others passed last
}

// yieldFor is after how long one of the requests that come back may go, however many wait.
const yieldFor = time.Second

// A gate this wide lets any number of requests through.
const openWidth = 256

// enter lets a request through, or returns how long it has to wait before it tries again. Only requests that come back
// by themselves are counted against the limit: one that waits here is counted already.
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
	case counted && g.waiting > 0 && g.turns == 0 && now.Sub(g.yielded) < yieldFor:
		return max(g.took, minRetryAfter)
	}
	if counted {
		g.turns, g.yielded = max(0, g.turns-1), now
	}
	g.inFlight++
	return 0
}

// place is where a request waits until it is served: at a gate, from when that held it back or it was throttled.
type place struct{ at *gate }

// await counts a request at its gate, if a caller waits for its answer.
func (p *place) await(to call, g *gate) {
	if g == nil || p.at != nil || !to.awaited {
		return
	}
	p.at = g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
}

func (p *place) leave() {
	if g := p.at; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
		g.turns = min(g.turns+1, openWidth)
	}
}

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

// close records that the partition has throttled a request and wants to be left alone for so long. A throttled request
// of low priority says nothing about others.
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
	if !now.Before(g.opens) { // requests refused together count once
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

// name returns the partition's id, "" while it is not known.
func (g *gate) name() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.id
}
