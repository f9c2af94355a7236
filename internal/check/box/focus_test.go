package box_test

import (
	"math/rand/v2"
	"time"
)

// focus is a rule that a run is about. Most runs have none.
type focus string

// Rules that runs are about.
const (
	// lagging runs have replicas that lag for longer than heads keep what is stored: rule R4 holds answers then. It
	// promises nothing of ranges that cut days, and of chains that a killed ingester has known.
	lagging focus = "R4"
	// unasked runs have queriers that ask for the same again and again, so that they leave the store unasked (rule R8).
	unasked focus = "R8"
)

// longLag is how far replicas lag in runs about R4: less than the margin of rule R7.
const longLag = 4 * time.Minute

// pickFocus picks what a run is about, with a chance of its own: what a seed picks of the rest stays as it is.
func (b *box) pickFocus() focus {
	r := rand.New(rand.NewPCG(b.opts.seed, 39))
	p := &b.profile
	switch n := r.IntN(8); {
	case n == 0 && !b.opts.without["lag"]:
		p.lag, p.maxLag = oneOf(r, 0.1, 0.4), longLag
		p.pace, p.hold = oneOf(r, 2*time.Second, 20*time.Second), oneOf(r, time.Second, 20*time.Second)
		return lagging
	case n == 1:
		p.faults, p.pace, p.feedEvery = oneOf(r, 0.01, 0.05), 20*time.Second, time.Minute+17
		p.think, p.act = oneOf(r, 5*time.Second, 20*time.Second), 0.04
		p.hold, p.devices = oneOf(r, time.Minute, 4*time.Minute), 1+r.IntN(2)
		return unasked
	}
	return ""
}

// asksWholeDays reports whether questions are about whole days alone.
func (f focus) asksWholeDays() bool { return f != "" }

// killsIngesters reports whether ingesters are killed and started.
func (f focus) killsIngesters() bool { return f != lagging }
