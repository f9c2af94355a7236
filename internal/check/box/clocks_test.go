package box_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// clock is what is wrong with the clock of a machine.
type clock struct {
	ahead time.Duration // by how much it was set wrong
	drift float64       // by how much of the time that passes it runs too fast
}

// clocking is what the seed picks of clocks.
type clocking struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd   *rand.Rand
	most  time.Duration
	drift float64
}

// pickClocking picks how wrong the clocks of a run are: mostly by moments or an hour, now and then by a year. In some
// runs they run too fast or too slow, too.
func (b *box) pickClocking() clocking {
	c := clocking{rnd: rand.New(rand.NewPCG(b.opts.seed, 43)), most: b.profile.clocks}
	if c.rnd.IntN(4) == 0 && b.opts.years == 0 {
		c.most = 365 * 24 * time.Hour
	}
	if c.rnd.IntN(3) == 0 {
		c.drift = oneOf(c.rnd, 0.0002, 0.005, 0.03)
	}
	return c
}

// wrong picks what is wrong with a clock.
func (c *clocking) wrong() clock {
	by := pick(c.rnd, 0, c.most+1)
	if c.rnd.IntN(2) == 0 {
		by = -by
	}
	return clock{by, c.drift * (2*c.rnd.Float64() - 1)}
}

// String describes a clock.
func (c clock) String() string {
	return fmt.Sprintf("%s ahead, %+.3f %% too fast", c.ahead, 100*c.drift)
}

// actClock sets the clock of an actor that lives.
func (b *box) actClock() {
	alive := slices.DeleteFunc(slices.Clone(b.actors), (*actor).dead)
	a := alive[b.rnd.IntN(len(alive))]
	b.mu.Lock()
	a.clock.ahead = b.clocks.wrong().ahead
	b.mu.Unlock()
	b.event("box", "clock", a.name, a.clock.String())
}

// machine returns the time of the actor's machine. Setting its clock leaves alone how time passes there; that it runs
// too fast does not.
func (a *actor) machine() time.Time {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	now := time.Now()
	gained := time.Duration(a.clock.drift * float64(now.Sub(a.born)))
	return withPassed(now.Add(a.clock.ahead+gained), now.Sub(a.b.began)+gained)
}

// withPassed returns an instant of a clock that may be set, with the time that has passed, which may not: what time.Now
// returns outside of a bubble. Package time has nothing for that; as its sources say, the first word has a bit for it,
// the seconds since 1885, and the nanoseconds, and the second word the time that has passed.
func withPassed(t time.Time, passed time.Duration) time.Time {
	const passedIsKnown, from1885 = 1 << 63, 2_682_288_000
	t = t.Round(0)
	raw := (*struct{ wall, ext uint64 })(unsafe.Pointer(&t))
	raw.wall, raw.ext = passedIsKnown|uint64(t.Unix()+from1885)<<30|uint64(t.Nanosecond()), uint64(passed)
	return t
}

func TestClockIsSet(t *testing.T) {
	now := time.Date(2026, 11, 20, 1, 2, 3, 4, time.UTC)
	before := withPassed(now, time.Minute)
	for _, d := range []time.Duration{0, time.Hour, -30*24*time.Hour + 5, 365 * 24 * time.Hour} {
		is := withPassed(now.Add(d), time.Minute+time.Second)
		require.Equal(t, now.Add(d), is.Round(0))
		require.Equal(t, time.Second, is.Sub(before))
	}
}
