package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/bins"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/write"

	"github.com/stretchr/testify/require"
)

// registered makes a tenant known.
func registered(w *world, tenant string) {
	l := w.worker(nil)
	require.NoError(w.t, l.Take(context.Background(), admit.Record{Time: start,
		Value: fmt.Appendf(nil, `{"tenant":%q,"device":"first","ts":%d,"values":{"a":1}}`, tenant, start)}))
}

// takeDeferred reads again all that may be taken now.
func takeDeferred(w *world, l *ingest.Local) {
	for offset, ok := l.Deferred().Next(w.now); ok; offset, ok = l.Deferred().Next(w.now) {
		require.NoError(w.t, l.TakeDeferredRecord(context.Background(), w.at(offset)))
	}
}

// Records of thousands of made-up tenants hold up nobody, take little memory, and have so many tenants registered a
// minute as may be. What has waited for too long is refused, and so is what is beyond the tenants that may wait. All is
// stored or refused once.
func TestMadeUpTenantsDelayNobody(t *testing.T) {
	const made, perMinute = 3000, 20
	w := newWorld(t, nil)
	registered(w, "acme")
	for i := range int64(made) {
		tenant, device := fmt.Sprintf("t%d", i), "x"
		if i == made-1 {
			tenant, device = "acme", "after"
		}
		w.log = append(w.log, admit.Record{Offset: i, Time: start, Value: fmt.Appendf(nil,
			`{"tenant":%q,"device":"%s%d","ts":%d,"values":{"a":1}}`, tenant, device, i, start)})
	}
	l := w.worker(func(c *ingest.Config) {
		c.Registrations, c.HeldFor = admit.NewRegistrations(perMinute), 15*time.Minute
	})
	ctx := ingesttest.Deadline(t)
	for _, r := range w.log {
		require.NoError(t, l.Take(ctx, r))
	}
	require.EqualValues(t, made, l.Position())
	require.Equal(t, 1, l.OpenBins(), "the reading of acme is taken")
	require.Len(t, l.Deferred().Deferrals(""), 1024)
	require.Less(t, l.Held(), int64(8<<20))
	known := func() (n int) {
		for i := range made {
			if _, ok := w.dir.Snapshot().Tenant(fmt.Sprintf("t%d", i)); ok {
				n++
			}
		}
		return n
	}
	require.Zero(t, known(), "nothing is registered before a record is taken")
	for minute := range 30 {
		for range 60 {
			require.NoError(t, l.Step(ctx))
			takeDeferred(w, l)
			w.now = w.now.Add(time.Second)
		}
		require.LessOrEqual(t, known(), perMinute*(minute+2))
	}
	require.Greater(t, known(), 14*perMinute)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.NoError(t, l.Finish(ctx))
	require.EqualValues(t, made, l.Floor())
	for _, d := range w.deadLetters {
		require.Equal(t, decode.UnknownTenant, d.Bad.Reason)
		require.Contains(t, d.Bad.Detail, "--register-rate is 120 a minute")
	}
	require.Equal(t, made, len(w.Stored())+len(w.deadLetters))
	require.Less(t, l.Held(), int64(1<<20), "nothing is kept of those that were not registered")
}

// A tenant's readings keep their order while it is registered, a registration that fails is tried again, and a topic
// with many new tenants does not keep the others from having theirs registered.
func TestRegistrationIsTriedAgain(t *testing.T) {
	w := newWorld(t, nil)
	for i := range int64(4) {
		w.log = append(w.log, admit.Record{Offset: i, Time: start,
			Value: fmt.Appendf(nil, `{"tenant":"acme","device":"d0","ts":%d,"values":{"a":%d}}`, start+i/2, i)})
	}
	shared := admit.NewRegistrations(1)
	l := w.worker(func(c *ingest.Config) { c.Registrations, c.Topic = shared, "quiet" })
	loud := w.worker(func(c *ingest.Config) { c.Registrations, c.Topic = shared, "loud" })
	ctx := ingesttest.Deadline(t)
	require.NoError(t, loud.Take(ctx, admit.Record{Time: start, Value: fmt.Appendf(nil,
		`[{"tenant":"t1","device":"d","ts":%[1]d,"values":{"a":1}},{"tenant":"t2","device":"d","ts":%[1]d,"values":{"a":1}}]`,
		start)}))
	require.Len(t, loud.Due(), 1, "one a minute for a topic")
	require.NoError(t, l.Take(ctx, w.log[0]))
	jobs := l.Due()
	require.Len(t, jobs, 1)
	require.NoError(t, l.Take(ctx, w.log[1]))
	jobs[0].Failed(write.Result{Fault: bins.Unknown})
	l.Done(jobs[0], w.now)
	require.Empty(t, l.Due())
	w.now = w.now.Add(time.Minute)
	require.NoError(t, l.Take(ctx, w.log[2]))
	require.NoError(t, l.Step(ctx))
	require.NoError(t, l.Take(ctx, w.log[3]), "it is known now, and behind those that wait")
	require.NoError(t, l.Step(ctx))
	require.Zero(t, l.OpenBins())
	takeDeferred(w, l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.NoError(t, l.Finish(ctx))
	require.Empty(t, w.deadLetters)
	require.Len(t, w.Stored(), 2)
	for s, v := range w.Stored() {
		require.EqualValues(t, 1+2*(s.Time-start), v.Float(), "the later one counts")
	}
}
