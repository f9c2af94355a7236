package loadtest

import (
	"fmt"
	"slices"
)

// What Check holds a report to.
const (
	mostHottest = 1.2 // hottest over mean once the balancer has decided: its bar for 1,000 devices
	// mostThrottled bounds the share of requests answered 429.
	mostThrottled = 0.005
	overForeseen  = 1.2  // times what a foreseen placement has answered 429, in scenarios that are not steady
	mostWaited    = 60   // seconds
	leastSaved    = 200  // times what a value takes in a document per reading, at ten seconds or less
	checkedPace   = 10   // seconds
	checkedHold   = 3600 // seconds
)

// Check returns what of Binnacle's promises the figures of a traced report do not keep. Charges are only held to a bar
// where devices report at least every ten seconds and wait for an hour: slower ones fill smaller chunks.
func (r Report) Check() (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	least := 0.0 // lowest RU of a layout with a document per reading
	for _, o := range r.Outcomes {
		for _, x := range o.Results {
			if x.Layout.sampled() && (least == 0 || x.PerMillion < least) {
				least = x.PerMillion
			}
		}
	}
	for _, o := range r.Outcomes {
		throttled := o.mostThrottled()
		for _, x := range o.Results {
			if !x.Layout.chunked() {
				continue
			}
			of := fmt.Sprintf("%s, %s", o.Scenario, x.Layout.about())
			if x.Layout == Balanced && o.Scenario.placed() && x.Hottest > mostHottest {
				fault("%s: the hottest physical partition has %.2f times the mean, more than %.2f", of, x.Hottest, mostHottest)
			}
			if x.Throttled > throttled {
				fault("%s: %s of the requests were answered 429, more than %s", of, percent(x.Throttled), percent(throttled))
			}
			if x.Trace != nil && slices.Max(x.Trace.Waited) > mostWaited {
				fault("%s: a write waited for %.0f s, more than %d s", of, slices.Max(x.Trace.Waited), mostWaited)
			}
			if x.Layout == Balanced {
				faults = append(faults, follow(of, x.Days)...)
			}
			full := o.Scenario != MonthRoll // else chunks are short
			if full && r.IntervalSeconds <= checkedPace && r.HoldSeconds >= checkedHold && least < leastSaved*x.PerMillion {
				fault("%s: a value takes 1/%.0f of what it takes in a document per reading, more than 1/%d", of,
					least/x.PerMillion, leastSaved)
			}
		}
	}
	return faults
}

// mostThrottled returns the share of Binnacle's requests that may be answered 429. Where more comes than is foreseen,
// it is a fifth more than with keys that were placed for that load, if the balancer's were.
func (o Outcome) mostThrottled() float64 {
	most := mostThrottled
	for _, x := range o.Results {
		if x.Layout == Balanced && o.Scenario.surges() && o.Scenario.placed() {
			most = max(most, overForeseen*x.Throttled)
		}
	}
	return most
}

// follow reports days on which keys have not followed the load: from the second day on the balancer has seen it grow.
func follow(of string, days []Day) (faults []string) {
	for i, d := range days {
		if i > 0 && d.Hottest > mostHottest {
			faults = append(faults, fmt.Sprintf("%s: on day %d the hottest physical partition has %.2f times the mean, "+
				"more than %.2f", of, i+1, d.Hottest, mostHottest))
		}
	}
	if n := len(days); n > 0 && days[n-1].Keys <= days[0].Keys {
		faults = append(faults, fmt.Sprintf("%s: %s has %d keys in the end, no more than before", of, largestTenant,
			days[n-1].Keys))
	}
	return faults
}
