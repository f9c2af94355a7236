package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest/ingesttest"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// Every operation outside fails in turn, done or not, and before it is repeated the partition belongs to somebody else,
// which reads from the committed offset to the end. The first owner never learns of it: it repeats what has failed,
// goes on to the end of the log and writes what it has; only its commits are refused. What is stored is what a plain
// map has, each reading once, at every moment of what is committed: without a journal, with one, and while readings
// wait.
func TestEpochBetweenCreateAndRetry(t *testing.T) {
	log := logOf(7, ingesttest.Rounds(30, 12))
	for name, begin := range map[string]func() *world{
		"no journal": func() *world { return newWorld(t, log) },
		"journal": func() *world {
			w := withJournal(newWorld(t, log))
			w.hold = 20 * time.Second
			return w
		},
		"limits": func() *world {
			w := newWorld(t, log)
			w.limits = tenant.IngestLimits{Readings: 0.5, DeviceReadings: 0.2, Burst: 5}
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, how := range []int{failBefore, failAfter} {
				met := 0
				for at := 1; ; at++ {
					w := begin()
					if !w.epochAt(at, how) {
						break
					}
					met++
				}
				require.Greater(t, met, 20, "operations")
			}
		})
	}
}

// epochAt has operation n fail, and another owner in between. It reports whether there was such an operation.
func (w *world) epochAt(n, how int) (met bool) {
	const seed = 11
	failed, fenced := false, false
	w.fatal = func(op int) int {
		if op == n {
			failed = true
			return how
		}
		return live
	}
	ctx := context.Background()
	w.kill = func() { require.Fail(w.t, "nobody dies here") }
	zombie := w.worker(w.settings)
	takeOver := func() {
		if !failed || fenced {
			return
		}
		fenced = true
		require.True(w.t, w.live(seed+1), "the next owner")
		require.Equal(w.t, int64(len(w.log)), w.commit)
	}
	step := func() {
		for jobs := zombie.Due(); len(jobs) > 0; jobs = zombie.Due() {
			for _, j := range jobs {
				require.NoError(w.t, zombie.Try(ctx, j))
				takeOver()
			}
		}
		if !fenced {
			w.commitFloor(zombie)
			takeOver()
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 5))
	for zombie.Position() < int64(len(w.log)) || len(zombie.Deferred().Deferrals("")) > 0 {
		for range 1 + rnd.IntN(6) {
			if at := zombie.Position(); at < int64(len(w.log)) {
				require.NoError(w.t, zombie.Take(ctx, w.log[at]))
			}
		}
		w.now = w.now.Add(time.Duration(rnd.IntN(5000)) * time.Millisecond)
		require.NoError(w.t, w.takeSomeDeferred(ctx, zombie, rnd))
		step()
	}
	zombie.Drain()
	for round := 0; zombie.Busy(); round++ {
		require.Less(w.t, round, 100, "the first owner never ends")
		w.now = w.now.Add(time.Second)
		step()
	}
	if !fenced {
		step()
	}
	what := fmt.Sprintf("operation %d, how %d", n, how)
	require.Equal(w.t, failed, fenced, what)
	for round := uint64(0); !w.live(seed + 2 + round); round++ { // and a third one finds all in order
		require.Less(w.t, round, uint64(4), what)
	}
	w.check()
	return failed
}
