package measured

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"binnacle/internal/lab/planner"
	"binnacle/internal/telemetry"
)

// device sums the sampled readings of a device.
type device struct {
	tenant string
	// times has the instants of readings in time, history the instants of late readings.
	times, history []int64
	late           int
	metrics        map[string]*metric
	// bytes and values count encoded values, without the overhead of documents.
	bytes, values float64
}

// metric sums the sampled values of a metric of a device.
type metric struct {
	kind      telemetry.Kind
	count     int
	last      float64
	changes   int
	decreases bool
	// parts reports values that are not whole: JSON has no integers.
	parts bool
}

// see counts a value. The values of a metric must come in the order of time.
func (d *device) see(name string, v telemetry.Value) {
	at := float64(0)
	switch v.Kind() {
	case telemetry.Int:
		at = float64(v.Int())
	case telemetry.Float:
		at = v.Float()
	}
	if d.metrics == nil {
		d.metrics = map[string]*metric{}
	}
	m := d.metrics[name]
	if m == nil {
		m = &metric{kind: v.Kind(), last: at}
		d.metrics[name] = m
	}
	m.count++
	m.parts = m.parts || at != math.Trunc(at)
	m.decreases = m.decreases || at < m.last
	if at != m.last {
		m.changes++
	}
	m.last = at
}

func (m *metric) of() string {
	switch {
	case m.kind == telemetry.Bool:
		return "bool"
	case m.kind == telemetry.Text:
		return "text"
	case m.parts || m.decreases && 4*m.changes > m.count:
		return "gauge"
	case m.decreases || m.changes == 0:
		return "state"
	}
	return "counter"
}

// interval returns the mean time between two readings of the device; least for one that was seen once.
func (d *device) interval(least time.Duration) time.Duration {
	n := len(d.times) - 1
	first, last := d.times[0], d.times[n]
	if last == first {
		return max(least, time.Second)
	}
	return max(10*time.Millisecond, time.Duration(float64(last-first)/float64(n)*float64(time.Millisecond)))
}

// basis describes the sample behind the figures of fleets.
type basis struct {
	records string
	// span is the time that the sample covers. A device with one reading reports less often.
	span time.Duration
}

// mostFleets bounds the fleets of a workload; fleets joins the smallest ones.
const mostFleets = 8

// fleets groups devices that report the same metrics about as often.
func fleets(devices []*device, of basis) []planner.Fleet {
	groups := map[string][]*device{}
	late, all := 0, 0
	for _, d := range devices {
		if len(d.times) == 0 { // a backfill: its readings are old rather than late
			d.times, d.late = d.history, 0
		}
		slices.Sort(d.times)
		d.times = slices.Compact(d.times) // records of the same instant become one row
		late, all = late+d.late, all+d.late+len(d.times)
		if len(d.times) == 0 {
			continue
		}
		class := math.Round(math.Log2(d.interval(of.span).Seconds()))
		key := fmt.Sprint(class, " ", strings.Join(slices.Sorted(maps.Keys(d.metrics)), " "))
		groups[key] = append(groups[key], d)
	}
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), strings.Compare(a, b))
	})
	var out []planner.Fleet
	for i, key := range keys {
		group := groups[key]
		if i == mostFleets-1 {
			for _, rest := range keys[mostFleets:] {
				group = append(group, groups[rest]...)
			}
		} else if i == mostFleets {
			break
		}
		f := fleet(group, of)
		f.Name = fmt.Sprintf("fleet-%d", i+1)
		f.Late = planner.Share(float64(late)/float64(max(1, all)), of.records)
		out = append(out, f)
	}
	return out
}

// fleet joins devices into one fleet. The interval of the fleet keeps the sum of their readings a second.
func fleet(devices []*device, of basis) planner.Fleet {
	n, rate, readings, bytes, values := float64(len(devices)), 0.0, 0.0, 0.0, 0.0
	kinds := map[string]float64{}
	for _, d := range devices {
		rate += 1 / d.interval(of.span).Seconds()
		readings += float64(len(d.times) + d.late)
		bytes, values = bytes+d.bytes, values+d.values
		for _, m := range d.metrics {
			kinds[m.of()] += float64(m.count)
		}
	}
	f := planner.Fleet{Devices: planner.Number(n, of.records), Metrics: map[string]planner.Quantity{},
		Interval: planner.Period(time.Duration(n/rate*float64(time.Second)).Round(time.Millisecond), of.records)}
	most := ""
	for kind, count := range kinds {
		if most == "" || count > kinds[most] || count == kinds[most] && kind < most {
			most = kind
		}
		if each := math.Round(count / readings); each >= 1 {
			f.Metrics[kind] = planner.Number(min(each, 1000), of.records)
		}
	}
	if len(f.Metrics) == 0 {
		f.Metrics[most] = planner.Number(1, of.records)
	}
	if values > 0 {
		f.Bytes = planner.Number(bytes/values, fmt.Sprintf("%.0f encoded values", values))
	}
	return f
}

func tenants(devices []*device, of string) planner.Tenants {
	sums := map[string]float64{}
	for _, d := range devices {
		sums[d.tenant]++
	}
	largest := slices.Max(slices.Collect(maps.Values(sums)))
	return planner.Tenants{Count: planner.Number(float64(len(sums)), of),
		Largest: planner.Share(largest/float64(len(devices)), of)}
}
