package box_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/heat"
	"binnacle/internal/provision"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"
	"binnacle/sharding/epk"
)

// provisioners leaves out the provisioners: all containers are there from the beginning.
const provisioners = "provisioners"

// provisioner is one life of a process that makes and drops containers, and decides epochs.
type provisioner struct {
	*actor
	directory *control.Directory
	// balancer is the same process. Its calls are told apart, or chance would pick which of two equal ones is answered.
	balancer *actor
}

// killProvisioner ends a provisioner and its balancer.
func (b *box) killProvisioner(p *provisioner) {
	b.die(p.actor)
	b.die(p.balancer)
}

// neverPolls is longer than a run: of a round and a poll that are both due chance would pick one.
const neverPolls = 100_000 * time.Hour

// dropping is the kind of calls that delete a container. One that its sender has given up is under way for minutes.
const dropping = "drop container"

// tempt has a tenant come soon for a month of long ago that a provisioner has marked.
func (b *box) tempt(month string) {
	if slices.Contains(b.oldMonths, month) && b.rnd.IntN(3) == 0 {
		b.tempted, b.temptAt = month, b.events+b.rnd.IntN(oneOf(b.rnd, 8, 60))
	}
}

// startProvisioner starts a provisioner.
func (b *box) startProvisioner() {
	b.births++
	a := b.newActor(fmt.Sprintf("provision.%d", b.births))
	also := b.newActor(fmt.Sprintf("balance.%d", b.births))
	lease := func(x *actor) *control.Leases {
		return control.NewLeases(documents{x}, a.name, x.now).OnlyWhile(x.service.Check)
	}
	var p *provision.Provisioner
	var balance *provision.Balancer
	d := a.directory(func(ctx context.Context) {
		also.start(func(ctx context.Context) { _ = balance.Run(ctx) })
		_ = p.Run(ctx)
	})
	var err error
	p, err = provision.New(provision.Config{Containers: containers{a}, Directory: d, Policy: b.services.policy,
		Now: a.now, Every: b.services.provisionEvery + 13*time.Microsecond, Poll: neverPolls,
		Lease: lease(a), Logger: a.logger()})
	if err != nil {
		panic(err)
	}
	balance = provision.NewBalancer(provision.BalancerConfig{Epochs: d, Decisions: control.NewDecisions(documents{also}),
		Loads: provision.Loads{Ranges: loads{b}, Heat: loads{b}}, Lease: lease(also), From: time.Minute,
		Every: 7*time.Minute + 5*time.Microsecond, Now: also.now, Logger: also.logger()})
	b.provisioners = append(b.provisioners, &provisioner{a, d, also})
	b.event("box", "start", a.name, "")
}

// actProvisioner kills a provisioner and starts another one, has a tenant come for a container that was about to go,
// or lets all processes be dead for a while.
func (b *box) actProvisioner() {
	if left := telemetry.DayMillis - time.Now().UnixMilli()%telemetry.DayMillis; b.rnd.IntN(2) == 0 &&
		left < b.profile.feedEvery.Milliseconds() {
		b.addEpoch() // no writer may learn of it before the day begins
		return
	}
	switch n := b.rnd.IntN(9); {
	case n < 3 && b.opts.years == 0 && len(b.oldMonths) > 0 && b.rnd.IntN(2) == 0:
		// What is expired is dropped next, and what was dropped may be made again.
		b.sleepFor(oneOf(b.rnd, control.ReopenAfter, control.DropAfter)+b.duration(0, 10*time.Minute), 0)
	case n < 3:
		b.night()
	case n == 3 && (b.opts.years > 0 || b.rnd.IntN(4) == 0):
		b.newcomer()
	case n == 4:
		if b.opts.years == 0 || b.rnd.IntN(4) == 0 {
			b.addEpoch()
		}
	case n < 8 && b.opts.years == 0: // nothing new happens
	default:
		i := b.rnd.IntN(len(b.provisioners))
		b.event("box", "kill", b.provisioners[i].name, "")
		b.killProvisioner(b.provisioners[i])
		b.provisioners = slices.Delete(b.provisioners, i, i+1)
		b.startProvisioner()
	}
}

// night kills all processes, but perhaps one provisioner, which has no answer until they start again.
func (b *box) night() {
	lasts := b.duration(time.Minute, oneOf(b.rnd, 20*time.Minute, 3*time.Hour, 14*time.Hour))
	b.sleepFor(lasts, b.rnd.IntN(2*len(b.provisioners))+1)
}

// sleepFor kills all processes, but perhaps the provisioner of a number from 1 on, and starts them after a time.
func (b *box) sleepFor(lasts time.Duration, kept int) {
	b.event("box", "night", lasts.String(), "")
	for _, s := range b.slots {
		for len(s.lives) > 0 {
			b.die(b.bury(s, 0).actor)
		}
	}
	for _, q := range b.queriers {
		b.die(q.actor)
	}
	for _, m := range b.makers {
		b.die(m.actor)
	}
	var left []*provisioner
	for i, p := range b.provisioners {
		if i+1 == kept {
			left = append(left, p)
		} else {
			b.killProvisioner(p)
		}
	}
	queriers := len(b.queriers)
	b.queriers, b.makers, b.provisioners = nil, nil, left
	time.Sleep(lasts)
	b.endOldCalls()
	for _, s := range b.slots {
		b.startIngester(s, false)
	}
	for range queriers {
		b.startQuerier()
	}
	b.startServices()
}

// addEpoch has a provisioner place a tenant otherwise from tomorrow on, as an operator would who is late at times.
func (b *box) addEpoch() {
	p := b.provisioners[b.rnd.IntN(len(b.provisioners))]
	tenant := oneOf(b.rnd, b.tenants...)
	e := sharding.Epoch{From: telemetry.DayOf(time.Now().UnixMilli()) + 1, Dedicated: b.rnd.IntN(3) == 0,
		Slots: sharding.Spread(tenant, 1+b.rnd.IntN(8))}
	b.event("box", "epoch", tenant, fmt.Sprintf("%d slots, dedicated %t", len(e.Slots), e.Dedicated))
	p.start(func(ctx context.Context) { _ = p.directory.AddEpoch(ctx, tenant, e) })
}

// newcomer produces a reading of a tenant that nobody knows, of a month that no other tenant keeps.
func (b *box) newcomer() {
	if len(b.oldMonths) == 0 {
		return
	}
	if b.tempted == "" {
		b.tempted = oneOf(b.rnd, b.oldMonths...)
	}
	b.newcomers++
	at, err := time.Parse("2006-01", strings.TrimPrefix(b.tempted, "chunks-"))
	b.tempted = ""
	if err != nil {
		panic(err)
	}
	tenant := fmt.Sprintf("late%d", b.newcomers)
	b.publish(tenant, tenant+"-0", func() int64 { return at.UnixMilli() + int64(b.rnd.IntN(28*telemetry.DayMillis)) })
}

// account is the containers of the box, with their throughput.
type account struct {
	containers map[string]store.ContainerState
	// most is the most throughput that all may have.
	most int
	// before is the throughput of a container before its last change, and when that was.
	before map[string]store.Throughput
	at     map[string]time.Time
}

// containers is what an actor sees of the account: provision.Containers.
type containers struct{ a *actor }

var _ provision.Containers = containers{}

// ask asks something of the account.
func (c containers) ask(ctx context.Context, x *call, do func(b *box) error) error {
	_, err := answer(ctx, c.a, x, func(context.Context, view) (nothing, error) { return nothing{}, do(c.a.b) })
	return err
}

// List implements provision.Containers.
func (c containers) List(ctx context.Context) (names []string, err error) {
	err = c.ask(ctx, &call{kind: "containers"}, func(b *box) error {
		names = slices.Sorted(maps.Keys(b.account.containers))
		return nil
	})
	return names, err
}

// ReadThroughput implements provision.Containers.
func (c containers) ReadThroughput(ctx context.Context, name string) (s store.ContainerState, err error) {
	err = c.ask(ctx, &call{kind: "throughput", what: name}, func(b *box) error {
		var ok bool
		if s, ok = b.account.containers[name]; !ok {
			return store.ErrNoContainer
		}
		return nil
	})
	return s, err
}

// Create implements provision.Containers.
func (c containers) Create(ctx context.Context, name string, t store.Throughput) error {
	return c.ask(ctx, &call{kind: "make", what: fmt.Sprint(name, " ", t.RUs), isWrite: true}, func(b *box) error {
		if _, there := b.account.containers[name]; !there {
			b.account.set(b, store.ContainerState{Name: name, Throughput: t, MinRUs: 400})
			b.makeContainer(name)
		}
		return nil
	})
}

// SetThroughput implements provision.Containers.
func (c containers) SetThroughput(ctx context.Context, name string, t store.Throughput) error {
	return c.ask(ctx, &call{kind: "scale", what: fmt.Sprint(name, " ", t.RUs), isWrite: true}, func(b *box) error {
		s, there := b.account.containers[name]
		switch {
		case !there:
			return store.ErrNoContainer
		case t.RUs < s.MinRUs || t.RUs%100 != 0 || t.Autoscale != s.Throughput.Autoscale:
			b.fail("%s: %+v can't become %+v", name, s, t)
		case t != s.Throughput && t == b.account.before[name] && time.Since(b.account.at[name]) < time.Hour:
			b.fail("%s: the throughput of %s is set back to %d RU/s", c.a.name, name, t.RUs)
		}
		if t != s.Throughput {
			b.account.before[name], b.account.at[name] = s.Throughput, time.Now()
		}
		s.Throughput = t
		b.account.set(b, s)
		return nil
	})
}

// Delete implements provision.Containers.
func (c containers) Delete(ctx context.Context, name string) error {
	return c.ask(ctx, &call{kind: dropping, what: name, isWrite: true}, func(b *box) error {
		b.mayDrop(name)
		delete(b.account.containers, name)
		b.stores.Chunks.DeleteContainer(name)
		b.rollups.DeleteContainer(name)
		return nil
	})
}

// set stores a container, and holds that the account has no more throughput than it may have.
func (x *account) set(b *box, s store.ContainerState) {
	x.containers[s.Name] = s
	sum := 0
	for _, s := range x.containers {
		sum += s.Throughput.RUs
	}
	if sum > x.most {
		b.fail("all containers together have %d RU/s, and may have %d", sum, x.most)
	}
}

// makeContainer makes a container of chunks or rollups.
func (b *box) makeContainer(name string) {
	if strings.HasPrefix(name, "rollups-") {
		b.rollups.CreateContainer(name)
	} else {
		b.stores.Chunks.CreateContainer(name)
	}
}

// snapshot returns what the control documents say.
func (b *box) snapshot() *control.Snapshot {
	b.view = view{}
	v, err := control.NewDirectory(control.DirectoryConfig{Documents: b.stores.Docs, Now: time.Now}).Refresh(b.context())
	if err != nil {
		b.fail("the control documents can't be read: %v", err)
		return &control.Snapshot{}
	}
	return v
}

// mayDrop holds that a container has nothing that must be kept.
func (b *box) mayDrop(name string) {
	for _, d := range b.stores.Chunks.Documents() {
		if d.Key.Container == name && b.oracle.isKeptChunk(d.Key, d.ID) {
			b.fail("%s is dropped with chunk %s of %s, which is kept", name, d.ID, d.Key.Device)
		}
	}
}

// loads is the physical partitions and the load of the account, as the balancer sees them: that of acme grows.
type loads struct{ b *box }

// RangesOf implements provision.Ranges.
func (l loads) RangesOf(_ context.Context, container string) ([]epk.Range, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if _, there := l.b.account.containers[container]; !there {
		return nil, store.ErrNoContainer
	}
	return epk.Split(1 + int(time.Now().Month())/4*3), nil
}

// Frames implements provision.Heat.
func (l loads) Frames(_ context.Context, span heat.Span) ([]heat.Frame, error) {
	var cells []heat.Cell
	today := telemetry.DayOf(span.To - 1)
	container := sharding.Container("", sharding.Month.Of(today))
	for i, tenant := range l.b.tenants {
		for _, slot := range sharding.Spread(tenant, 4) {
			c := heat.Cell{Key: heat.KeyOf(container, sharding.Shard(tenant, slot))}
			c.RUs[heat.ChunkWrites], c.RUs[heat.ChunkReads] = float64(9000-8500*i), float64(100*(today/30%5))
			cells = append(cells, c)
		}
	}
	return []heat.Frame{{Layer: heat.Hours, From: span.To - heat.Hour, To: span.To, Of: 1, Cells: cells}}, nil
}

// Weights implements provision.Heat.
func (l loads) Weights(_ context.Context, day telemetry.Day) ([]heat.Weights, error) {
	w := heat.Weights{Tenant: l.b.tenants[0], Day: day}
	for _, device := range l.b.devicesOf(w.Tenant) {
		w.Devices = append(w.Devices, heat.Weight{Device: device, RUs: 400})
	}
	return []heat.Weights{w}, nil
}

// beginAccount makes containers of long ago that no tenant keeps. Some are expired for a while already.
func (b *box) beginAccount() {
	b.account = &account{containers: map[string]store.ContainerState{}, most: b.services.policy.MaxRUs,
		before: map[string]store.Throughput{}, at: map[string]time.Time{}}
	if b.services.old%2 == 0 { // an older version took a lease by a wrong clock, and is gone
		lease := map[string]any{"holder": "gone", "until": time.Now().AddDate(1, 0, 0).UnixMilli()}
		doc := store.NewDocument(control.KindLease, provision.LeaseName, lease)
		if _, err := b.stores.Docs.Create(b.context(), doc); err != nil {
			panic(err)
		}
	}
	for i := range b.services.old {
		name := fmt.Sprintf("chunks-2026-%02d", 1+i)
		b.oldMonths = append(b.oldMonths, name)
		b.account.set(b, store.ContainerState{Name: name, Throughput: store.Throughput{RUs: 400}, MinRUs: 400})
		b.makeContainer(name)
		ago := 10 * 24 * time.Hour
		dir := control.NewDirectory(control.DirectoryConfig{Documents: b.stores.Docs,
			Now: func() time.Time { return time.Now().Add(-ago) }})
		err := dir.AskMonth(b.context(), name, "")
		if v, failed := dir.Refresh(b.context()); err == nil && failed == nil && b.rnd.IntN(2) == 0 {
			ago = b.duration(time.Hour, 4*time.Hour)
			_, err = dir.Mark(b.context(), v.Month(name), control.MonthExpired)
		}
		if err != nil {
			panic(err)
		}
	}
}
