package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/erasure"
	"binnacle/internal/ops/tenantcopy"
	"binnacle/internal/retry"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// copying are copies of tenants to a second account, which has a log, ingesters and readings of its own.
const copying = "copies"

// copies is what the seed picks of copies of tenants.
type copies struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd    *rand.Rand
	west   *box // the second account; nil where nothing is copied
	copies []*copier
	births int
	// notes are annotations of the source, by tenant.
	notes map[string][]note
}

// copier is one life of `tenant copy`: a process that calls both accounts.
type copier struct {
	from, to *actor
	tenant   string
	// ends tells a copy that follows to end.
	ends   chan struct{}
	isOver bool
	// isEqual says that it has ended, and found both accounts equal.
	isEqual bool
	must    *ends
}

// pickCopies picks whether tenants are copied in a run.
func (b *box) pickCopies() (c copies) {
	c.rnd = rand.New(rand.NewPCG(b.opts.seed, 40))
	if !b.has(copying, c.rnd.IntN(6) == 0 && !b.services.some() && !b.operating.retention && b.opts.years == 0) {
		return c
	}
	b.operating.erasures = c.rnd.IntN(3) > 0 && !b.opts.without[erasures]
	b.services.retention, b.services.slots = oneOf(c.rnd, 0, 40*24*time.Hour), 1+c.rnd.IntN(3)
	p := &b.profile // copies must end, and chunks be stored before and after them
	p.act, p.faults, p.pace, p.passes = 0.1, min(p.faults, 0.05), 20*time.Second, 0.2
	p.hold, p.think = oneOf(c.rnd, time.Second, 5*time.Second, 20*time.Second), max(p.think, 30*time.Second)
	p.feedEvery = max(p.feedEvery, 20*time.Second+17)
	c.west = newBox(b.stores.T, b.world)
	if c.rnd.IntN(3) > 0 { // the store must be left unasked until a copy comes
		c.west.about = unasked
	}
	c.notes = map[string][]note{}
	c.west.prefix, c.west.metrics, c.west.profile = "west-", []string{"c", "d"}, b.profile
	c.west.profile.partitions, c.west.profile.queriers = 1, 1
	c.west.receives = true
	c.west.oracle.from = b.oracle
	c.west.operating = b.operating
	c.west.operating.rnd, c.west.operating.kept = rand.New(rand.NewPCG(b.opts.seed, 41)), map[string]bool{}
	return c
}

// startCopies makes the second account. Streams of either have other numbers there than at the other one, and the
// second one may know a tenant.
func (b *box) startCopies() {
	west, r := b.copies.west, b.copies.rnd
	if west == nil {
		return
	}
	west.hookStores()
	west.newRollups(b.stores.T)
	for _, month := range []string{"2026-10", "2026-11", "2026-12", "2027-01"} {
		west.makeContainer("chunks-" + month)
		west.makeContainer("rollups-" + month)
	}
	if _, err := stream.NewStreams(b.stores.Docs).Find(b.context(), "box", "before", 1); err != nil {
		panic(err)
	}
	west.log, west.tenants = newBroker("west", 1), b.tenants
	if r.IntN(2) == 0 {
		dir := control.NewDirectory(control.DirectoryConfig{Documents: west.stores.Docs, Now: time.Now,
			Retention: oneOf(r, 0, 30*24*time.Hour)})
		if _, err := dir.Register(b.context(), b.tenants[0]); err != nil {
			panic(err)
		}
	}
	west.slots = []*slot{{}}
	west.startIngester(west.slots[0], false)
	west.startQuerier()
	west.startOperating()
}

// actCopies lets the world act on the second account, has an operator copy a tenant, or kills a copy. It reports
// whether it did.
func (b *box) actCopies() bool {
	c := &b.copies
	switch {
	case c.west == nil || c.rnd.IntN(4) > 0:
		return false
	case c.west.actOperator():
		return true
	}
	switch n := c.rnd.IntN(20); {
	case n < 8:
		c.west.produce()
	case n == 8:
		c.west.actIngester()
	case n == 9:
		c.west.actQuerier()
	case n == 10:
		b.annotate(oneOf(c.rnd, b.tenants...))
	default:
		b.actCopy()
	}
	return true
}

// note is an annotation of the source.
type note struct {
	tenant.Annotation
	at time.Time // when it was stored
}

// annotate has a user of the source annotate what a tenant does.
func (b *box) annotate(name string) {
	b.startCommand("annotate "+name, func(ctx context.Context, c *command) {
		all := tenant.NewAnnotations(documents{c.actor}, documents{c.actor}, c.snapshot.Snapshot().Erasures)
		a, err := all.Add(ctx, name, tenant.Annotation{Time: c.now().UnixMilli(), Text: c.name}, 0)
		if err == nil {
			b.copies.notes[name] = append(b.copies.notes[name], note{a, time.Now()})
		}
	})
}

// actCopy starts a copy, ends one that follows, or kills one.
func (b *box) actCopy() {
	c := &b.copies
	running := slices.DeleteFunc(slices.Clone(c.copies), func(x *copier) bool { return x.isOver })
	switch n := c.rnd.IntN(16); {
	case len(running) == 0 || n == 0 && len(running) < 2:
		b.startCopy(oneOf(c.rnd, b.tenants...), c.rnd.IntN(3) == 0)
	case n < 6 && running[0].ends != nil:
		b.event("box", "end", running[0].from.name, "")
		running[0].must = b.endsWith(running[0])
		close(running[0].ends)
		running[0].ends = nil
	case n == 6:
		b.killCopy(running[0])
	}
}

// killCopy ends a process that copies.
func (b *box) killCopy(x *copier) {
	b.event("box", "kill", x.from.name, "")
	b.die(x.from)
	b.die(x.to)
	x.isOver = true
}

// startCopy starts a copy of a tenant.
func (b *box) startCopy(name string, follows bool) *copier {
	c := &b.copies
	c.births++
	process := fmt.Sprintf("copy.%d", c.births)
	x := &copier{from: b.newActor(process), to: c.west.newActor(process), tenant: name}
	x.to.clock = x.from.clock
	x.from.nerves, x.to.nerves = 0.3, 0.3 // the client of the store sends reads again
	ends := make(chan struct{})
	if follows {
		x.ends = ends
	}
	c.copies = append(c.copies, x)
	b.event("box", "start", process, fmt.Sprintf("copy %s, follows: %t", name, follows))
	today := telemetry.DayOf(time.Now().UnixMilli())
	run := tenantcopy.New(tenantcopy.Config{From: x.from.side(), To: x.to.side(), Tenant: name,
		Days: telemetry.Range{From: (today - 4).Start(), To: (today + 2).End()}, Now: x.from.machine,
		Logger: x.from.logger()})
	x.must = b.endsWith(x)
	x.from.start(func(ctx context.Context) {
		var r tenantcopy.Result
		err := retry.Pause(ctx, time.Duration(x.from.number)) // of two that begin at once the first would be chance
		switch {
		case err == nil && follows:
			r, err = run.Follow(ctx, ends)
		case err == nil:
			r, err = run.Run(ctx)
		}
		if x.isEqual = err == nil && r.IsEqual(); x.isEqual {
			c.west.oracle.hasCopied(x.must, &r)
		}
		x.from.logger().Info("the copy has ended", "error", err, "result", r)
		x.isOver = true
		b.stir()
	})
	return x
}

// side is an account as a copy sees it.
func (a *actor) side() tenantcopy.Side {
	return tenantcopy.Side{Documents: documents{a}, OfTenants: documents{a}, Orders: a.orders(), Catalog: pages{a},
		Chunks: chunks{a}, Now: a.now,
		Directory: control.NewDirectory(control.DirectoryConfig{Documents: documents{a}, Now: a.now,
			Check: a.service.Check})}
}

// endCopies kills what copies, and lets clients of the second account ask seldom while the first one settles.
func (b *box) endCopies() {
	for _, x := range b.copies.copies {
		if !x.isOver {
			b.killCopy(x)
		}
	}
	if b.copies.west != nil {
		b.copies.west.profile.think = time.Minute
	}
}

// copyUnderOrders gives an order at the source while a copy waits for replicas, and no process sweeps the target; then
// one at the target, whose sweep closes chains that the source goes on with (rules T3 and T4).
func (b *box) copyUnderOrders(name string) {
	west := b.copies.west
	if !b.operating.erasures {
		return
	}
	device := oneOf(b.copies.rnd, b.devicesOf(name)...)
	order := erasure.Order{Tenant: name, Device: oneOf(b.copies.rnd, device, ""), To: erasure.EveryDay, By: "box"}
	produce := func() {
		for range 1 + b.copies.rnd.IntN(3) {
			b.publish(name, device, func() int64 { return time.Now().UnixMilli() })
		}
		b.await("what was published meanwhile is stored", b.allCommitted)
	}
	b.await("no order of the target is open", west.oracle.ordersDecided)
	for _, a := range west.operating.sweepers {
		b.die(a)
	}
	produce()
	x, begun := b.startCopy(name, false), time.Now()
	b.await("a copy waits for replicas", func() bool { return x.isOver || time.Since(begun) > time.Minute })
	b.giveOrder(order)
	b.await("a copy under orders has ended", func() bool { return x.isOver && b.commandsEnded() })
	west.settleSweepers()
	west.giveOrder(order)
	swept := time.Now()
	b.await("the target is swept", func() bool { return west.commandsEnded() && time.Since(swept) > time.Minute })
	produce()
}

// settleCopies copies each tenant a last time, and holds that the second account has all of it then, soon.
func (b *box) settleCopies() {
	c := &b.copies
	if c.west == nil || b.failed() {
		return
	}
	c.west.settleSweepers() // copies wait for orders of processes that are dead
	b.copyUnderOrders(oneOf(c.rnd, b.tenants...))
	for _, name := range b.tenants {
		x := b.startCopy(name, false)
		b.await("the last copy of "+name+" has ended", func() bool { return x.isOver })
		if !x.isEqual && !b.failed() {
			b.fail("the last copy of %s does not equal its source", name)
		}
	}
	if b.failed() {
		return
	}
	c.west.oracle.takeAll()
	if copied := time.Now(); c.west.about == unasked { // who has left the store unasked must ask it for what was copied
		q, s := c.west.queriers[0], c.west.slots[0]
		if len(s.lives) == 0 {
			c.west.startIngester(s, false)
		}
		q.quits = true
		b.await("what was copied must be seen", func() bool { return q.quit && time.Since(copied) > seenWithin })
		c.west.finalBuckets(q)
	}
	c.west.settle()
}
