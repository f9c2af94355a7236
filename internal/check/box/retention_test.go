package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"binnacle/internal/catalog/catalogcache"
	"binnacle/internal/ops"
	"binnacle/internal/provision"
	"binnacle/internal/retry"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
)

// retentions are changes of retention. In some runs all are taken back before they come into force: until then nothing
// is hidden, refused or deleted for them (rule X5). In the others they come into force.
const retentions = "retention"

// takenBackWithin is how long after a change it must be taken back: five minutes less than two hours, for clocks that
// differ.
const takenBackWithin = 2*time.Hour - 10*time.Minute

// retaining is what the seed picks of retention in runs in which changes come into force.
type retaining struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd     *rand.Rand
	on      bool
	passes  time.Duration // before the run begins
	keepers []keeper
	births  int
	tags    bool              // devices have sites
	repeats bool              // devices say their sites again and again
	byTag   bool              // most retentions are by tag
	sites   map[string]string // by device, what its readings say now
}

// keeper is one life of a stage.
type keeper struct {
	*actor
	deletes bool
}

// setting is what a command sets.
type setting struct {
	classes  []keepClass
	confirms bool // the tags of devices
}

// pickRetaining picks whether changes of retention come into force.
func (b *box) pickRetaining() (x retaining) {
	x.rnd, x.sites = rand.New(rand.NewPCG(b.opts.seed, 45)), map[string]string{}
	o := &b.operating
	x.on = o.retention && !o.erasures && b.about == "" && b.copies.west == nil && b.opts.years == 0 && x.rnd.IntN(3) > 0
	x.passes = oneOf(x.rnd, time.Minute, 90*time.Minute, 112*time.Minute, 117*time.Minute, 3*time.Hour)
	x.tags, x.repeats, x.byTag = b.opts.years == 0, x.on || x.rnd.IntN(2) == 0, x.rnd.IntN(2) == 0
	if x.on {
		p := &b.profile
		p.pace, p.think, p.feedEvery = 20*time.Second, oneOf(x.rnd, 5*time.Second, 20*time.Second), 20*time.Second+17
		p.hold, p.catalogEvery = oneOf(x.rnd, time.Second, 20*time.Second, min(p.hold, 5*time.Minute)), time.Minute
		p.devices, o.seldom = max(2, p.devices), 8
	}
	return x
}

// beginRetaining sets retentions a while before the run begins, and starts the services that keep them.
func (b *box) beginRetaining() {
	x := &b.retaining
	if !x.on {
		return
	}
	for _, name := range b.tenants {
		if x.rnd.IntN(2) == 0 {
			b.startRetention(name, x.pickClasses(), 0)
		}
	}
	b.settling = true
	b.await("retentions are set", b.commandsEnded)
	b.settling = false
	time.Sleep(x.passes)
	for i := range 2 + x.rnd.IntN(2) {
		b.startKeeper(i != 1)
	}
}

// pickClasses picks a retention by pattern, by tag, or of all devices alike.
func (x *retaining) pickClasses() (all []keepClass) {
	for _, devices := range []string{"acme-*", "{site=oslo}", "*-0", "{site=rome}"} {
		if x.rnd.IntN(4) == 0 || x.byTag && devices[0] == '{' && x.rnd.IntN(2) == 0 {
			all = append(all, keepClass{devices, x.pickKeep()})
		}
	}
	if len(all) == 0 || x.rnd.IntN(3) > 0 {
		all = append(all, keepClass{"*", x.pickKeep()})
	}
	return all
}

func (x *retaining) pickKeep() time.Duration {
	return oneOf(x.rnd, 0, 0, time.Hour, 12*time.Hour, 20*time.Hour, 36*time.Hour, 60*time.Hour,
		84*time.Hour)
}

// startKeeper starts a stage of `provision`: one that deletes chunks of hidden days, or one that stores which devices
// are in classes by tag.
func (b *box) startKeeper(deletes bool) {
	x := &b.retaining
	x.births++
	a := b.newActor(fmt.Sprintf("keep.%d", x.births))
	var stage interface {
		Run(ctx context.Context) error
	}
	d := a.directory(func(ctx context.Context) { _ = stage.Run(ctx) })
	if deletes {
		stage = provision.NewSweeper(provision.SweeperConfig{Chunks: chunks{a}, Documents: documents{a},
			Snapshot: ops.DecidingSnapshots(d), RUs: 1e6, Every: 2*time.Minute + 3*time.Microsecond, Now: a.now,
			Logger: a.logger()})
	} else {
		catalogs := catalogcache.New(catalogcache.Config{Catalog: pages{a}, Now: a.now})
		stage = &provision.TagKeeper{Snapshot: ops.DecidingSnapshots(d), Tenants: tenant.NewTenants(documents{a}),
			Now: a.now, Catalogs: catalogs, Every: 3*time.Minute + 7*time.Microsecond, Logger: a.logger()}
	}
	x.keepers = append(x.keepers, keeper{a, deletes})
	b.event("box", "start", a.name, "")
}

// startRetention starts `tenant set --retention`. The operator reads what goes, and confirms that after a while.
func (b *box) startRetention(name string, classes []keepClass, reads time.Duration) {
	var parts []string
	for _, c := range classes {
		parts = append(parts, c.String())
	}
	text := strings.Join(parts, ",")
	b.startCommand("set "+name+" --retention "+text, func(ctx context.Context, c *command) {
		t, _ := c.snapshot.Snapshot().Tenant(name)
		tags, err := tenant.RetentionTags(text)
		if err != nil {
			panic(err)
		}
		found, err := c.tagged(ctx, t, tags)
		if err != nil {
			return
		}
		change, err := tenant.RetentionChange(text, c.now, found)
		if err != nil {
			panic(err)
		}
		if retry.Pause(ctx, c.length(reads)) == nil && c.service.Check() == nil {
			c.sets = &setting{classes: classes}
			_ = tenant.NewTenants(documents{c.actor}).Set(ctx, name, change)
		}
	})
}

// tagged returns which devices of a tenant have tags.
func (c *command) tagged(ctx context.Context, t tenant.Tenant, tags []tenant.RetentionTag) (tenant.Tagged, error) {
	if len(tags) == 0 {
		return nil, nil
	}
	catalogs := catalogcache.New(catalogcache.Config{Catalog: pages{c.actor}, Now: c.now})
	return provision.TaggedDevices(ctx, catalogs, t, tags)
}

// startConfirm starts `tenant retention confirm`.
func (b *box) startConfirm(name string) {
	b.startCommand("retention confirm "+name, func(ctx context.Context, c *command) {
		t, _ := c.snapshot.Snapshot().Tenant(name)
		found, err := c.tagged(ctx, t, t.RetentionTags())
		if err != nil || c.service.Check() != nil {
			return
		}
		var devices []string
		for _, r := range t.Retagged(found) {
			devices = append(devices, r.Device)
		}
		c.sets = &setting{confirms: true}
		if change, differs := t.ConfirmTagged(found, c.now, devices); differs {
			_ = tenant.NewTenants(documents{c.actor}).Set(ctx, name, change)
		}
	})
}

// actRetention has an operator shorten a retention, or lengthen it again.
func (b *box) actRetention() {
	r := b.operating.rnd
	name := oneOf(r, b.tenants...)
	if b.operating.set.IsZero() {
		b.operating.set = time.Now()
	}
	if !b.retaining.on {
		const h = time.Hour
		b.startRetention(name, oneOf(r, []keepClass{{"*", h}}, []keepClass{{"*", 12 * h}}, []keepClass{{"*", 36 * h}},
			[]keepClass{{"acme-*", h}}, []keepClass{{"*-0", 12 * h}, {"*", 48 * h}}, []keepClass{{"*", 0}}), 0)
		return
	}
	x := &b.retaining
	switch n := x.rnd.IntN(10); {
	case n < 3:
		b.startRetention(name, x.pickClasses(), oneOf(x.rnd, 0, time.Minute, 2*time.Hour))
	case n == 3 || n == 4 && x.byTag:
		b.startConfirm(name)
	case n < 6:
		i := x.rnd.IntN(len(x.keepers))
		k := x.keepers[i]
		b.event("box", "kill", k.name, "")
		b.die(k.actor)
		x.keepers = append(x.keepers[:i], x.keepers[i+1:]...)
		b.startKeeper(k.deletes)
	case b.isAsked():
		// A command that is alive asks the store something: no request takes a night.
	default:
		b.sleepFor(b.untilDue(), 0)
		if x.rnd.IntN(4) == 0 { // the new retention counts soon after what was due
			b.startRetention(name, x.pickClasses(), pick(x.rnd, time.Second, 10*time.Minute))
		}
	}
}

// untilDue returns for how long nothing happens: mostly until minutes before a change comes into force, or a day is
// hidden, or a sweep may delete it.
func (b *box) untilDue() time.Duration {
	x, now := &b.retaining, time.Now().UnixMilli()
	at := now + oneOf(x.rnd, 10*time.Minute, 50*time.Minute, 5*time.Hour, 11*time.Hour).Milliseconds()
	if due := b.oracle.due(now); len(due) > 0 && x.rnd.IntN(4) > 0 {
		at = due[x.rnd.IntN(min(3, len(due)))]
	}
	return max(time.Minute, time.Duration(at-now)*time.Millisecond-pick(x.rnd, time.Second, 5*time.Minute))
}

// isAsked reports whether a command that sets a retention waits for an answer.
func (b *box) isAsked() bool {
	return slices.ContainsFunc(b.pending, func(c *call) bool { return c.actor.sets != nil })
}

// siteTag is the tag that devices have.
const siteTag = "site"

// tagsOf returns the tags of a device's next reading: its site, where that is new or devices repeat it.
func (x *retaining) tagsOf(device string) telemetry.Labels {
	isNew := x.tags && x.rnd.IntN(10) == 0
	if isNew {
		x.sites[device] = oneOf(x.rnd, "oslo", "rome", "")
	}
	if site := x.sites[device]; site != "" && x.repeats || isNew && !x.on {
		return telemetry.Labels{{Name: siteTag, Value: site}}
	}
	return nil
}

// awaitKept holds that while processes live a strict answer is complete soon, whatever is gone of hidden days (X2).
func (b *box) awaitKept() bool {
	if !b.retaining.on || slices.ContainsFunc(b.slots, func(s *slot) bool { return len(s.lives) != 1 }) {
		return true
	}
	b.startQuerier()
	b.finalQuestions(b.queriers[len(b.queriers)-1], b.tenants...)
	return !b.failed()
}

// endRetention takes back what was set, so that no reading is hidden at the end.
func (b *box) endRetention() bool {
	if !b.operating.retention {
		return true
	}
	for _, c := range b.operating.commands {
		if b.retaining.on && !c.isOver { // its operator reads still
			b.die(c.actor)
			c.isOver = true
		}
	}
	if !b.await("commands have ended", b.commandsEnded) || b.retaining.on {
		return !b.failed()
	}
	for _, name := range b.tenants {
		b.startRetention(name, []keepClass{{"*", 0}}, 0)
	}
	if !b.await("retention is taken back", b.commandsEnded) {
		return false
	}
	if set := b.operating.set; !set.IsZero() && time.Since(set) > takenBackWithin {
		b.fail("a run about retention lasts for %s", time.Since(set))
	}
	return true
}
