package provision_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"

	"github.com/stretchr/testify/require"
)

const oldMonth = "chunks-2026-05"

// rivals are two provisioners of one account, and an ingester, on one clock.
type rivals struct {
	*bench
	now      time.Time
	a, b     *provision.Provisioner
	ingester *control.Directory
	before   func() // is called before each request of a; it may call the other two
}

// watched is the account as a uses it.
type watched struct {
	*account
	r *rivals
}

func (w watched) List(ctx context.Context) ([]string, error) {
	w.r.before()
	return w.account.List(ctx)
}

func (w watched) Delete(ctx context.Context, name string) error {
	began := w.r.now
	if w.r.before(); w.r.now.Sub(began) >= control.DropTime {
		return context.DeadlineExceeded
	}
	return w.account.Delete(ctx, name)
}

func (w watched) Create(ctx context.Context, name string, t store.Throughput) error {
	w.r.before()
	return w.account.Create(ctx, name, t)
}

// newRivals makes an account with an old month that nobody needs: it was marked so long ago that it may be dropped.
func newRivals(t *testing.T) *rivals {
	r := &rivals{now: at("2026-11-23 12:00"), before: func() {}}
	clock := func() time.Time { return r.now }
	r.bench = newBench(t, clock, func(_ *provision.Config, c *control.DirectoryConfig) { c.Retention = 30 * day })
	_, err := r.directory.Register(t.Context(), "globex")
	require.NoError(t, err)
	require.NoError(t, r.directory.AskMonth(t.Context(), oldMonth, ""))
	r.once(t)
	r.now = r.now.Add(25 * time.Hour)
	r.once(t)
	require.True(t, r.directory.Snapshot().Expired(oldMonth))
	r.now = r.now.Add(control.DropAfter + time.Minute)

	inner, busy := r.docs, false
	inner.Fault = func(string, string, string) *storetest.Fault {
		if !busy {
			busy = true // what comes in between has requests of its own
			r.before()
			busy = false
		}
		return nil
	}
	rival := func(c provision.Containers) *provision.Provisioner {
		p, err := provision.New(provision.Config{Containers: c, Policy: provision.DevPolicy(), Now: clock,
			Directory: control.NewDirectory(control.DirectoryConfig{Documents: inner, Now: clock})})
		require.NoError(t, err)
		return p
	}
	r.a, r.b = rival(watched{r.account, r}), rival(r.account)
	r.ingester = control.NewDirectory(control.DirectoryConfig{Documents: inner, Now: clock}) // keeps for ever
	return r
}

// store stores a chunk of a tenant that keeps for ever, as an ingester does, and reports whether it is acknowledged.
func (r *rivals) store(t *testing.T) bool {
	v, err := r.ingester.Register(t.Context(), "acme")
	require.NoError(t, err)
	require.NotEmpty(t, v.Tenants())
	require.NoError(t, r.ingester.AskMonth(t.Context(), oldMonth, ""))
	return !r.ingester.Snapshot().Expired(oldMonth) && r.rus()[oldMonth] != 0
}

// What one provisioner decided long ago drops nothing that another one has kept meanwhile: whatever comes between any
// two requests of its round (rule X4).
func TestSlowRoundDropsNothingThatIsNeeded(t *testing.T) {
	stored, dropped := 0, 0
	for _, passes := range []time.Duration{0, control.ReopenAfter, control.DropAfter + time.Minute} {
		for step, more := 0, true; more; step++ {
			r, n, isStored := newRivals(t), 0, false
			r.before = func() {
				if n++; n-1 != step {
					return
				}
				for range 3 {
					isStored = isStored || r.store(t)
					_, _ = r.b.Once(t.Context())
					r.now = r.now.Add(passes)
				}
				isStored = isStored || r.store(t)
			}
			_, _ = r.a.Once(t.Context())
			more = n > step
			r.before = func() {}
			had := r.rus()[oldMonth] != 0
			if isStored {
				stored++
				require.True(t, had, "before request %d of the slow round acme has stored a chunk", step)
			} else if !had {
				dropped++
			}
			for range 3 { // it comes to rest, and acme's readings are stored in the end
				r.now = r.now.Add(control.DropAfter)
				_, err := r.a.Once(t.Context())
				require.NoError(t, err)
				require.True(t, !isStored || r.rus()[oldMonth] != 0)
				isStored = isStored || r.store(t)
			}
			require.True(t, isStored || !more, "request %d", step)
		}
	}
	require.Positive(t, stored)
	require.Positive(t, dropped)
}

// A drop that is cut short is finished by whoever comes next, and cannot be called off.
func TestDropMayDieAnywhere(t *testing.T) {
	for failing := range 4 {
		r := newRivals(t)
		n := 0
		r.docs.Fault = func(op, kind, _ string) *storetest.Fault {
			if failing < 3 && kind == control.KindMonth && (op == storetest.OpReplace || op == storetest.OpRead) {
				if n++; n-1 == failing {
					return &storetest.Fault{Err: errors.New("no connection"), Applied: op == storetest.OpReplace}
				}
			}
			return nil
		}
		if failing == 3 {
			r.fail["delete"] = errors.New("no connection")
		}
		_, err := r.a.Once(t.Context())
		require.Error(t, err, "failing %d", failing)
		delete(r.fail, "delete")
		require.False(t, r.store(t), "acme waits")
		for range 2 {
			_, err = r.b.Once(t.Context())
			require.NoError(t, err)
		}
		require.NotContains(t, r.rus(), oldMonth)
		require.False(t, r.store(t), "a delete may be under way")
		steps, err := r.b.Once(t.Context())
		require.NoError(t, err)
		require.Contains(t, lines(steps), oldMonth+" cold create 0->400 waits")
		r.now = r.now.Add(control.ReopenAfter + time.Second)
		_, err = r.b.Once(t.Context())
		require.NoError(t, err)
		require.True(t, r.store(t), "failing %d", failing)
	}
}
