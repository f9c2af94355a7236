package box_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
)

// pause is for how long the calls of an actor wait. The scheduler sets it.
type pause struct {
	until time.Time
	// logAlone lets all calls go on but those to the log.
	logAlone bool
}

// longestPause is for how long processes stand still at most: for longer than leases and sessions.
const longestPause = 4 * time.Minute

// actPause has a process stand still, or cuts it off from the log.
func (b *box) actPause() {
	var alive []*actor
	for _, s := range b.slots {
		for _, x := range s.lives {
			alive = append(alive, x.actor)
		}
	}
	for _, q := range b.queriers {
		alive = append(alive, q.actor)
	}
	a := alive[b.rnd.IntN(len(alive))]
	most := longestPause
	if b.operating.erasures { // until after the second sweep of an order
		most *= 4
	}
	b.pause(a, pause{time.Now().Add(b.duration(time.Second, most)), b.rnd.IntN(2) == 0})
}

// pause has a process stand still, or cuts it off.
func (b *box) pause(a *actor, p pause) {
	a.paused = p
	kind := "pause"
	if p.logAlone {
		kind = "cut off"
	}
	b.event("box", kind, a.name, time.Until(p.until).String())
}

// longestSilence is for how long a client of the store waits for an answer (rule R9).
const longestSilence = 65 * time.Second

// isPaused reports whether the process stands still.
func (a *actor) isPaused() bool { return time.Now().Before(a.paused.until) && !a.paused.logAlone }

// waits reports whether a call waits for the end of a pause.
func (c *call) waits(now time.Time) bool {
	p := c.actor.paused
	if c.actor.b.events < c.slowUntil && (c.isOrphan || now.Sub(c.since) < longestSilence) {
		return true
	}
	return now.Before(p.until) && (!p.logAlone || c.toLog) || c.awaitsMonth(now) ||
		c.isLetter && now.Sub(c.since) < c.actor.b.limiting.slow(c)
}

// slowCalls says which calls are under way for long while others go on.
type slowCalls struct {
	rnd   *rand.Rand // nil: none are
	share float64
	most  int // events that a slow call waits
}

// pickSlowCalls picks them from random numbers of its own: a seed picks the same of everything else.
func (b *box) pickSlowCalls() (s slowCalls) {
	r := rand.New(rand.NewPCG(b.opts.seed, 57))
	if r.IntN(3) > 0 || b.opts.years > 0 || b.opts.without["slow calls"] {
		return s
	}
	return slowCalls{r, oneOf(r, 0.01, 0.03, 0.1), oneOf(r, 30, 150, 500)}
}

// some picks for calls that have just come how long they are under way.
func (s *slowCalls) some(pending []*call) {
	for _, c := range pending {
		if s.rnd == nil || c.isSeen {
			continue
		}
		c.isSeen = true
		if s.rnd.Float64() < s.share {
			c.slowUntil = c.actor.b.events + 1 + s.rnd.IntN(s.most)
		}
	}
}

// pickLateMonth picks whether a querier knows no container when the first chunk is stored (rule R1).
func (b *box) pickLateMonth() bool {
	return rand.New(rand.NewPCG(b.opts.seed, 58)).IntN(3) == 0 && b.profile.hold <= 5*time.Second &&
		!b.services.some() && b.opts.years == 0
}

// awaitsMonth reports whether a call waits in a run in which the first querier has read which containers there are
// before the first one is asked for, and asks the heads when the first chunk has left them.
func (c *call) awaitsMonth(now time.Time) bool {
	b := c.actor.b
	if !b.lateMonth || now.Sub(c.since) > 15*time.Second {
		return false
	}
	asksHeads := func(x *call) bool { return x.kind == "heads" && x.actor == b.first }
	if c.kind == "create" && strings.HasPrefix(c.what, control.KindMonth+"/") {
		return b.firstChunk.IsZero() && !slices.ContainsFunc(b.pending, asksHeads)
	}
	return asksHeads(c) && (b.firstChunk.IsZero() || now.Sub(b.firstChunk) < maxLag+time.Second)
}
