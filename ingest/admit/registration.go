package admit

import (
	"math"
	"sync"
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/control"
	"binnacle/internal/retry"
)

const (
	maxUnregistered   = 1024 // tenants of a partition with readings that wait for a registration
	unregisteredBytes = 700  // memory for each, without its deferral
	topicsInAll       = 4    // how many topics may have all the registrations of a minute at a time
)

// MaxRegistering bounds the registrations of a partition that are under way.
const MaxRegistering = 4

// Registrations bounds how many tenants the Workers of a process have registered in a minute: for readings of one
// topic, and in all. It is safe for any number of callers.
type Registrations struct {
	perMinute int

	mu     sync.Mutex
	all    time.Time // until then the registrations of all topics have used up what a minute brings
	topics map[string]time.Time
}

// NewRegistrations allows perMinute registrations a minute for a topic, and four times as many in all.
func NewRegistrations(perMinute int) *Registrations {
	return &Registrations{perMinute: max(1, perMinute), topics: map[string]time.Time{}}
}

// take reports whether one more tenant may be registered now, and counts it.
func (g *Registrations) take(topic string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	next := func(used time.Time, perMinute int) (time.Time, bool) {
		if used.Before(now) {
			used = now
		}
		used = used.Add(time.Minute / time.Duration(perMinute))
		return used, used.Sub(now) <= time.Minute
	}
	own, ok := next(g.topics[topic], g.perMinute)
	all, okAll := next(g.all, topicsInAll*g.perMinute)
	if ok && okAll {
		g.topics[topic], g.all = own, all
	}
	return ok && okAll
}

// registering is the tenants that readings name and that are not registered. Their readings wait, so that no
// registration delays another tenant.
type registering struct {
	waiting  map[string]*deferral // deferrals of these tenants by name
	asked    queue.FIFO[string]   // waiting tenants without a registration under way
	running  int
	retry    retry.Backoff
	snapshot *control.Snapshot // a snapshot without the waiting tenants
	// alone counts the last records without a reading that was taken, and with some that were deferred.
	alone int
}

const (
	// aloneAtMost is how many records in a row may hold nothing but readings of waiting tenants before reading pauses:
	// what is read on must be read again.
	aloneAtMost = 256
	// longestPause bounds how long a registration may delay readings of other tenants behind such records.
	longestPause = 2 * time.Second
)

// count counts a record of which readings were taken, or deferred.
func (g *registering) count(taken, deferred bool) {
	if g.alone++; taken || !deferred {
		g.alone = 0
	}
}

// ended says that nothing of a tenant waits any more.
func (g *registering) ended(x *deferral) {
	if g.waiting[x.tenant.name] == x {
		delete(g.waiting, x.tenant.name)
	}
}

// enlist asks for the registration of a deferral's tenant, once.
func (g *registering) enlist(x *deferral, now int64) {
	if g.waiting[x.tenant.name] == x {
		return
	}
	if g.waiting == nil {
		g.waiting = map[string]*deferral{}
	}
	if x.limit != limitRegistration { // it was registered, and is not any more
		x.limit, x.since, x.through = limitRegistration, now, math.MaxInt64
	}
	g.waiting[x.tenant.name] = x
	g.asked.Push(x.tenant.name)
}

// await defers the readings of a tenant that is not registered, from a record on. Readings that have waited for too
// long do not wait, nor do readings of a tenant when as many tenants wait as may: they are refused.
func (l *Limits) await(f *feed, tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, t, now := &l.registering, l.tenants.get(tenant), f.Now.UnixMilli()
	if waits := t != nil && t.deferral != nil && f.Offset >= t.deferral.from; !waits {
		if f.again || len(g.waiting) >= maxUnregistered {
			return
		}
		t = l.tenants.add(tenant)
		l.deferFrom(deferral{tenant: t, limit: limitRegistration, from: f.Offset, through: f.Offset, published: f.Time,
			since: now, until: math.MaxInt64}, false)
	}
	x := t.deferral
	if g.enlist(x, now); !f.again {
		return
	}
	since := max(x.since, published(f)/int64(time.Millisecond))
	if now-since > l.cfg.HeldFor.Milliseconds() || f.Offset < l.deferrals.urgentBelow {
		return
	}
	l.deferrals.block(x, f, math.MaxInt64)
	x.since = since
}

// NextRegistrations returns the tenants to register now. The caller calls Registered or RegistrationFailed for each.
func (l *Limits) NextRegistrations(topic string, now time.Time, snapshot *control.Snapshot) (tenants []string) {
	g := &l.registering
	if len(g.waiting) == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if snapshot != g.snapshot {
		g.snapshot = snapshot
		for name, x := range g.waiting {
			if _, known := snapshot.Tenant(name); known || snapshot.Damaged(name) != nil {
				x.until = 0
				delete(g.waiting, name)
			}
		}
	}
	for g.asked.Len() > 0 && g.running < MaxRegistering && g.retry.Open(now) {
		name := g.asked.Front()
		if g.waiting[name] != nil {
			if !l.cfg.Registrations.take(topic, now) {
				break
			}
			g.running++
			tenants = append(tenants, name)
		}
		g.asked.Pop()
	}
	return tenants
}

// Registered ends an attempt to register a tenant. One that the next snapshot lacks all the same is registered again.
func (l *Limits) Registered(tenant string) {
	l.registering.retry = retry.Backoff{}
	l.registering.again(tenant)
}

// RegistrationFailed schedules another attempt to register a tenant, after that time at least.
func (l *Limits) RegistrationFailed(tenant string, after time.Duration, now time.Time) {
	l.registering.retry.Fail(now, l.cfg.Retry(after))
	l.registering.again(tenant)
}

// again ends an attempt to register a tenant, and queues the tenant again if it still waits.
func (g *registering) again(tenant string) {
	if g.running--; g.waiting[tenant] != nil {
		g.asked.Push(tenant)
	}
}
