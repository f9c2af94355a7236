package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/telemetry"
)

// Day is one day of a scenario that lasts several.
type Day struct {
	// Hottest is the load of the hottest physical partition over the mean, by request units.
	Hottest float64 `json:"hottest_over_mean"`
	// Keys is how many keys Binnacle has for the tenant of the scenario.
	Keys int `json:"keys_of_tenant,omitempty"`
}

// days returns the days of a pass that has columns of hours, nil for others.
func (p pass) days(t totals) (out []Day) {
	if !p.cfg.sliced {
		return nil
	}
	columns := len(t.trace.rates[0])
	hours := int(p.cfg.settles() / time.Hour) // hours that are over when the window opens
	last := 0
	for from := 0; from < columns; from = last {
		last = min(from+24-(hours+from)%24, columns)
		var sum, most float64
		for _, rates := range t.trace.rates {
			rus := 0.0
			for _, v := range rates[from:last] {
				rus += v
			}
			sum, most = sum+rus, max(most, rus)
		}
		day := Day{Hottest: round(most / sum * float64(len(t.trace.rates)))}
		if len(out) < len(t.keys) {
			day.Keys = t.keys[len(out)]
		}
		out = append(out, day)
	}
	return out
}

// keysByDay returns how many keys the largest tenant has on each day from the first on.
func keysByDay(dir *control.Directory, from, to telemetry.Day) (out []int) {
	for _, t := range dir.Snapshot().Tenants() {
		for at := from; t.Name == largestTenant && at <= to; at++ {
			out = append(out, len(t.Placement.EpochOn(at).Slots))
		}
	}
	return out
}

func (r Result) byDay() string {
	var hottest, keys []string
	for _, d := range r.Days {
		hottest = append(hottest, fmt.Sprintf("%.2f", d.Hottest))
		keys = append(keys, fmt.Sprint(d.Keys))
	}
	text := "Day by day the hottest physical partition has " + list(hottest) + " times the mean"
	if r.Layout.chunked() {
		text += ", and " + largestTenant + " has " + list(keys) + " keys"
	}
	return text + "."
}

func list(all []string) string {
	last := len(all) - 1
	if len(slices.Compact(slices.Clone(all))) == 1 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}
