package box_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/control"
	"binnacle/internal/kafka"
	"binnacle/internal/retry"
	"binnacle/internal/store"
)

// actor is a process of the box: with a clock of its own, and calls that wait for the seed. Another life of a process
// is another actor.
type actor struct {
	b      *box
	name   string
	number int // in the order of births
	// nerves is how much more often than others its calls fail.
	nerves float64

	born time.Time
	// clock is what is wrong with its machine's. b.mu guards it and isDead.
	clock  clock
	isDead bool
	paused pause
	looked time.Time // the last list of orders of erasure
	// sets is the retention that the actor's command sets; nil for other actors.
	sets *setting
	// around is called before and after it asks where the log ends, nil for nothing.
	around  func()
	meter   store.Meter  // counts what reads of the store cost it
	service *store.Clock // the store's clock, as the actor knows it
	looks   atomic.Int64 // how often it has asked for the time since the box let it pass
	counter *charges.Counter
	// counted is what its requests about tenants have cost, and known what of that it knows to be stored. It doubts that
	// once a write of counters had no answer. b.mu guards these.
	counted, known map[billed]float64
	doubts         bool
	context        context.Context
	end            context.CancelFunc
}

// newActor makes an actor that does nothing yet.
func (b *box) newActor(name string) *actor {
	a := &actor{b: b, name: b.prefix + name, number: len(b.actors), nerves: 1, born: time.Now()}
	if !b.calm() && b.rnd.IntN(3) == 0 {
		a.clock = b.clocks.wrong()
	}
	a.service = store.NewClock(a.machine)
	a.context, a.end = context.WithCancel(retry.WithLengths(context.Background(), a.length))
	b.actors = append(b.actors, a)
	return a
}

// length makes pauses odd ones: which of two timers of one instant comes first is chance.
func (a *actor) length(d time.Duration) time.Duration {
	mixed := (uint64(time.Now().UnixNano()) ^ uint64(d)) * 0x9e3779b97f4a7c15
	return d + time.Duration(1+mixed>>54)
}

// mostLooks is how often an actor may ask for the time while the box lets it pass once.
const mostLooks = 5_000_000

// now returns the time that the actor goes by. An actor that asks all the time does not sleep, until it has to here.
func (a *actor) now() time.Time {
	if a.looks.Add(1) >= mostLooks {
		a.b.fail("%s has asked for the time %d times while it passed once", a.name, mostLooks)
		time.Sleep(time.Second)
	}
	return a.service.Now()
}

// start runs something of the actor until the run ends.
func (a *actor) start(do func(ctx context.Context)) { a.b.running.Go(func() { do(a.context) }) }

// ask asks in the name of the actor.
func (a *actor) ask(ctx context.Context, c *call) error {
	c.actor = a
	return a.b.ask(ctx, c)
}

// askStore is ask for a call to the store, whose answer shows its clock.
func (a *actor) askStore(ctx context.Context, c *call) error {
	c.refuses = true
	var date time.Time
	sent, do := a.machine(), c.apply
	c.apply = func(v view) {
		date = time.Now().Round(0).Truncate(time.Second)
		do(v)
	}
	err := a.ask(ctx, c)
	if !date.IsZero() && err == nil {
		a.service.Answered(sent, a.machine(), date)
	}
	return err
}

// die ends the actor: what it has sent may still be done, and it sends nothing more. The scheduler calls it.
func (b *box) die(a *actor) {
	b.mu.Lock()
	a.isDead = true
	b.mu.Unlock()
	a.end()
}

// directory makes the actor's copy of the control documents, and keeps it fresh. What begin starts has a first copy: of
// two that read it at once the first would be chance.
func (a *actor) directory(begin func(ctx context.Context)) *control.Directory {
	d := control.NewDirectory(control.DirectoryConfig{Documents: documents{a}, Feed: documents{a}, Now: a.now,
		Check: a.service.Check, FeedEvery: a.b.profile.feedEvery})
	a.start(func(ctx context.Context) { _ = d.Run(ctx) })
	a.countCharges()
	a.start(func(ctx context.Context) {
		for look := (retry.Policy{First: time.Millisecond, Max: time.Second}).Begin(); d.Snapshot().ReadAt.IsZero(); {
			if look.Wait(ctx) != nil {
				return
			}
		}
		begin(ctx)
	})
	return d
}

// cluster makes the actor's client of the log.
func (a *actor) cluster() *kafka.Client {
	c, err := kafka.New(kafka.Config{Brokers: []string{"box:9092"}, Transport: carrier{a}, Dial: carrier{a}.dial,
		Compression: "none"})
	if err != nil {
		panic(err)
	}
	return c
}

// logger writes what the actor logs into the story.
func (a *actor) logger() *slog.Logger {
	if a.b.opts.log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return a.b.opts.log.With("actor", a.name)
}
