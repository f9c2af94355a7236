package query

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"binnacle/query/read"
)

// gate bounds how many queries run at the same time. Who must wait waits in the line of its tenant, and the next to
// enter is from the tenant that has the fewest running, so that a loud tenant waits for itself. A tenant never has more
// than half of the places, rounded up. It is safe for any number of callers.
type gate struct {
	places, each, line int
	patience           time.Duration
	most               func(tenant string) int // that may run of a tenant by what is set for it; 0: no bound

	mu      sync.Mutex // guards below
	inside  int
	tenants map[string]*visitors // of tenants that run or wait
	turn    uint64               // of the next visitor
}

// visitors is what the gate knows of a tenant.
type visitors struct {
	most    int  // that may run
	own     bool // because of what is set for the tenant
	running int
	line    []*visitor
}

// before reports whether its first one is let in before that of another tenant. Both have somebody waiting.
func (t *visitors) before(other *visitors) bool {
	return cmp.Or(cmp.Compare(t.running, other.running), cmp.Compare(t.line[0].turn, other.line[0].turn)) < 0
}

// over is the error of a query that can't run because of what is set for its tenant; nil if that is not why.
func (t *visitors) over() error {
	if !t.own || t.running < t.most {
		return nil
	}
	return &QuotaError{fmt.Sprintf("its %d queries at the same time, and %d more wait", t.most, len(t.line)), time.Second,
		askInTurn}
}

// visitor waits. entered is closed when it is its turn.
type visitor struct {
	turn    uint64
	entered chan struct{}
}

func newGate(places, line int, patience time.Duration, most func(string) int) *gate {
	return &gate{
		places: places, each: (places + 1) / 2, line: line, patience: patience, most: most,
		tenants: make(map[string]*visitors),
	}
}

// enter waits for a turn, and fails when the line is full or no turn comes in time: with ErrBusy, or with a *QuotaError
// where the tenant has as many running as it may have. Who has entered calls leave.
func (g *gate) enter(ctx context.Context, tenant string) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v, err := g.queue(tenant)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(g.patience)
	defer timer.Stop()
	select {
	case <-v.entered:
		return func() { g.leave(tenant) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = fmt.Errorf("%w: no turn within %s", read.ErrBusy, g.patience)
	}
	if over := g.giveUp(tenant, v); over != nil && ctx.Err() == nil {
		err = over
	}
	return nil, err
}

// queue puts a visitor into its line and lets in who may come in.
func (g *gate) queue(tenant string) (*visitor, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tenants[tenant]
	if t == nil {
		t = &visitors{}
		g.tenants[tenant] = t
	}
	t.most, t.own = g.each, false
	if n := g.most(tenant); n > 0 && n < g.each {
		t.most, t.own = n, true
	}
	if len(t.line) >= g.line {
		if over := t.over(); over != nil {
			return nil, over
		}
		return nil, fmt.Errorf("%w: %d of this tenant are waiting", read.ErrBusy, len(t.line))
	}
	v := &visitor{turn: g.turn, entered: make(chan struct{})}
	g.turn++
	t.line = append(t.line, v)
	g.admit()
	return v, nil
}

// admit lets in as many as there are places for. The caller holds mu.
func (g *gate) admit() {
	for g.inside < g.places {
		var next *visitors
		for _, t := range g.tenants {
			if len(t.line) == 0 || t.running >= t.most {
				continue
			}
			if next == nil || t.before(next) {
				next = t
			}
		}
		if next == nil {
			return
		}
		close(next.line[0].entered)
		next.line = next.line[1:]
		next.running++
		g.inside++
	}
}

func (g *gate) leave(tenant string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.tenants[tenant].running--
	g.admit()
	g.forget(tenant)
}

// giveUp takes a visitor out of its line; one that was let in meanwhile leaves. It returns the error of who can't run
// because of what is set for the tenant, nil for all others.
func (g *gate) giveUp(tenant string, v *visitor) error {
	g.mu.Lock()
	t := g.tenants[tenant]
	for i, x := range t.line {
		if x == v {
			t.line = append(t.line[:i:i], t.line[i+1:]...)
			over := t.over()
			g.forget(tenant)
			g.mu.Unlock()
			return over
		}
	}
	g.mu.Unlock()
	g.leave(tenant)
	return nil
}

// forget drops a tenant that neither runs nor waits. The caller holds mu.
func (g *gate) forget(tenant string) {
	if t := g.tenants[tenant]; t.running == 0 && len(t.line) == 0 {
		delete(g.tenants, tenant)
	}
}
