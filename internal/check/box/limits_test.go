package box_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"binnacle/internal/tenant"
)

// limits are limits of tenants, which operators change, and tenants that pass them.
const limits = "limits"

// limiting is what the seed picks of limits. Most runs have none.
type limiting struct {
	// rnd is its own, so that a seed picks the same of everything else.
	rnd                *rand.Rand
	on                 bool
	heldFor, fairAfter time.Duration
	registerRate       int
	byDefault          tenant.IngestLimits // of tenants without limits of their own
	changes            int                 // that operators may still make
	newcomers          int                 // tenants that nobody has registered
	slowest            time.Duration       // for the acknowledgement of a dead letter
	deferred           series              // the tenant and device of a deferral, as it was seen last

	// given are the limits that a tenant has ever had, by the names of their flags.
	given map[string]map[string]bool
}

// pickLimiting picks the limits of a run.
func (b *box) pickLimiting() (l limiting) {
	r := rand.New(rand.NewPCG(b.opts.seed, 42))
	l = limiting{rnd: r, given: map[string]map[string]bool{}, fairAfter: -1}
	if l.on = b.has(limits, r.IntN(5) == 0 && b.about == "" && !b.services.some() && b.copies.west == nil &&
		!b.retaining.on); !l.on {
		return l
	}
	l.heldFor = oneOf(r, 10*time.Second, 30*time.Second, 2*time.Minute)
	l.registerRate = oneOf(r, 1, 120)
	l.changes = 2 + r.IntN(6)
	if r.IntN(3) == 0 {
		l.fairAfter = 500 * time.Millisecond
	}
	l.slowest = oneOf(r, 1, 20*time.Second)
	if r.IntN(2) == 0 {
		l.byDefault = pickLimits(r)
	}
	b.profile.devices, b.profile.pace = max(2, b.profile.devices), max(b.profile.pace, 2*time.Second)
	b.profile.faults, b.profile.think = min(b.profile.faults, 0.05), max(b.profile.think, 20*time.Second)
	b.profile.feedEvery = oneOf(r, b.profile.feedEvery, 20*time.Second+17)
	b.profile.hold = oneOf(r, time.Second, 5*time.Second, b.profile.hold)
	return l
}

// pickLimits picks a limit or two.
func pickLimits(r *rand.Rand) (l tenant.IngestLimits) {
	l.Burst = oneOf(r, tenant.Period(1), 10, 60)
	for range 1 + r.IntN(2) {
		rate := oneOf(r, tenant.Limit(0.001), 0.02, 0.1, 1)
		switch r.IntN(9) {
		case 0, 1:
			l.Readings = rate
		case 2:
			l.Values = rate
		case 3, 4:
			l.DeviceReadings = rate
		case 5:
			l.DeviceValues = rate
		case 6:
			l.Series = 1
		case 7:
			l.Devices = 1
		case 8:
			l.Payload = 100
		}
	}
	if r.IntN(5) == 0 {
		l.OnExcess = tenant.Refuse
	}
	return l
}

// gives notes that a tenant has limits from now on, or an ingester that has read them late.
func (l *limiting) gives(name string, limits tenant.IngestLimits) {
	if l.given[name] == nil {
		l.given[name] = map[string]bool{}
	}
	for flag := range (tenant.Ingest{IngestLimits: limits}).Bounds() {
		l.given[name][flag] = true
	}
	if limits.OnExcess == tenant.Refuse {
		l.given[name][refusesAtOnce] = true
	}
}

// refusesAtOnce stands among given limits where readings above a rate are not deferred.
const refusesAtOnce = "ingest-over refuse"

// actLimits has a tenant send much at once, an operator change limits, or a tenant come that nobody knows. It reports
// whether it did.
func (b *box) actLimits() bool {
	l := &b.limiting
	if !l.on {
		return false
	}
	b.seeDeferred()
	if l.rnd.IntN(6) > 0 {
		return false
	}
	switch n := l.rnd.IntN(12); {
	case n < 5:
		name := oneOf(l.rnd, b.tenants...)
		device := oneOf(l.rnd, b.devicesOf(name)...)
		for range 1 + l.rnd.IntN(12) {
			b.publish(name, device, func() int64 { return b.eventTime(time.Now().UnixMilli()) })
		}
	case n < 8 && l.changes > 0:
		l.changes--
		b.startLimit()
	case n == 8:
		if l.newcomers == 0 || l.rnd.IntN(3) == 0 {
			l.newcomers++
		}
		name := fmt.Sprintf("new%d", l.newcomers)
		l.gives(name, l.byDefault)
		b.publish(name, name+"-0", func() int64 { return time.Now().UnixMilli() })
	case n < 11 && !b.opts.without["kill ingesters"]:
		return b.killPublisher()
	default:
		return false
	}
	return true
}

// seeDeferred notes a device of which readings are deferred: queriers ask about it (rule R3).
func (b *box) seeDeferred() {
	b.limiting.deferred = series{}
	for _, s := range b.slots {
		for _, x := range s.lives {
			all, _ := x.in.Limits(b.context(), "")
			for _, d := range all.Deferred {
				if d.Device != "" {
					b.limiting.deferred = series{tenant: d.Tenant, device: d.Device}
				}
			}
		}
	}
}

// slow returns how long the log needs for dead letters: while it does, chunks of other readings may be stored.
func (l *limiting) slow(c *call) time.Duration {
	return time.Duration(uint64(c.since.UnixNano())*0x9e3779b97f4a7c15>>1) % max(1, l.slowest)
}

// killPublisher kills an ingester that awaits the acknowledgement of a dead letter. It reports whether there is one.
func (b *box) killPublisher() bool {
	for _, s := range b.slots {
		for i, x := range s.lives {
			if slices.ContainsFunc(b.quiet(), func(c *call) bool { return c.actor == x.actor && c.isLetter }) {
				b.kill(s, i)
				return true
			}
		}
	}
	return false
}

// startLimit starts `tenant set` with limits, or without any.
func (b *box) startLimit() {
	l := &b.limiting
	name := oneOf(l.rnd, "acme", "acme", "acme", "globex")
	said := pickLimits(l.rnd)
	if l.rnd.IntN(3) == 0 {
		said = tenant.IngestLimits{Readings: tenant.Unset, Values: tenant.Unset, DeviceReadings: tenant.Unset,
			DeviceValues: tenant.Unset, Series: tenant.Unset, Devices: tenant.Unset, Payload: tenant.Unset}
	}
	ingest := tenant.Ingest{IngestLimits: said}
	l.gives(name, said)
	b.startCommand(fmt.Sprintf("set %s %v", name, ingest.Bounds()), func(ctx context.Context, c *command) {
		_ = tenant.NewTenants(documents{c.actor}).Set(ctx, name, ingest.Changes()...)
	})
}

// endsWithin is how long after held-for a deferral ends at the latest, while nothing fails.
const endsWithin = 2 * time.Minute

// endDeferrals holds that deferrals end when they should while nothing fails, and that tenants without limits need not
// wait for that.
func (b *box) endDeferrals() bool {
	l := &b.limiting
	if !l.on {
		return true
	}
	b.profile.pace, b.profile.think = time.Second, max(b.profile.think, 5*time.Second)
	for _, s := range b.slots {
		if len(s.lives) == 0 {
			b.startIngester(s, false)
		}
	}
	begun := time.Now()
	if !b.await("commands have ended", b.commandsEnded) {
		return false
	}
	b.endAdding()
	for _, name := range b.tenants {
		if l.given[name] == nil && l.fairAfter < 0 {
			b.startQuerier()
			q := b.queriers[len(b.queriers)-1]
			b.finalQuestions(q, name)
			if waited := time.Since(begun); waited > endsWithin {
				b.fail("a strict answer about %s, which has no limit, is complete after %s", name, waited)
			}
		}
	}
	ends := b.await("nothing is deferred", func() bool { return !slices.ContainsFunc(b.slots, (*slot).defers) })
	if waited := time.Since(begun); waited > l.heldFor+endsWithin {
		b.fail("readings are deferred for %s while nothing fails, and may be for %s", waited, l.heldFor)
	}
	return ends
}

// defers reports whether an ingester of the slot defers readings.
func (s *slot) defers() bool {
	return slices.ContainsFunc(s.lives, func(x *ingester) bool {
		all, err := x.in.Limits(x.b.context(), "")
		return err != nil || len(all.Deferred) > 0
	})
}

// soonest is how much sooner than after held-for a reading may be refused, since the clocks of processes differ.
func (b *box) soonest() time.Duration { return min(b.profile.clocks, time.Minute) + 3*time.Second }
