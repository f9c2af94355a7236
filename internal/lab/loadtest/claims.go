package loadtest

import (
	"fmt"
	"math"
	"slices"
)

// untrue returns what the verdict says that the figures do not bear out. Figures in it are those of the results; what
// is checked here are its words.
func (r Report) untrue() (faults []string) {
	for _, o := range r.Outcomes {
		var before Result
		for _, x := range o.Results {
			for _, s := range x.untrue(o.Scenario, before) {
				faults = append(faults, fmt.Sprintf("%s, %s: it is not true that %s", o.Scenario, x.Layout.about(), s))
			}
			if x.Layout == Binnacle {
				before = x
			}
		}
	}
	if r.Reads == nil {
		return faults
	}
	own := own(r.Reads)
	if own.Panel.Keys < r.PhysicalPartitions {
		faults = append(faults, "reads: it is not true that the tenant is asked in each physical partition")
	}
	for _, x := range r.Reads.Layouts {
		if x.Layout.sampled() && x.Day.RUs <= own.Day.RUs {
			faults = append(faults, "reads: it is not true that a day costs less than in a document per "+x.Layout.about())
		}
	}
	return faults
}

// untrue returns what is not true of a result; before is Binnacle's without the balancer.
func (r Result) untrue(s Scenario, before Result) (faults []string) {
	claim := func(holds bool, format string, args ...any) {
		if !holds {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	if n := float64(len(r.Spread)); n > 0 {
		claim(math.Abs(slices.Max(r.Spread)*n-r.Hottest) < 0.01, "the hottest physical partition has %s of the RU",
			percent(r.Hottest/n))
	}
	if !r.Layout.chunked() && r.lost() < hardlyAny && r.Trace != nil {
		refused := r.Trace.share(Refused)
		claim(refused <= 2*hardlyAny, "all readings are accepted: %s of those marked are not", percent(refused))
	}
	if r.Enough != nil && !s.surges() {
		claim(r.Enough.missing(r) < hardlyAny, "%s RU/s are enough: %s of the readings are accepted", number(r.Enough.RUs),
			percent(1-r.Enough.missing(r)))
	}
	if r.Panels != nil {
		claim(r.Panels.Share < 1, "panels take %s of all RU", percent(r.Panels.Share))
	}
	if r.Layout.chunked() && r.Panels != nil {
		claim(r.Panels.Refused == 0, "all panels are answered: %d are refused", r.Panels.Refused)
	}
	if r.Layout == Balanced && before.Layout == Binnacle && len(r.Days) == 0 {
		claim(r.Keys != nil || before.Hottest <= mostHottest,
			"the load is even: the hottest partition has %.2f times the mean", before.Hottest)
		claim(r.Hottest <= before.Hottest+0.01, "the balancer evens the load, from %.2f to %.2f", before.Hottest, r.Hottest)
	}
	return faults
}

// share returns the share of the marked readings that have a fate.
func (t *Trace) share(f Fate) float64 {
	n := 0
	for _, m := range t.Marks {
		if Fate(m[2]) == f {
			n++
		}
	}
	return float64(n) / float64(max(1, len(t.Marks)))
}
