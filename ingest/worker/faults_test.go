package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
