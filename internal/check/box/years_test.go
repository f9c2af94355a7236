package box_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"binnacle/sharding"
)

var boxYears = flag.Int("box.years", 1, "years that a run of TestYears takes")

// Years pass in visits: for some minutes all processes live, readings come, and calls fail; then everything is stored
// and answered, all processes end, and weeks pass.
const (
	visitEvents = 350
	longestGap  = 38 * 24 * time.Hour // less than the retention
	gapMonths   = 4                   // containers of more months are not kept
)

// TestYears lets months begin and end, retention end, containers come and go, and epochs change: a century takes a few
// minutes.
func TestYears(t *testing.T) {
	opts := options{seed: max(1, *boxSeed), years: *boxYears}
	if *boxStory {
		opts.trace = func(line string) { fmt.Println(line) }
	}
	r := run(t, opts)
	if r.failure != "" {
		t.Errorf("seed %d: %s", opts.seed, r.failure)
	}
	fmt.Printf("years %d, events %d, hash %016x\n", opts.years, r.events, r.hash)
}

// pickYears makes the services and the profile those of a run of years.
func (s *services) pickYears(p *profile) {
	s.makers, s.makeEvery, s.provisioners, s.old = 1, 20*time.Minute, 2, 0
	p.queriers, p.partitions, p.faults, p.journal = 1, 1, 0.03, true
	p.clocks = 50 * time.Second // with a wrong clock a provisioner decides nothing
	p.act, p.think = 0.1, 30*time.Minute
	p.hold, p.journalEvery, p.catalogEvery = time.Second, time.Second, time.Minute
	s.acts, s.policy.MaxRUs = 20, 20_000
}

// passYears lets years pass.
func (b *box) passYears() {
	end := time.Now().AddDate(b.opts.years, 0, 0)
	for time.Now().Before(end) && !b.failed() {
		b.opts.until = b.events + visitEvents
		for !b.calm() && !b.failed() {
			b.step()
		}
		b.settling = true // until the next visit
		b.settleServices()
		for _, s := range b.slots {
			if len(s.lives) == 0 {
				b.startIngester(s, true)
			}
		}
		b.await("everything is committed", b.allCommitted)
		b.checkKept()
		if len(b.queriers) == 0 {
			b.startQuerier()
		}
		b.finalQuestions(b.queriers[0], b.tenants...)
		b.checkMonths()
		b.settling = false
		b.sleepFor(b.gap(), 0)
	}
}

// gap picks how long nothing lives: now and then until just before a month begins.
func (b *box) gap() time.Duration {
	lasts := time.Duration(b.rnd.Int64N(int64(longestGap)))
	if next := time.Now().Add(lasts); b.rnd.IntN(3) == 0 {
		lasts -= time.Duration(next.Day()-1)*24*time.Hour + 10*time.Minute
	}
	return max(lasts, time.Hour)
}

// checkKept holds that the store has all that is kept, and lets the oracle forget the rest.
func (b *box) checkKept() {
	stored := b.stores.Stored()
	o := b.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	for s, all := range o.versions {
		if last := all[len(all)-1]; !o.mayHide(s) && stored[s.stored()] != last.value {
			b.fail("the store has %v for %v instead of %v, which is kept", stored[s.stored()], s, last.value)
		}
	}
	maps.DeleteFunc(o.versions, func(s series, _ []version) bool { return o.mayHide(s) })
	for device, all := range o.byDevice {
		o.byDevice[device] = slices.DeleteFunc(all, o.mayHide)
	}
}

// checkMonths holds that no container stays for long that no tenant keeps.
func (b *box) checkMonths() {
	for name := range b.account.containers {
		_, span, ok := sharding.ParseContainer(name)
		if ok && time.UnixMilli(span.Range().To).AddDate(0, gapMonths, 0).Before(time.Now()) {
			b.fail("%s is still there", name)
		}
	}
}
