package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"binnacle/internal/ops"
)

// adding is what operators have added with `tenant add` in a run about limits, whose newcomers nobody has registered:
// an ingester may do so at the same time.
type adding struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd *rand.Rand
	// added are tenants that a command says it has registered.
	added map[string]added
}

// added is a tenant that was added.
type added struct {
	at        time.Time
	retention time.Duration
}

// feltWithin is how long after `tenant add` an ingester may not know the tenant: it lists changes twice a minute, and
// may fail.
const feltWithin = 3 * time.Minute

// actAdding has an operator add a newcomer, or kills a command. It reports whether it did.
func (b *box) actAdding() bool {
	if !b.limiting.on {
		return false
	}
	a := &b.adding
	if a.rnd == nil {
		a.rnd, a.added = rand.New(rand.NewPCG(b.opts.seed, 44)), map[string]added{}
	}
	if a.rnd.IntN(30) > 0 {
		return false
	}
	for _, c := range b.operating.commands {
		if !c.isOver && a.rnd.IntN(2) == 0 {
			b.event("box", "kill", c.name, "")
			b.die(c.actor)
			c.isOver = true
			return true
		}
	}
	b.startAdd(fmt.Sprintf("new%d", b.limiting.newcomers+a.rnd.IntN(2)), oneOf(a.rnd, 0, 30*24*time.Hour))
	return true
}

// startAdd starts `tenant add`.
func (b *box) startAdd(name string, retention time.Duration) {
	text := "forever"
	if retention > 0 {
		text = fmt.Sprintf("%dd", int(retention.Hours()/24))
	}
	b.startCommand("add "+name+" --retention "+text, func(ctx context.Context, c *command) {
		mux := http.NewServeMux()
		ops.TenantAPI{Docs: documents{c.actor}, Via: "box", Log: c.logger()}.Register(mux)
		body := fmt.Sprintf(`{"tenant":%q,"retention":%q}`, name, text)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, ops.TenantsPath, strings.NewReader(body))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		c.logger().Info("the command has ended", "status", w.Code, "body", w.Body.String())
		if w.Code == http.StatusCreated {
			b.adding.added[name] = added{time.Now(), retention}
			b.checkAdded(name)
		}
	})
}

// checkAdded holds that a tenant has the retention that it was added with.
func (b *box) checkAdded(name string) {
	t, known := b.snapshot().Tenant(name)
	if want := b.adding.added[name].retention; !known || t.Retention != want {
		b.fail("%s was added with a retention of %s, and has %s (known: %t)", name, want, t.Retention, known)
	}
}

// endAdding holds that all that was added is there at the end.
func (b *box) endAdding() {
	for name := range b.adding.added {
		b.checkAdded(name)
	}
}

// isAdded reports whether a tenant was added so long before an instant that each ingester knows it.
func (a *adding) isAdded(name string, at time.Time) bool {
	x, ok := a.added[name]
	return ok && at.Sub(x.at) > feltWithin
}
