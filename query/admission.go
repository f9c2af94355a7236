package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"binnacle/internal/tenant"
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

// The windows of rates: a tenant that has asked for nothing may ask for as much at once.
const (
	rateWindow = 10 * time.Second
	ruWindow   = time.Minute
)

// QuotaError says that a tenant has used up a limit. The same request may be sent again after RetryAfter, whatever
// other tenants do.
type QuotaError struct {
	Limit      string // the limit that is used up
	RetryAfter time.Duration
	Narrow     []string // ways for the caller to ask for less
}

// Error returns the limit, and what to narrow.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("this tenant has used up %s: try again in %s, and %s", e.Limit, e.RetryAfter,
		strings.Join(e.Narrow, ", or "))
}

// What a tenant can do about a limit.
var (
	askLess    = []string{"ask less often", "ask for more devices, metrics or time in one query"}
	askCheaper = []string{"ask for a shorter range", "name fewer devices or metrics", "ask less often"}
	askInTurn  = []string{"ask for one thing after the other"}
)

// quotas holds tenants to how often they may ask, and what that may cost. Unlike a turn, which is given back, what is
// used up here comes back with time. It is safe for any number of callers.
type quotas struct {
	limits func(tenant string) tenant.QueryLimits
	share  float64 // part of a tenant's limits that this process grants
	now    func() time.Time

	mu      sync.Mutex // guards below
	tenants map[string]*quota
	dropAt  int // number of tenants at which those with nothing used up are dropped
}

// quota is what a tenant has left.
type quota struct {
	limits        tenant.QueryLimits // limits at its last query
	requests, rus bucket
	day           int64   // since 1970
	spent         float64 // request units, on that day
}

// minDropAt is the least dropAt: a small map is not searched.
const minDropAt = 1024

// admit counts a query of a tenant, or refuses it.
func (q *quotas) admit(tenant string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	t := q.of(tenant, now)
	if err := q.check(t, now, 0); err != nil {
		return err
	}
	rate, bounded := t.limits.Rate.Of()
	if !bounded {
		return nil
	}
	level := t.requests.at(now, rate*q.share, rateWindow)
	if level < 1 {
		return &QuotaError{fmt.Sprintf("its %s queries a second, over %s", t.limits.Rate, rateWindow),
			wait(1-level, rate*q.share), askLess}
	}
	t.requests.take(1)
	return nil
}

func (q *quotas) spend(tenant string, rus float64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	t := q.of(tenant, now)
	t.spent += rus
	if rate, bounded := t.limits.RUs.Of(); bounded {
		t.rus.at(now, rate*q.share, ruWindow)
		t.rus.take(rus)
	}
}

// mayContinue fails if a running query of a tenant must end: at the day's request units, and when it is in debt by as
// many request units as come back in a window.
func (q *quotas) mayContinue(tenant string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	t := q.of(tenant, now)
	rate, _ := t.limits.RUs.Of()
	return q.check(t, now, rate*q.share*ruWindow.Seconds())
}

// check fails if a tenant has no request units left, or is in debt by more. The caller holds mu.
func (q *quotas) check(t *quota, now time.Time, debt float64) error {
	if most, bounded := t.limits.RUsOfDay.Of(); bounded && t.spent >= most*q.share {
		end := time.Unix((t.day+1)*int64(24*time.Hour/time.Second), 0)
		return &QuotaError{fmt.Sprintf("its %s request units of this day, which ends at 00:00 UTC", t.limits.RUsOfDay),
			seconds(end.Sub(now)), askCheaper}
	}
	rate, bounded := t.limits.RUs.Of()
	if !bounded {
		return nil
	}
	if level := t.rus.at(now, rate*q.share, ruWindow); level <= -debt {
		return &QuotaError{fmt.Sprintf("its %s request units a second, over %s", t.limits.RUs, ruWindow),
			wait(-level, rate*q.share), askCheaper}
	}
	return nil
}

// used returns how much of the limits that come back with time a tenant has used up, as parts of one, by the names of
// their flags. A limit that does not bound the tenant is left out. Above one it is in debt.
func (q *quotas) used(tenant string) map[string]float64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	t := q.of(tenant, now)
	out := map[string]float64{}
	gone := func(b *bucket, rate float64, window time.Duration) float64 {
		full := max(rate*window.Seconds(), 1)
		return 1 - b.at(now, rate, window)/full
	}
	if rate, bounded := t.limits.Rate.Of(); bounded {
		out["query-rate"] = gone(&t.requests, rate*q.share, rateWindow)
	}
	if rate, bounded := t.limits.RUs.Of(); bounded {
		out["query-rus"] = gone(&t.rus, rate*q.share, ruWindow)
	}
	if most, bounded := t.limits.RUsOfDay.Of(); bounded {
		out["query-rus-day"] = t.spent / (most * q.share)
	}
	return out
}

// of returns the quota of a tenant on this day. The caller holds mu.
func (q *quotas) of(tenant string, now time.Time) *quota {
	t := q.tenants[tenant]
	day := now.Unix() / int64(24*time.Hour/time.Second)
	if t == nil {
		if len(q.tenants) >= q.dropAt {
			q.dropFull(now, day)
		}
		t = &quota{day: day}
		q.tenants[tenant] = t
	}
	if t.limits = q.limits(tenant); t.day != day {
		t.day, t.spent = day, 0
	}
	return t
}

// dropFull drops tenants with nothing used up. The caller holds mu.
func (q *quotas) dropFull(now time.Time, day int64) {
	for name, t := range q.tenants {
		idle := now.Sub(t.rus.filled) >= 2*ruWindow && now.Sub(t.requests.filled) >= rateWindow
		if idle && (t.spent == 0 || t.day != day) {
			delete(q.tenants, name)
		}
	}
	q.dropAt = max(minDropAt, 2*len(q.tenants))
}

// bucket is an amount that comes back with time.
type bucket struct {
	level  float64
	filled time.Time // zero: it is full
}

// at returns the level at a time, of what comes back at a rate until it is as much as comes in a window, or one.
func (b *bucket) at(now time.Time, rate float64, window time.Duration) float64 {
	full := max(rate*window.Seconds(), 1)
	switch {
	case b.filled.IsZero():
		b.level = full
	case now.After(b.filled):
		b.level += rate * now.Sub(b.filled).Seconds()
	}
	b.level, b.filled = min(b.level, full), now
	return b.level
}

func (b *bucket) take(n float64) { b.level -= n }

// wait returns how long it takes until so much has come back.
func wait(n, rate float64) time.Duration {
	return seconds(time.Duration(min(n/rate, 1e9) * float64(time.Second)))
}

func seconds(d time.Duration) time.Duration {
	return time.Duration(max(1, math.Ceil(d.Seconds()))) * time.Second
}
