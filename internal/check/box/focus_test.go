package box_test

import (
	"math/rand/v2"
	"slices"
	"strings"
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
	// journaled runs are about takeovers by the journal (rules J1 to J8): ingesters die often, append while calls fail,
	// and devices report new metrics. The journal may lose its end, as a log does whose leader was not in sync.
	journaled focus = "J"
	// doubled runs have two ingesters in a place, of which the older one is cut off from the log: answers of it do not go
	// back behind those of the newer one (rule R3).
	doubled focus = "two lives"
)

// longLag is how far replicas lag in runs about R4: less than the margin of rule R7.
const longLag = 4 * time.Minute

// pickFocus picks what a run is about from random numbers of its own: a seed picks the same of everything else. Where
// runs are to have one kind of actor it may be a rule instead.
func (b *box) pickFocus() focus {
	r := rand.New(rand.NewPCG(b.opts.seed, 39))
	p := &b.profile
	n := r.IntN(8)
	if b.opts.with != "" {
		with := strings.Split(b.opts.with, ",")
		n = slices.IndexFunc([]focus{lagging, unasked, journaled, doubled}, func(f focus) bool {
			return slices.Contains(with, string(f))
		})
	}
	switch {
	case n == 3:
		p.partitions, p.faults, p.pace, p.act = 1, oneOf(r, 0.01, 0.05), 2*time.Second, 0.15
		p.think, p.queriers = oneOf(r, 200*time.Millisecond, 5*time.Second), 2
		p.hold = oneOf(r, time.Second, 2*time.Second, 20*time.Second, 5*time.Minute)
		return doubled
	case n == 2:
		p.journal, p.catalogEvery, p.partitions = true, oneOf(r, time.Minute, 7*24*time.Hour, 7*24*time.Hour), 1
		p.faults, p.act = oneOf(r, 0.05, 0.15), oneOf(r, 0.05, 0.15)
		p.pace, p.think = oneOf(r, 2*time.Second, 20*time.Second), oneOf(r, 5*time.Second, 30*time.Second)
		p.hold, p.journalEvery = oneOf(r, 20*time.Second, 5*time.Minute, 12*time.Hour), oneOf(r, time.Second, 10*time.Second)
		p.loses = oneOf(r, "", mendedLoss, takenLosses)
		return journaled
	case n == 0 && !b.opts.without["lag"]:
		p.lag, p.maxLag = oneOf(r, 0.1, 0.4), longLag
		p.pace, p.hold = oneOf(r, 2*time.Second, 20*time.Second), oneOf(r, time.Second, 20*time.Second)
		return lagging
	case n == 1:
		p.faults, p.pace, p.feedEvery = oneOf(r, 0.01, 0.05), time.Minute, time.Minute+17
		p.think, p.act = oneOf(r, 20*time.Second, time.Minute), 0.06
		p.hold, p.devices = oneOf(r, time.Minute, 4*time.Minute), 1+r.IntN(2)
		return unasked
	}
	return ""
}

// asksWholeDays reports whether questions are about whole days alone.
func (f focus) asksWholeDays() bool { return f == lagging || f == unasked }

// killsIngesters reports whether ingesters are killed and started.
func (f focus) killsIngesters() bool { return f != lagging }
