package query

import (
	"sync"

	"binnacle/internal/control"
)

// uses is for which metrics lanes were asked since somebody took them.
type uses struct {
	mu   sync.Mutex // guards below
	of   map[string]map[string]control.Use
	many int
}

// mostUses bounds the metrics of all tenants; of others nothing is noted until somebody takes those.
const mostUses = 10_000

// note notes a query that lanes may answer, and what they have saved it.
func (u *uses) note(tenant, metric string, saved float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = make(map[string]map[string]control.Use)
	}
	of := u.of[tenant]
	if of == nil {
		of = make(map[string]control.Use)
		u.of[tenant] = of
	}
	if _, known := of[metric]; !known {
		if u.many == mostUses {
			return
		}
		u.many++
	}
	of[metric] = of[metric].Plus(control.Use{Queries: 1, Saved: saved})
}

// TakeUses is for which metrics of which tenants queries have asked lanes since it was called last.
func (q *Querier) TakeUses() map[string]map[string]control.Use {
	q.uses.mu.Lock()
	defer q.uses.mu.Unlock()
	of := q.uses.of
	q.uses.of, q.uses.many = nil, 0
	return of
}
