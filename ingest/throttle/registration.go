package throttle

import (
	"math"
	"strings"
	"sync"
	"time"

	"binnacle/ingest/queue"
	"binnacle/internal/control"
	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// limitRegistration is the reason when readings wait until their tenant is registered.
const limitRegistration limitName = store.RegistrationLimit

const (
	maxUnregistered   = 1024 // tenants of a partition with readings that wait for a registration
	unregisteredBytes = 700  // of memory for each, beside its deferral
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

// NewRegistrations allows so many registrations a minute for a topic, and four times as many in all.
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
	waiting  map[string]*deferral // by tenant
	asked    queue.FIFO[string]   // of those, whom nobody registers now
	running  int
	retry    retry.Backoff
	snapshot *control.Snapshot // that has none of them
}

// Await defers the readings of a tenant that is not registered, from a record on. It reports whether they wait: those
// that have waited for too long do not, nor do those of one tenant more than may wait.
func (th *Throttle) Await(f *Feed, tenant string) bool {
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
	g, t, now := &th.registering, th.known(tenant), f.Now.UnixMilli()
	waits := t != nil && t.deferral != nil && f.Offset >= t.deferral.from
	if !waits {
		if f.Again || len(g.waiting) >= maxUnregistered {
			return false
		}
		if t == nil {
			t = &Tenant{Name: strings.Clone(tenant)}
			th.tenants[t.Name], th.recent = t, t
		}
		th.deferFrom(deferral{tenant: t, limit: limitRegistration, from: f.Offset, through: f.Offset, published: f.Time,
			since: now, until: math.MaxInt64}, false)
	}
	x := t.deferral
	th.enlist(x, now)
	if !f.Again {
		return true
	}
	since := max(x.since, published(f)/int64(time.Millisecond))
	if now-since > th.cfg.HeldFor.Milliseconds() || f.Offset < th.deferrals.urgentBelow {
		return false
	}
	th.deferrals.block(x, f, math.MaxInt64)
	x.since = since
	return true
}

// enlist has the tenant of a deferral be registered, if that was not asked for.
func (th *Throttle) enlist(x *deferral, now int64) {
	g := &th.registering
	if g.waiting[x.tenant.Name] == x {
		return
	}
	if g.waiting == nil {
		g.waiting = map[string]*deferral{}
	}
	if x.limit != limitRegistration { // it was registered, and is not any more
		x.limit, x.since, x.through = limitRegistration, now, math.MaxInt64
	}
	g.waiting[x.tenant.Name] = x
	g.asked.Push(x.tenant.Name)
}

// NextRegistrations returns which tenants are to be registered now. The caller calls Registered or RegistrationFailed
// for each of them.
func (th *Throttle) NextRegistrations(topic string, now time.Time, snapshot *control.Snapshot) (tenants []string) {
	g := &th.registering
	if len(g.waiting) == 0 {
		return nil
	}
	th.cfg.Mu.Lock()
	defer th.cfg.Mu.Unlock()
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
			if !th.cfg.Registrations.take(topic, now) {
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
func (th *Throttle) Registered(tenant string) {
	th.registering.retry = retry.Backoff{}
	th.endRegistration(tenant)
}

// RegistrationFailed has a tenant registered later, after so long at least.
func (th *Throttle) RegistrationFailed(tenant string, after time.Duration, now time.Time) {
	th.registering.retry.Fail(now, th.cfg.Retry(after))
	th.endRegistration(tenant)
}

func (th *Throttle) endRegistration(tenant string) {
	g := &th.registering
	if g.running--; g.waiting[tenant] != nil {
		g.asked.Push(tenant)
	}
}

// ended says that nothing of a tenant waits any more.
func (g *registering) ended(x *deferral) {
	if g.waiting[x.tenant.Name] == x {
		delete(g.waiting, x.tenant.Name)
	}
}
