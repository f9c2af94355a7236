package box_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"binnacle/internal/provision"
)

// services is what the seed picks of the services beside ingesters and queriers. Most runs have none of them.
type services struct {
	makers    int // of rollups
	makeEvery time.Duration
	makeHold  time.Duration
	families  string // of rollups
	slots     int    // of a tenant, 0 for as many as usual
	toHour    int    // minutes before an hour ends in which the run begins
	acts      int    // one of so many acts of the world is on a service

	provisioners   int
	provisionEvery time.Duration
	policy         provision.Policy
	old            int           // months that no tenant keeps
	retention      time.Duration // of the tenants that are there from the beginning; 0 is without end
}

// pickServices picks the services of a run from random numbers of its own: a seed picks the same of everything else.
func (b *box) pickServices() (s services) {
	r := rand.New(rand.NewPCG(b.opts.seed, 37))
	makes, provisions := r.IntN(4) == 0, r.IntN(5) == 0
	s.makers, s.provisioners = 1+r.IntN(2), 1+r.IntN(2)
	s.makeEvery = oneOf(r, 20*time.Second, time.Minute, 3*time.Minute)
	s.makeHold = oneOf(r, time.Second, 5*time.Minute)
	s.families = oneOf(r, "", "L", "LFSM")
	s.provisionEvery, s.policy = oneOf(r, time.Minute, 5*time.Minute), provision.DevPolicy()
	s.policy.MaxRUs, s.old = oneOf(r, 9000, 20_000), max(0, r.IntN(9)-1)
	makes, provisions = makes || b.opts.years > 0, provisions || b.opts.years > 0
	if !b.has(rollupMakers, makes) {
		s.makers = 0
	}
	if !b.has(provisioners, provisions) {
		s.provisioners = 0
	}
	p := &b.profile
	if s.some() { // hours must pass
		p.pace, p.think, p.feedEvery = 40*time.Second, oneOf(r, 20*time.Second, 40*time.Second), 20*time.Second+17
		p.act, s.acts = 0.06, 20
	}
	if s.makers > 0 { // devices must have rows that no head shows
		p.hold, p.devices = oneOf(r, time.Second, 20*time.Second), 2+r.IntN(4)
		s.toHour, s.slots = r.IntN(10), 1+r.IntN(5)/4
	}
	if s.provisioners > 0 {
		s.retention, s.acts = 40*24*time.Hour, 5
		p.feedEvery = oneOf(r, p.feedEvery, 12*time.Minute+17) // writers read epochs late
		p.hold = oneOf(r, time.Second, 20*time.Second)
		if s.makers > 0 {
			s.policy.RollupsRUs = 1000
		}
		if s.old == 0 { // less than what is wanted when a month begins, or at once
			s.policy.MaxRUs = 500 * (1 + r.IntN(9))
		}
	}
	if b.opts.years > 0 {
		s.pickYears(p)
	}
	return s
}

// has reports whether a run has a kind of actor, where the seed picks that or not.
func (b *box) has(kind string, picked bool) bool {
	if b.opts.with != "" {
		picked = slices.Contains(strings.Split(b.opts.with, ","), kind)
	}
	return picked && !b.opts.without[kind]
}

// some reports whether there are services.
func (s services) some() bool { return s.makers+s.provisioners > 0 }

// startServices starts the services that a run lacks.
func (b *box) startServices() {
	for len(b.makers) < b.services.makers {
		b.startMaker()
	}
	for len(b.provisioners) < b.services.provisioners {
		b.startProvisioner()
	}
}

// actService lets the world act on a service.
func (b *box) actService() {
	if len(b.makers) > 0 && (len(b.provisioners) == 0 || b.rnd.IntN(2) == 0) {
		b.actMaker()
	} else {
		b.actProvisioner()
	}
}

// settleServices starts services anew, with clocks that are right: with a wrong one a provisioner decides nothing. The
// operator raises the ceiling of throughput, at which containers may wait that readings are for.
func (b *box) settleServices() {
	if b.account != nil {
		b.services.policy.MaxRUs, b.account.most = 100_000, 100_000
	}
	for _, m := range b.makers {
		b.die(m.actor)
	}
	for _, p := range b.provisioners {
		b.killProvisioner(p)
	}
	b.makers, b.provisioners = nil, nil
	b.startServices()
}
