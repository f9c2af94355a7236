package worker_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// The process dies at every operation outside in turn, before it happened and after, and once more while the next
// process recovers. Whatever was committed is stored at every moment, and in the end everything is, once.
func TestDeathAtEveryStep(t *testing.T) {
	log := logOf(3, ingesttest.Rounds(40, 25))
	deathAtEveryStep(t, func() *world { return newWorld(t, log) })
}

// deathAtEveryStep returns how many takeovers loaded a journal.
func deathAtEveryStep(t *testing.T, begin func() *world) (whole int) {
	const seed = 3
	clean := begin()
	require.True(t, clean.live(seed))
	clean.check()
	require.Greater(t, clean.ops, 20)
	for _, how := range []int{dieBefore, dieAfter} {
		for at := 1; at <= clean.ops; at++ {
			w := begin()
			w.fatal = func(n int) int {
				if n == at || n == at+5 {
					return how
				}
				return live
			}
			for round := uint64(0); !w.live(seed + round); round++ {
				require.Less(t, round, uint64(4), "the process never gets through")
				w.now = w.now.Add(time.Second)
			}
			w.check()
			whole += w.whole
		}
	}
	return whole
}

// Deaths at random, many times, in a longer log.
func TestDeathAtRandom(t *testing.T) {
	const seed = 21
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range ingesttest.Rounds(12, 2) {
		w := newWorld(t, logOf(uint64(round), 150))
		deaths := 0
		w.fatal = func(int) int {
			if deaths < 40 && rnd.IntN(9) == 0 {
				deaths++
				return 1 + rnd.IntN(2)
			}
			return live
		}
		for !w.live(rnd.Uint64()) {
		}
		w.check()
		require.Greater(t, deaths, 5)
	}
}

// Several workers believe that they own the partition, none of them learns otherwise, and only the last one is still
// alive in the end. Creates and commits interleave at random; commits of those that lost it are refused.
func TestTwoOwners(t *testing.T) {
	const seed = 8
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range ingesttest.Rounds(40, 4) {
		w := newWorld(t, logOf(uint64(round), 60))
		ctx := context.Background()
		owners := []*ingest.Local{w.worker(nil)}
		for owners[len(owners)-1].Position() < int64(len(w.log)) {
			if rnd.IntN(25) == 0 && len(owners) < 4 {
				owners = append(owners, w.worker(nil)) // reads from the committed offset
			}
			i := rnd.IntN(len(owners))
			l := owners[i]
			for range 1 + rnd.IntN(5) {
				if at := l.Position(); at < int64(len(w.log)) {
					require.NoError(t, l.Take(ctx, w.log[at]))
				}
			}
			w.now = w.now.Add(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			require.NoError(t, l.Step(ctx))
			if i == len(owners)-1 {
				require.True(t, w.commitFloor(l))
			}
			w.CheckChains()
		}
		last := owners[len(owners)-1]
		require.NoError(t, last.Finish(ctx))
		require.True(t, w.commitFloor(last))
		for _, l := range owners { // the zombies write late
			require.NoError(t, l.Finish(ctx))
		}
		w.check()
	}
}
