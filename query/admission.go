package query

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"binnacle/query/read/piece"
)

// admission bounds how many queries run at the same time. A query that must wait waits in the queue of its tenant. The
// next one to run is of the tenant that has the fewest running, so that a loud tenant waits for itself. No tenant runs
// more than half of the queries, rounded up. It is safe for any number of callers.
type admission struct {
	maxRunning, maxPerTenant, maxQueued int
	timeout                             time.Duration
	tenantLimit                         func(tenant string) int // set for a tenant; 0 for none

	mu       sync.Mutex // guards below
	running  int
	tenants  map[string]*tenantQueue // with a query that runs or waits
	nextTurn uint64
}

type tenantQueue struct {
	maxRunning int
	ownLimit   bool // maxRunning is set for the tenant
	running    int
	waiting    []*waiter
}

// before reports whether the first query of a queue runs before that of another. Both queues have one.
func (t *tenantQueue) before(other *tenantQueue) bool {
	return cmp.Or(cmp.Compare(t.running, other.running), cmp.Compare(t.waiting[0].turn, other.waiting[0].turn)) < 0
}

// limitError returns the error of a query that can't run because of a limit of its tenant; nil if that is not why.
func (t *tenantQueue) limitError() error {
	if !t.ownLimit || t.running < t.maxRunning {
		return nil
	}
	return &QuotaError{fmt.Sprintf("its %d queries at the same time, and %d more wait", t.maxRunning, len(t.waiting)),
		time.Second,
		askInTurn}
}

// waiter is a query that waits. admitted is closed when it may run.
type waiter struct {
	turn     uint64
	admitted chan struct{}
}

func newAdmission(cfg Config, tenantLimit func(tenant string) int) *admission {
	return &admission{
		maxRunning: cfg.MaxQueries, maxPerTenant: (cfg.MaxQueries + 1) / 2, maxQueued: cfg.MaxQueued,
		timeout: cfg.QueueTimeout, tenantLimit: tenantLimit,
		tenants: make(map[string]*tenantQueue),
	}
}

// acquire waits for a turn. It fails when the queue is full or no turn comes in time: with ErrBusy, or with a
// *QuotaError where the tenant has as many running as it may have. Else the caller must call release.
func (g *admission) acquire(ctx context.Context, tenant string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := g.enqueue(tenant)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(g.timeout)
	defer timer.Stop()
	select {
	case <-v.admitted:
		return func() { g.release(tenant) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w: no turn within %s", piece.ErrBusy, g.timeout)
	}
	if over := g.withdraw(tenant, v); over != nil && ctx.Err() == nil {
		err = over
	}
	return nil, err
}

// enqueue adds a query to its tenant's queue, and starts the queries that may run.
func (g *admission) enqueue(tenant string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenants[tenant]
	if t == nil {
		t = &tenantQueue{}
		g.tenants[tenant] = t
	}
	t.maxRunning, t.ownLimit = g.maxPerTenant, false
	if n := g.tenantLimit(tenant); n > 0 && n < g.maxPerTenant {
		t.maxRunning, t.ownLimit = n, true
	}
	if len(t.waiting) >= g.maxQueued {
		if over := t.limitError(); over != nil {
			return nil, over
		}
		return nil, fmt.Errorf("%w: %d of this tenant are waiting", piece.ErrBusy, len(t.waiting))
	}
	v := &waiter{turn: g.nextTurn, admitted: make(chan struct{})}
	g.nextTurn++
	t.waiting = append(t.waiting, v)
	g.startNext()
	return v, nil
}

// startNext starts as many queries as may run. The caller holds mu.
func (g *admission) startNext() {
	for g.running < g.maxRunning {
		var next *tenantQueue
		for _, t := range g.tenants {
			if len(t.waiting) == 0 || t.running >= t.maxRunning {
				continue
			}
			if next == nil || t.before(next) {
				next = t
			}
		}
		if next == nil {
			return
		}
		close(next.waiting[0].admitted)
		next.waiting = next.waiting[1:]
		next.running++
		g.running++
	}
}

func (g *admission) release(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.tenants[tenant].running--
	g.startNext()
	g.dropIdle(tenant)
}

// withdraw takes a query out of its queue, or releases its turn if it got one before withdraw took the lock. It
// returns the error of a query that can't run because of a limit of its tenant, else nil.
func (g *admission) withdraw(tenant string, v *waiter) error {
	g.mu.Lock()
	t := g.tenants[tenant]
	for i, x := range t.waiting {
		if x == v {
			t.waiting = append(t.waiting[:i:i], t.waiting[i+1:]...)
			over := t.limitError()
			g.dropIdle(tenant)
			g.mu.Unlock()
			return over
		}
	}
	g.mu.Unlock()
	g.release(tenant)
	return nil
}

// dropIdle drops a tenant without queries. The caller holds mu.
func (g *admission) dropIdle(tenant string) {
	if t := g.tenants[tenant]; t.running == 0 && len(t.waiting) == 0 {
		delete(g.tenants, tenant)
	}
}
