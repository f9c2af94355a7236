package worker_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"

	"github.com/stretchr/testify/require"
)

// late has a process take the rest of the log, a millisecond for each record, all of which has been there since now.
func (w *world) late(l *ingest.Local) {
	l.Bins().SetLogEnd(int64(len(w.log)))
	for at := l.Position(); at < int64(len(w.log)); at++ {
		require.NoError(w.t, l.Take(w.t.Context(), w.log[at]))
		w.now = w.now.Add(time.Millisecond)
	}
}

// crowd appends readings of tenants in turns, of each as many in a turn as are said.
func (w *world) crowd(turns int, tenants map[string]int) {
	for range turns {
		for _, tenant := range []string{"loud", "two", "three", "four"} {
			for range tenants[tenant] {
				w.publish(tenant, "d-"+tenant, w.now.Add(time.Duration(len(w.log))*time.Microsecond), 1)
			}
		}
	}
}

func fairly(c *ingest.Config) {
	c.Hold, c.CatalogEvery, c.CommitEvery, c.FairAfter = time.Hour, 6*time.Hour, time.Second, 500*time.Millisecond
}

// A tenant that delays others is deferred once they have waited for so long as is set, and goes on when nobody waits
// any more: nothing of it is refused, and its readings stay in order.
func TestFairnessDefersTheNoisyTenant(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(fairly)
	w.crowd(200, map[string]int{"loud": 8, "two": 1, "three": 1})
	w.late(l)
	require.Equal(t, 200, has(l, "two"))
	require.Equal(t, 200, has(l, "three"))
	require.InDelta(t, 600, has(l, "loud"), 100, "half a second, and a round in which it is counted")
	waiting := l.Deferred().Deferrals("")
	require.Len(t, waiting, 1)
	require.Equal(t, "loud", waiting[0].Tenant)
	require.Equal(t, "share", waiting[0].Limit)
	require.Equal(t, waiting[0].From, min(waiting[0].From, l.Position()))
	require.Equal(t, "share", l.Deferred().Excesses("loud")[0].Limit)
	require.LessOrEqual(t, l.Floor(), waiting[0].From)
	w.takeDeferred(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Equal(t, 1600, has(l, "loud"))
	require.NoError(t, l.Finish(t.Context()))
	require.Equal(t, int64(len(w.log)), l.Floor())
	require.Equal(t, 2000, w.storedReadings())
	require.Empty(t, w.deadLetters)
	w.CheckChains()
}

// No tenant is deferred that has no more than the others, or no others, or in the time that it takes to catch up after
// a takeover, or where that is off.
func TestFairnessDefersNobodyInBalance(t *testing.T) {
	one := map[string]int{"loud": 8, "two": 1, "three": 1}
	for name, c := range map[string]struct {
		tenants map[string]int
		change  func(*ingest.Config)
		logEnd  int64
	}{
		"alone":       {tenants: map[string]int{"loud": 10}},
		"even":        {tenants: map[string]int{"loud": 3, "two": 2, "three": 2, "four": 2}},
		"off":         {tenants: one, change: func(c *ingest.Config) { c.FairAfter = -1 }},
		"takeover":    {tenants: one, logEnd: 2000},
		"not so late": {tenants: one, change: func(c *ingest.Config) { c.FairAfter = 3 * time.Second }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			l := w.worker(func(cfg *ingest.Config) {
				fairly(cfg)
				if c.change != nil {
					c.change(cfg)
				}
			})
			l.Resume(worker.Assignment{Stream: 1, LogEnd: c.logEnd})
			w.crowd(200, c.tenants)
			w.late(l)
			require.Empty(t, l.Deferred().Deferrals(""))
			require.Zero(t, l.Counts.Deferred)
		})
	}
}

// What was passed over is read again only when the others are up to date, or when it has waited for as long as readings
// may: then it gets its part of the time however late they are.
func TestDeferredNoisyTenantYields(t *testing.T) {
	w := newWorld(t, nil)
	l := w.worker(func(c *ingest.Config) {
		fairly(c)
		c.HeldFor = time.Minute
	})
	w.crowd(200, map[string]int{"loud": 8, "two": 1, "three": 1})
	w.late(l)
	since := l.Deferred().Deferrals("")[0].Since
	w.crowd(200, map[string]int{"two": 1, "three": 1})
	l.Bins().SetLogEnd(int64(len(w.log)))
	take := func(n int) {
		for range n {
			require.NoError(t, l.Take(t.Context(), w.log[l.Position()]))
		}
	}
	asked := func() bool {
		_, ok := l.Deferred().Next(w.now)
		_, at := l.Deferred().DueAt()
		require.Equal(t, ok, at)
		return ok
	}
	take(1)
	require.True(t, asked(), "the others are not late")
	w.now = w.now.Add(200 * time.Millisecond)
	take(1)
	require.False(t, asked())
	w.now = since.Add(time.Minute + time.Millisecond)
	take(1)
	require.True(t, asked())
	w.now = since.Add(time.Minute)
	take(1)
	require.False(t, asked())
	take(len(w.log) - int(l.Position()))
	require.True(t, asked())
	w.takeDeferred(l)
	require.Empty(t, l.Deferred().Deferrals(""))
	require.Equal(t, 1600, has(l, "loud"))
}
