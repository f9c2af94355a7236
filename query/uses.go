package query

import (
	"context"
	"sync"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
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

// UsesEvery is how often a querier writes down for which metrics it was asked lanes, in a document for each tenant that
// has asked.
const UsesEvery = 10 * time.Minute

// TellUses adds up in documents for which metrics queries ask lanes, until the context ends; it returns nil. What can't
// be written is let go, and the log says so once until it can be again: it decides no more than which metrics get lanes
// where there are too many.
func (q *Querier) TellUses(ctx context.Context, docs control.Documents) error {
	said := false
	for retry.Pause(ctx, UsesEvery) == nil {
		for tenant, some := range q.TakeUses() {
			err := control.AddUses(ctx, docs, tenant, telemetry.DayOf(q.cfg.Now().UnixMilli()), some)
			switch {
			case ctx.Err() != nil:
				return nil
			case err == nil:
				said = false
			case !said:
				said = true
				q.cfg.Logger.Warn("which lanes are asked for is not counted: answers are as they were, but where a tenant has "+
					"more metrics than get lanes, --lanes-first and names decide; this identity has to write items of the "+
					"container uses", "err", err)
			}
		}
	}
	return nil
}
