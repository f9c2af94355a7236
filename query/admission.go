package query

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"binnacle/query/read"
)

// admission bounds how many queries run at the same time. Who must wait waits in the line of its tenant, and the next to
// enter is from the tenant that has the fewest running, so that a loud tenant waits for itself. A tenant never has more
// than half of the places, rounded up. It is safe for any number of callers.
type admission struct {
	maxRunning, maxPerTenant, maxQueued int
	timeout                             time.Duration
	tenantLimit                         func(tenant string) int // that may run of a tenant by what is set for it; 0: no bound

	mu       sync.Mutex // guards below
	running  int
	tenants  map[string]*tenantQueue // of tenants that run or wait
	nextTurn uint64                  // of the next visitor
}

// tenantQueue is what the gate knows of a tenant.
type tenantQueue struct {
	maxRunning int  // that may run
	ownLimit   bool // because of what is set for the tenant
	running    int
	waiting    []*waiter
}

// before reports whether its first one is let in before that of another tenant. Both have somebody waiting.
func (t *tenantQueue) before(other *tenantQueue) bool {
	return cmp.Or(cmp.Compare(t.running, other.running), cmp.Compare(t.waiting[0].turn, other.waiting[0].turn)) < 0
}

// limitError is the error of a query that can't run because of what is set for its tenant; nil if that is not why.
func (t *tenantQueue) limitError() error {
	if !t.ownLimit || t.running < t.maxRunning {
		return nil
	}
	return &QuotaError{fmt.Sprintf("its %d queries at the same time, and %d more wait", t.maxRunning, len(t.waiting)), time.Second,
		askInTurn}
}

// waiter waits. entered is closed when it is its turn.
type waiter struct {
	turn     uint64
	admitted chan struct{}
}

func newAdmission(places, line int, patience time.Duration, most func(string) int) *admission {
	return &admission{
		maxRunning: places, maxPerTenant: (places + 1) / 2, maxQueued: line, timeout: patience, tenantLimit: most,
		tenants: make(map[string]*tenantQueue),
	}
}

// acquire waits for a turn, and fails when the line is full or no turn comes in time: with ErrBusy, or with a *QuotaError
// where the tenant has as many running as it may have. Who has entered calls leave.
func (g *admission) acquire(ctx context.Context, tenant string) (leave func(), err error) {
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
		err = fmt.Errorf("%w: no turn within %s", read.ErrBusy, g.timeout)
	}
	if over := g.withdraw(tenant, v); over != nil && ctx.Err() == nil {
		err = over
	}
	return nil, err
}

// enqueue puts a visitor into its line and lets in who may come in.
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
		return nil, fmt.Errorf("%w: %d of this tenant are waiting", read.ErrBusy, len(t.waiting))
	}
	v := &waiter{turn: g.nextTurn, admitted: make(chan struct{})}
	g.nextTurn++
	t.waiting = append(t.waiting, v)
	g.startNext()
	return v, nil
}

// startNext lets in as many as there are places for. The caller holds mu.
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

// withdraw takes a visitor out of its line; one that was let in meanwhile leaves. It returns the error of who can't run
// because of what is set for the tenant, nil for all others.
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

// dropIdle drops a tenant that neither runs nor waits. The caller holds mu.
func (g *admission) dropIdle(tenant string) {
	if t := g.tenants[tenant]; t.running == 0 && len(t.waiting) == 0 {
		delete(g.tenants, tenant)
	}
}
