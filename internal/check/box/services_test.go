package box_test

import (
	"math/rand/v2"
	"time"
)

// services is what the seed picks of the services beside ingesters and queriers. Most runs have none of them.
type services struct {
	makers    int // of rollups
	makeEvery time.Duration
	makeHold  time.Duration
	families  string // of rollups
	slots     int    // of a tenant, 0 for as many as usual
	toHour    int    // minutes before an hour ends in which the run begins
}

// pickServices picks the services of a run, with a chance of its own: what a seed picks of the rest stays as it is.
func (b *box) pickServices() (s services) {
	r := rand.New(rand.NewPCG(b.opts.seed, 37))
	if r.IntN(4) == 0 {
		s.makers = 1 + r.IntN(2)
	}
	s.makeEvery = oneOf(r, 20*time.Second, time.Minute, 3*time.Minute)
	s.makeHold = oneOf(r, time.Second, 5*time.Minute)
	s.families = oneOf(r, "", "L", "LFSM")
	if b.opts.without[noMakers] {
		s.makers = 0
	}
	if s.makers > 0 { // whole hours must pass, and devices must have rows that no head shows
		p := &b.profile
		p.pace, p.think, p.feedEvery = 20*time.Second, oneOf(r, 5*time.Second, 20*time.Second), 20*time.Second+17
		p.hold, p.devices = oneOf(r, time.Second, 20*time.Second), 2+r.IntN(4)
		p.act, s.toHour, s.slots = 0.03, r.IntN(10), 1+r.IntN(5)/4
	}
	return s
}

// some reports whether there are services.
func (s services) some() bool { return s.makers > 0 }

// startServices starts the services of a run.
func (b *box) startServices() {
	for range b.services.makers {
		b.startMaker()
	}
}

// actService lets the world act on a service.
func (b *box) actService() { b.actMaker() }
