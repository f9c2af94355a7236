package simulation_test

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"binnacle/internal/provision"

	"github.com/stretchr/testify/require"
)

var seeds = flag.Int("years.seeds", 1, "random fleets that TestYears runs two years of")

// outcome is what two years cost.
type outcome struct {
	seed                     int
	bill, flat, auto, oracle bill
	manual                   bill // of an oracle with manual throughput alone
	asked, refused           float64
	containers               int
	faults                   []string
}

func rule() provision.Policy {
	p := provision.DefaultPolicy()
	follow := provision.DefaultFollow()
	p.Follow, p.WarmRUs, p.ColdRUs = &follow, 400, 400
	return p
}

// ratio returns a bill over that of the oracle.
func (o outcome) ratio(b bill) float64 { return b.all() / o.oracle.all() }

func (o outcome) String() string {
	return fmt.Sprintf("%.3f of the oracle's; flat %.3f, autoscale %.3f; %.4f %% refused; %d containers",
		o.ratio(o.bill), o.ratio(o.flat), o.ratio(o.auto), 100*o.refused/o.asked, o.containers)
}

func yearsOf(policy provision.Policy, seed int) (out outcome) {
	w := newWorld(policy, uint64(seed))
	w.run()
	o, manual := &oracle{}, &oracle{manual: true}
	for _, c := range w.all {
		out.asked, out.refused = out.asked+c.total, out.refused+c.refused
		o.add(c)
		manual.add(c)
	}
	out.seed, out.bill, out.faults, out.containers = seed, w.sum, w.faults, len(w.all)
	out.oracle, out.manual = o.bill(0.001), manual.bill(0.001)
	out.flat, out.auto = others(w.all)
	return out
}

// TestYears runs two years of random fleets: growth, seasons, a tenant that explodes, one that leaves, one that gets
// its own containers and goes back, a storm of late data. Every reading within its retention is answered, nothing
// else is, what is expired is dropped, and the bill is near that of an oracle.
func TestYears(t *testing.T) {
	all := make([]outcome, *seeds)
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := range next {
				all[s] = yearsOf(rule(), s)
			}
		})
	}
	for s := range all {
		next <- s
	}
	close(next)
	wg.Wait()
	for _, o := range all {
		t.Logf("seed %3d: $%6.0f (%6.0f of it storage) %s", o.seed, o.bill.all(), o.bill.storage, o)
		require.Empty(t, o.faults[:min(5, len(o.faults))], "seed %d", o.seed)
		require.Less(t, o.refused, 0.001*o.asked, "seed %d", o.seed)
		require.LessOrEqual(t, o.ratio(o.bill), 1.10, "seed %d", o.seed)
	}
	worst := slices.MaxFunc(all, func(a, b outcome) int { return cmp.Compare(a.ratio(a.bill), b.ratio(b.bill)) })
	t.Logf("worst: seed %d, %s", worst.seed, worst)
	for _, x := range []struct {
		name string
		of   func(o outcome) float64
	}{
		{"the rule", func(o outcome) float64 { return o.ratio(o.bill) }},
		{"the rule, throughput alone", func(o outcome) float64 { return o.bill.throughput / o.oracle.throughput }},
		{"flat for the peak", func(o outcome) float64 { return o.ratio(o.flat) }},
		{"autoscale alone", func(o outcome) float64 { return o.ratio(o.auto) }},
		{"oracle, manual alone", func(o outcome) float64 { return o.ratio(o.manual) }},
		{"refused, percent", func(o outcome) float64 { return 100 * o.refused / o.asked }},
	} {
		var values []float64
		for _, o := range all {
			values = append(values, x.of(o))
		}
		slices.Sort(values)
		n := len(values)
		t.Logf("%-27s median %.3f, p95 %.3f, worst %.3f", x.name, values[n/2], values[n*95/100], values[n-1])
	}
}
