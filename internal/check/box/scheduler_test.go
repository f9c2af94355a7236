// Package box_test runs the whole system in one process, on one clock and one seed. Every call of an actor to the log,
// the store or a head waits until all is quiet; then the seed decides which call goes on, with which outcome, which
// actor dies, or that time passes. docs/internals/testing.md says how to read the story of a run and how to add an
// actor.
package box_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
)

// Errors that a call ends with. Only that of a dead actor is the box's own.
var (
	errDead = errors.New("the actor is dead")
	errLost = errors.New("the connection is lost")
)

// call is one call of an actor. It waits until the seed lets it go on.
type call struct {
	actor *actor
	// kind and what order the calls of an actor, whenever they have come.
	kind, what string
	// isWrite calls may be carried out although their caller has given up.
	isWrite  bool
	pays     string    // a tenant, perhaps with its shard; "" for nobody
	deadline time.Time // zero for none
	// apply carries the call out. The scheduler calls it, when all is quiet, at most once, and keeps what it finds for
	// the caller of ask.
	apply func(v view)
	// isReady reports whether there is an answer before the deadline; nil is always.
	isReady func() bool
	// refuses says whether the seed may answer that the store is busy.
	refuses bool
	toLog   bool   // the log is asked
	device  string // whose chunk is created, else empty
	// isLetter says that dead letters are published, which fails more often where limits refuse readings.
	isLetter bool

	since     time.Time
	isSeen    bool
	slowUntil int  // the event until which it is under way
	isOrphan  bool // its caller has given up
	applied   bool // the answer is on its way
	answer    chan error
}

// view is what a replica shows that answers a call.
type view struct {
	lag   time.Duration // how far the replica is behind
	stale bool          // it lacks the last write, if that is as young as the lag
	hide  int           // how many chunks of a chain it lacks
	torn  bool          // another one, which has everything, answers some pages
	few   int           // how much of what there is comes back, 0 for all
}

// ask waits until the seed lets a call go on. It returns nil if apply was called, and what it has found is the answer.
func (b *box) ask(ctx context.Context, c *call) error {
	a := c.actor
	if b.stirred == nil { // there is no scheduler
		if ctx.Err() == nil {
			c.apply(view{})
		}
		return ctx.Err()
	}
	b.mu.Lock()
	if err := ctx.Err(); a.isDead || err != nil {
		b.mu.Unlock()
		return cmp.Or(err, errDead)
	}
	c.since, c.answer = time.Now(), make(chan error, 1)
	if at, ok := ctx.Deadline(); ok {
		c.deadline = at.Add(-time.Millisecond) // before the timer that no seed controls
	}
	b.pending = append(b.pending, c)
	b.mu.Unlock()
	b.stir()
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.isOrphan = c.isWrite && !c.applied; !c.isOrphan {
		b.forget(c)
	}
	return ctx.Err()
}

// stir wakes the scheduler if it lets time pass.
func (b *box) stir() {
	select {
	case b.stirred <- struct{}{}:
	default:
	}
}

// forget removes a call from the pending ones. The caller holds mu.
func (b *box) forget(c *call) {
	if i := slices.Index(b.pending, c); i >= 0 {
		b.pending = slices.Delete(b.pending, i, i+1)
	}
}

// quiet waits until no goroutine runs, and returns the pending calls in an order that does not depend on when they
// came.
func (b *box) quiet() []*call {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortStableFunc(b.pending, func(x, y *call) int {
		return cmp.Or(cmp.Compare(x.actor.number, y.actor.number), cmp.Compare(x.kind, y.kind), cmp.Compare(x.what, y.what),
			x.since.Compare(y.since))
	})
	for i := 1; i < len(b.pending); i++ {
		x, y := b.pending[i-1], b.pending[i]
		if x.actor == y.actor && x.kind == y.kind && x.what == y.what && x.since.Equal(y.since) {
			b.ties++
		}
	}
	return slices.Clone(b.pending)
}

// pass lets time pass, until a call waits that has come meanwhile or for so long.
func (b *box) pass(d time.Duration) {
	begun, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	for _, a := range b.actors {
		a.looks.Store(0)
	}
	for {
		select {
		case <-b.stirred:
		case <-timer.C:
			return
		}
		synctest.Wait() // whoever gave up at the same instant has done so
		b.mu.Lock()
		came := slices.ContainsFunc(b.pending, func(c *call) bool { return c.since.After(begun) })
		b.mu.Unlock()
		if came {
			return
		}
	}
}

// event makes what has happened a part of the run's hash, and of its story.
func (b *box) event(who, kind, what, outcome string) {
	b.events++
	h := fnv.New64a()
	now := time.Now().UnixNano()
	fmt.Fprintf(h, "%x %d %s|%s|%s|%s", b.sum, now, who, kind, what, outcome)
	b.sum = h.Sum64()
	if b.opts.trace != nil {
		b.opts.trace(fmt.Sprintf("%6d %s %-10s %-9s %s: %s", b.events, time.Now().UTC().Format("01-02 15:04:05.000000"), who,
			kind, what, outcome))
	}
}

// outcomes of calls, in the words of the story.
const (
	isOK        = "ok"
	isLate      = "ok, the answer is late"
	isBusy      = "429"
	isFailing   = "503"
	isLostThere = "the request is lost"
	isLostBack  = "done, the answer is lost"
	isTimeout   = "no answer in time"
	isDropped   = "never done"
	isDoneLate  = "done late"
)

// goOn lets a call go on with an outcome that the seed picks.
func (b *box) goOn(c *call) {
	outcome := b.outcomeOf(c)
	if outcome != isOK {
		b.disturbed++
	}
	var err error
	switch outcome {
	case isOK, isLate, isLostBack, isDoneLate:
		if !c.applied {
			c.apply(b.viewFor(c))
		}
		c.applied = true
	case isBusy:
		err = &store.BusyError{RetryAfter: b.duration(time.Millisecond, 200*time.Millisecond)}
	case isFailing:
		err = fmt.Errorf("%s: %w", c.kind, &store.FailingError{Attempts: 1, Status: "503", Last: errors.New("503")})
	case isTimeout:
		err = context.DeadlineExceeded
	}
	if outcome == isLostThere || outcome == isLostBack {
		err = fmt.Errorf("%s: %w", c.kind, &store.FailingError{Attempts: 1, Last: errLost})
	}
	b.event(c.actor.name, c.kind, c.what, outcome)
	if outcome != isOK && c.isWrite && !b.calm() {
		b.doom(c)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case outcome == isLate:
		c.kind = "answer " + c.kind
		return
	case c.isOrphan:
		b.forget(c)
		return
	case outcome == isTimeout && c.isWrite && !c.applied && b.rnd.IntN(2) == 0:
		c.isOrphan = true // it may still be on its way
	default:
		b.forget(c)
	}
	c.answer <- err
}

// orphanLife is how long a request may be under way that its sender has given up.
const orphanLife = control.DropTime

// orphanLife is longer for the create of a chunk behind another one where orders erase: it meets a fence (rule E-R8).
func (c *call) orphanLife() time.Duration {
	if c.kind == "create" && c.device != "" && c.actor.b.operating.erasures && !strings.Contains(c.what, ".000000 ") {
		return 4 * orphanLife
	}
	return orphanLife
}

// endOldCalls ends the requests that have been under way for longer than any client waits. Nobody lets a call go on in
// a night, so a call may have come early in the night.
func (b *box) endOldCalls() {
	for _, c := range b.quiet() {
		if c.isOrphan || time.Since(c.since) < orphanLife {
			continue
		}
		b.event(c.actor.name, c.kind, c.what, isLostThere)
		b.mu.Lock()
		b.forget(c)
		b.mu.Unlock()
		c.answer <- fmt.Errorf("%s: %w", c.kind, &store.FailingError{Attempts: 1, Last: errLost})
	}
}

func (b *box) outcomeOf(c *call) string {
	faults := b.profile.faults * c.actor.nerves
	if c.isLetter && b.limiting.on && faults > 0 {
		faults = max(faults, 0.3)
	}
	switch {
	case c.isOrphan && time.Since(c.since) > c.orphanLife(), c.isOrphan && b.rnd.IntN(2) == 0:
		return isDropped
	case c.isOrphan:
		return isDoneLate
	case c.applied:
		return isOK
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return isTimeout
	case b.calm() || b.rnd.Float64() >= faults:
		return isOK
	}
	all := []string{isFailing, isLostThere, isLostBack, isLate}
	if c.refuses {
		all = append(all, isBusy, isBusy)
	}
	if !c.deadline.IsZero() {
		all = append(all, isTimeout)
	}
	return all[b.rnd.IntN(len(all))]
}

// maxLag is how far replicas lag in most runs: less than heads show what is stored (rule R1).
const maxLag = 1900 * time.Millisecond

// viewFor picks what the replica shows that answers.
func (b *box) viewFor(c *call) (v view) {
	v.few = 1 + b.rnd.IntN(40)
	switch {
	case b.calm() || c.isWrite:
		return v
	case time.Now().Before(c.actor.b.rush):
		v.lag = time.Since(c.actor.b.chunked) + 1
		return v
	case b.rnd.Float64() >= b.profile.lag:
		return v
	}
	v.lag, v.stale, v.hide = b.duration(time.Millisecond, b.profile.maxLag), b.rnd.IntN(2) == 0, b.rnd.IntN(3)
	v.torn = b.rnd.IntN(3) == 0
	return v
}

// duration picks a duration, short ones as often as long ones.
func (b *box) duration(least, most time.Duration) time.Duration { return pick(b.rnd, least, most) }

func pick(rnd *rand.Rand, least, most time.Duration) time.Duration {
	d := most - least
	for range 1 + rnd.IntN(4) {
		d = time.Duration(rnd.Int64N(int64(max(1, d))))
	}
	d += least
	return d
}

// due returns whether a call can go on, now that all is quiet.
func (c *call) due(now time.Time) bool {
	if half := c.orphanLife() / 2; c.isOrphan && (c.kind == dropping || half > orphanLife/2) &&
		now.Sub(c.since) < half+time.Duration(c.since.UnixNano()%int64(half)) {
		return false
	}
	return c.isReady == nil || c.applied || c.isOrphan || c.isReady() || !c.deadline.IsZero() && !now.Before(c.deadline)
}

// nextDeadline returns the time that may pass before a pending call has its deadline.
func nextDeadline(pending []*call, most time.Duration) time.Duration {
	now := time.Now()
	for _, c := range pending {
		if !c.deadline.IsZero() && !c.isOrphan {
			most = min(most, c.deadline.Sub(now))
		}
	}
	return most
}

// mutexed guards what actors share with the scheduler.
type mutexed = sync.Mutex
