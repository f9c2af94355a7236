package budget

import (
	"sync"
	"time"
)

// Pace counts the requests to replace throughput: the account takes 25 in any 5 minutes
// (Azure Cosmos DB docs, concepts-limits). Those that are refused for another reason count too.
// Neither how the service places the 5 minutes nor what it answers is published: here they slide, and
// the answer is a 429 with the time until the oldest request leaves them.
type Pace struct {
	mu    sync.Mutex
	taken []time.Time // within the last 5 minutes, the oldest first; mu guards
}

const (
	window    = 5 * time.Minute
	perWindow = 25
)

// Take counts a request. If there have been too many, retry says how long until one is taken again.
func (p *Pace) Take(now time.Time) (ok bool, retry time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.taken) > 0 && !now.Before(p.taken[0].Add(window)) {
		p.taken = p.taken[1:]
	}
	if len(p.taken) >= perWindow {
		return false, p.taken[0].Add(window).Sub(now)
	}
	p.taken = append(p.taken, now)
	return true, 0
}
