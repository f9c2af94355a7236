package worker_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// crowdOf is a partition that gets more than it takes: what each tenant sends a second, and what that costs.
type crowdOf struct {
	rates   []float64 // records/s by tenant; those of the first `loud` are above one and a half times an even share
	loud    int
	takes   time.Duration // that a record takes; one that is set aside takes half of it
	lasts   time.Duration
	heldFor time.Duration
}

// random returns a crowd in which loud tenants alone make it more than can be taken.
func random(rnd *rand.Rand) crowdOf {
	c := crowdOf{takes: 5 * time.Millisecond, lasts: 12 * time.Second, heldFor: time.Minute}
	n := 2 + rnd.IntN(6)
	capacity := float64(time.Second / c.takes)
	all := capacity * (1.05 + 0.3*rnd.Float64())
	quiet := all * 0.2 * math.Pow(rnd.Float64(), 4)
	if c.loud = 1; n >= 5 && rnd.IntN(2) == 0 {
		c.loud = 2
	}
	for range c.loud {
		c.rates = append(c.rates, (all-quiet)/float64(c.loud))
	}
	weights, sum := make([]float64, n-c.loud), 0.0
	for i := range weights {
		weights[i] = 0.01 + rnd.Float64()
		if rnd.IntN(3) == 0 {
			weights[i] /= 50 // reports now and then, in few of the rounds in which readings are counted
		}
		sum += weights[i]
	}
	for _, x := range weights {
		c.rates = append(c.rates, min(quiet*x/sum, all/float64(2*n))) // chance makes a round's count three times as many
	}
	// Below that, a fifth of the records may be read again beside all others, and they are taken as they come.
	if beside := all / capacity * (0.5 + 0.1 + 0.25); beside < 0.98 && rnd.IntN(2) == 0 {
		c.heldFor = 3 * time.Second
	}
	return c
}

// fill writes what comes to the log, in the order of time: first one record of each, so that all are known.
func (c *crowdOf) fill(w *world, rnd *rand.Rand) (of []int) {
	next := make([]float64, len(c.rates)) // s
	for i, rate := range c.rates {
		next[i] = 1 + rnd.ExpFloat64()/rate
		of = append(of, i)
		w.publish(fmt.Sprint("t", i), fmt.Sprintf("t%d-%d", i, rnd.IntN(2)), w.now.Add(time.Duration(i)*time.Millisecond), 1)
	}
	for {
		at := 0
		for i := range next {
			if next[i] < next[at] {
				at = i
			}
		}
		if next[at] > c.lasts.Seconds() {
			return of
		}
		of = append(of, at)
		ms := time.Duration(len(w.log)) * time.Microsecond // no two readings of a device are of one instant
		w.publish(fmt.Sprint("t", at), fmt.Sprintf("t%d-%d", at, rnd.IntN(2)), w.now.Add(ms), 1)
		w.log[len(w.log)-1].Time = w.now.UnixMilli() + int64(1000*next[at])
		next[at] += rnd.ExpFloat64() / c.rates[at]
	}
}

// turn is how many records are taken before it is asked what is to be read again, of which a quarter as many are.
const turn = 8

// No record of a tenant that sends no more than an even share waits for longer than a bound, whatever others send and
// how much, however rarely it reports itself, as long as what remains can be taken: until the partition counts as late,
// until that is noticed and counted, and for a turn. Nothing is lost, stored twice, refused or reordered, and the floor
// is held for --held-for at most, and for what it takes to read again what waits.
func TestTenantBelowShareIsServedSoon(t *testing.T) {
	const seed = 59
	t.Logf("seed %d", seed)
	const fairAfter, round = 500 * time.Millisecond, 250 * time.Millisecond
	longest, held := time.Duration(0), 0
	for n := range ingesttest.Rounds(60, 12) {
		rnd := rand.New(rand.NewPCG(seed, uint64(n)))
		w, c := newWorld(t, nil), random(rnd)
		w.now = time.UnixMilli(start)
		l := w.worker(func(cfg *ingest.Config) {
			fairly(cfg)
			cfg.HeldFor = c.heldFor
		})
		of := c.fill(w, rnd)
		came := func(offset int64) time.Time { return time.UnixMilli(w.log[offset].Time) }
		// While it is counted, the partition falls back by what comes above what is taken.
		above := 1 - float64(time.Second/c.takes)/sum(c.rates)
		bound := fairAfter + time.Duration(above*float64(round+round/4)) + fairAfter/64 + 2*turn*c.takes
		take := func(feed func()) {
			before := l.Counts.Deferred
			if feed(); l.Counts.Deferred > before {
				w.now = w.now.Add(c.takes / 2)
			} else {
				w.now = w.now.Add(c.takes)
			}
		}
		end := int64(0)
		for l.Position() < int64(len(w.log)) || len(l.Deferred().Deferrals("")) > 0 {
			for end < int64(len(w.log)) && !came(end).After(w.now) {
				end++
			}
			l.Bins().SetLogEnd(end)
			idle := true
			for k := 0; k < turn && l.Position() < end; k++ {
				at, aside := l.Position(), l.Counts.Deferred
				wait := w.now.Sub(came(at))
				take(func() { require.NoError(t, l.Take(t.Context(), w.log[at])) })
				idle = false
				if of[at] >= c.loud {
					longest = max(longest, wait)
					require.LessOrEqual(t, wait, bound, "round %d, record %d of %d: %+v", n, at, of[at], c)
					require.Equal(t, aside, l.Counts.Deferred, "it is not passed over itself: round %d, %+v", n, c)
				}
			}
			for k := 0; k < turn/4; k++ {
				at, ok := l.Deferred().Next(w.now)
				if !ok {
					break
				}
				idle = false
				take(func() { require.NoError(t, l.TakeDeferredRecord(t.Context(), w.log[at])) })
			}
			for _, x := range l.Deferred().Deferrals("") {
				held++
				again := time.Duration(l.Counts.Deferred) * c.takes * 5
				require.LessOrEqual(t, w.now.Sub(x.Since), c.heldFor+again, "round %d: %+v", n, c)
				require.LessOrEqual(t, l.Floor(), x.From)
			}
			if idle {
				w.now = w.now.Add(time.Millisecond)
			}
		}
		require.NoError(t, l.Finish(t.Context()))
		require.Empty(t, w.deadLetters)
		require.Equal(t, len(w.log), w.storedReadings(), "round %d: %+v", n, c)
		require.Equal(t, int64(len(w.log)), l.Floor())
		w.CheckChains()
	}
	t.Log("the longest wait was", longest)
	require.Greater(t, longest, fairAfter)
	require.Positive(t, held)
}

func sum(rates []float64) (all float64) {
	for _, x := range rates {
		all += x
	}
	return all
}
