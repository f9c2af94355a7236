package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/kafka"
	"binnacle/internal/ops/erase"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
)

// operating is what the seed picks of operators. Most runs have none.
type operating struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd        *rand.Rand
	erasures   bool
	sweepEvery time.Duration
	orders     int // that may still be given
	orderAt    int // event before which none is given: what orders erase must be stored at times
	// lulls says that orders are given when all is stored and no device publishes, so that a chunk ends where an order
	// does. lull is what is awaited of one, "" outside.
	lulls     bool
	lull      string
	began     time.Time // when the lull did
	retention bool
	set       time.Time // when a retention was set first
	seldom    int       // one of so many acts of the world is an operator's

	commands []*command
	births   int
	sweepers []*actor
	sweeps   int
	// kept are the orders of the topic of orders, by id.
	kept map[string]bool
}

// erasures are orders of erasure.
const erasures = "erasures"

// pickOperating picks what operators do in a run.
func (b *box) pickOperating() (o operating) {
	o.rnd, o.kept = rand.New(rand.NewPCG(b.opts.seed, 38)), map[string]bool{}
	o.seldom = 10
	o.erasures = b.has(erasures, o.rnd.IntN(4) == 0 && b.services.provisioners == 0)
	o.sweepEvery = oneOf(o.rnd, 5*time.Second, 20*time.Second)
	o.orders, o.orderAt = 2+o.rnd.IntN(8), o.rnd.IntN(500)
	if o.lulls = o.rnd.IntN(3) == 0; o.erasures {
		p := &b.profile // commands must end, chunks be stored before and after them, and sweeps be over within the run
		p.act, p.faults, p.pace = 0.08, min(p.faults, 0.05), max(p.pace, oneOf(o.rnd, 2*time.Second, 20*time.Second))
		o.seldom = 6
		p.hold = oneOf(o.rnd, time.Second, 5*time.Second, 20*time.Second)
		p.think = oneOf(o.rnd, 10*time.Second, time.Minute)
		p.catalogEvery = oneOf(o.rnd, -1, time.Minute, p.catalogEvery)
		p.feedEvery = oneOf(o.rnd, b.profile.feedEvery, 20*time.Second+17, 3*time.Minute+19)
	}
	if o.retention = b.has(retentions, o.rnd.IntN(6) == 0 && !b.services.some()); o.retention {
		b.profile.pace = min(b.profile.pace, 2*time.Second)
	}
	return o
}

// startOperating starts what carries out what operators order. In some runs ingesters stand still at first, so that
// orders are given before their streams begin, or meanwhile.
func (b *box) startOperating() {
	o := &b.operating
	if !o.erasures {
		return
	}
	for range 1 + o.rnd.IntN(2) {
		b.startSweeper()
	}
	if o.rnd.IntN(3) == 0 {
		for _, s := range b.slots {
			b.pause(s.lives[0].actor, pause{until: time.Now().Add(longestPause)})
		}
		o.orders, o.lulls = o.orders-1, false
		b.startErase()
	}
}

// actOperator has an operator give a command, kills one that is under way, or kills a process that sweeps. It reports
// whether it did.
func (b *box) actOperator() bool {
	o := &b.operating
	if o.lull != "" {
		return b.actLull()
	}
	if !o.erasures && !o.retention || o.rnd.IntN(o.seldom) > 0 {
		return false
	}
	running := slices.DeleteFunc(slices.Clone(o.commands), func(c *command) bool { return c.isOver })
	switch n := o.rnd.IntN(6); {
	case n == 0 && o.erasures:
		i := o.rnd.IntN(len(o.sweepers))
		if o.rnd.IntN(2) == 0 { // erased readings stay stored for a while, and no answer has them
			b.pause(o.sweepers[i], pause{until: time.Now().Add(pick(o.rnd, time.Second, longestPause))})
			return true
		}
		b.event("box", "kill", o.sweepers[i].name, "")
		b.die(o.sweepers[i])
		o.sweepers = slices.Delete(o.sweepers, i, i+1)
		b.startSweeper()
	case n < 3 && len(running) > 0:
		b.event("box", "kill", running[0].name, "")
		b.die(running[0].actor)
		running[0].isOver = true
	case len(running) < 2 && o.retention && (n == 5 || !o.erasures):
		b.actRetention()
	case len(running) < 2 && o.orders > 0 && o.erasures && b.events >= o.orderAt:
		o.orders--
		o.orderAt = b.events + o.rnd.IntN(300)
		if o.lulls {
			o.lull, o.began = awaitsStored, time.Now()
		} else {
			b.startErase()
		}
	default:
		return false
	}
	return true
}

// What is awaited of a lull, the longest that a lull takes until its order is given.
const (
	awaitsStored = "everything is stored"
	awaitsOrder  = "the command has ended"
	longestLull  = 2 * time.Minute
)

// actLull has an order given in a lull, or ends it. It reports whether it did.
func (b *box) actLull() bool {
	o := &b.operating
	switch {
	case o.lull == awaitsStored && (b.allCommitted() || time.Since(o.began) > longestLull):
		o.lull = awaitsOrder
		b.startErase()
	case o.lull == awaitsOrder && b.commandsEnded():
		o.lull = ""
	default:
		return false
	}
	return true
}

// command is one command of an operator.
type command struct {
	*actor
	snapshot *control.Directory
	isOver   bool
}

// startCommand starts a command.
func (b *box) startCommand(what string, run func(ctx context.Context, c *command)) *command {
	b.operating.births++
	c := &command{actor: b.newActor(fmt.Sprintf("operate.%d", b.operating.births))}
	b.operating.commands = append(b.operating.commands, c)
	b.event("box", "start", c.name, what)
	c.snapshot = control.NewDirectory(control.DirectoryConfig{Documents: documents{c.actor}, Now: c.now,
		Check: c.service.Check})
	c.start(func(ctx context.Context) {
		if _, err := c.snapshot.Refresh(ctx); err == nil {
			run(ctx, c)
		}
		c.isOver = true
		b.stir()
	})
	return c
}

// startErase starts `tenant erase`.
func (b *box) startErase() {
	r := b.operating.rnd
	order := erasure.Order{Tenant: oneOf(r, b.tenants...), To: erasure.EveryDay, By: "box"}
	device := oneOf(r, b.devicesOf(order.Tenant)...)
	isWhole := false
	if c := b.onItsWay(); c != nil && r.IntN(3) > 0 {
		order.Tenant, _, _ = strings.Cut(c.pays, "~")
		// A chunk comes before, between or after the sweeps, and the catalog is read when it has forgotten.
		lasts := oneOf(r, pick(r, time.Second, 4*longestPause), erase.SettledAfter+pick(r, time.Second, time.Minute))
		if device = c.device; device == "" {
			isWhole, lasts = true, pick(r, time.Minute, 3*time.Minute)
			device = oneOf(r, b.devicesOf(order.Tenant)...)
		}
		b.pause(c.actor, pause{until: time.Now().Add(lasts)})
	} else if s := oneOf(r, b.slots...); len(s.lives) > 0 && r.IntN(4) == 0 {
		b.pause(s.lives[0].actor, pause{until: time.Now().Add(pick(r, time.Minute, 4*longestPause))})
	}
	if !isWhole && r.IntN(3) > 0 {
		order.Device = device
	}
	if !isWhole && r.IntN(2) == 0 {
		order.From = telemetry.DayOf(time.Now().UnixMilli()) - telemetry.Day(r.IntN(3))
		order.To = order.From + 1 + telemetry.Day(r.IntN(3))
	}
	// The log ends between records of a device that one bin takes.
	around := func() {
		for range r.IntN(3) {
			b.publish(order.Tenant, device, func() int64 { return b.eventTime(time.Now().UnixMilli()) })
		}
	}
	if b.operating.lulls || b.calm() {
		around = func() {}
	}
	around()
	b.giveOrder(order).around = around
}

// giveOrder starts `tenant erase` for an order.
func (b *box) giveOrder(order erasure.Order) *command {
	return b.startCommand(fmt.Sprintf("erase %s %q %d-%d", order.Tenant, order.Device, order.From, order.To),
		func(ctx context.Context, c *command) {
			g := erase.Giver{Orders: c.orders(), Streams: stream.NewStreams(documents{c.actor}), Log: clusterLog{c.cluster()},
				Catalog: pages{c.actor}, Keep: c.keep, Drop: c.drop, Logger: c.logger()}
			given, err := g.Give(ctx, order)
			if err == nil {
				b.oracle.given(given)
			}
		})
}

// onItsWay returns a pending call by which an ingester creates a chunk or reads the catalog; nil is none.
func (b *box) onItsWay() *call {
	for _, c := range b.quiet() {
		if (c.kind == "create" && c.device != "" || c.kind == "pages") && !c.isOrphan &&
			strings.HasPrefix(c.actor.name, b.prefix+"ingest") {
			return c
		}
	}
	return nil
}

// orders returns the orders of erasure as the actor gives and ends them.
func (a *actor) orders() *erasure.Orders {
	return erasure.NewOrders(documents{a}, a.now).OnlyWhile(a.service.Check)
}

// keep stores an order in the topic of orders. A command may stand still then, so that long after the announcement of
// its order the positions are not stored yet.
func (a *actor) keep(ctx context.Context, o *erasure.Order) error {
	return a.ask(ctx, &call{kind: "keep", what: o.ID, isWrite: true, apply: func(view) {
		a.b.operating.kept[o.ID] = true
		r, begins := a.b.operating.rnd, len(a.b.oracle.streams) == 0
		if a.b.calm() || !begins && r.IntN(2) == 0 {
			return
		}
		lasts := pick(r, time.Second, 2*time.Minute)
		if begins { // less than after which an order is void
			lasts = pick(r, 10*time.Second, 50*time.Second)
		}
		a.b.pause(a, pause{until: time.Now().Add(lasts)})
		for _, s := range a.b.slots {
			if begins && len(s.lives) > 0 && r.IntN(2) == 0 { // its stream begins while the order has no positions
				a.b.pause(s.lives[0].actor, pause{})
			}
		}
		for _, x := range a.b.operating.sweepers { // a paused sweeper leaves erased rows in the store
			if r.IntN(3) == 0 {
				a.b.pause(x, pause{until: time.Now().Add(pick(r, time.Second, longestPause))})
			}
		}
	}})
}

// drop takes an order out of the topic of orders.
func (a *actor) drop(ctx context.Context, id string) error {
	return a.ask(ctx, &call{kind: "drop", what: id, isWrite: true, apply: func(view) {
		delete(a.b.operating.kept, id)
	}})
}

// clusterLog is the log as orders see it: erase.Log.
type clusterLog struct{ cluster *kafka.Client }

// ClusterID implements erase.Log.
func (l clusterLog) ClusterID(ctx context.Context) (string, error) { return l.cluster.ClusterID(ctx) }

// LogEnds implements erase.Log.
func (l clusterLog) LogEnds(ctx context.Context, topic string) (map[int32]int64, error) {
	ends, err := l.cluster.Topic(topic).LogEnds(ctx)
	if kafka.IsUnknownTopic(err) {
		return nil, nil
	}
	out := map[int32]int64{}
	for _, end := range ends {
		out[end.Partition] = end.End
	}
	return out, err
}
