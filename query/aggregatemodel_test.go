package query_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/merge"

	"github.com/stretchr/testify/require"
)

// aggregateCase is a request, and what the model needs to answer it.
type aggregateCase struct {
	request query.Request
	asked   query.Aggregation
	names   []string
	step    time.Duration
	unit    merge.Unit
	zone    *time.Location
	right   bool
	given   telemetry.Range
}

var allAggregates = []string{"count", "min", "max", "sum", "avg", "first", "last", "stddev", "median", "p0", "p10",
	"p99.9", "p100", "rate", "increase", "delta", "time_avg"}

func randomCase(t *testing.T, rnd *rand.Rand) aggregateCase {
	c := aggregateCase{request: query.Request{Tenant: "acme"}, right: rnd.IntN(2) == 0}
	c.given.From = summer.UnixMilli() + rnd.Int64N(30)*600_000
	c.given.To = c.given.From + rnd.Int64N(72*3_600_000)
	if rnd.IntN(2) == 0 {
		c.request.Devices = []string{"m1", modelDevices[rnd.IntN(len(modelDevices))]}
	}
	if rnd.IntN(2) == 0 {
		c.request.Metrics = []string{"a", "velocity"}
	}
	var err error
	if rnd.IntN(2) == 0 {
		c.unit = merge.Units[rnd.IntN(len(merge.Units))]
		c.zone, err = time.LoadLocation([]string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"}[rnd.IntN(4)])
		require.NoError(t, err)
		c.asked.Buckets, err = merge.EveryUnit(merge.Bounds{Range: c.given, Right: c.right, Most: 11_000}, c.unit, c.zone)
	} else {
		c.step = []time.Duration{0, 7 * time.Minute, time.Hour, 24 * time.Hour}[rnd.IntN(4)]
		c.asked.Buckets, err = merge.EveryStep(merge.Bounds{Range: c.given, Right: c.right, Most: 11_000}, c.step)
	}
	require.NoError(t, err)
	c.request.Range = c.asked.Buckets.Held(c.given)
	c.names = [][]string{allAggregates, {"min", "count", "avg"}, {"last", "first"}, {"sum"}}[rnd.IntN(4)]
	for _, name := range c.names {
		a, err := merge.ParseAggregate(name)
		require.NoError(t, err)
		c.asked.Aggregates = append(c.asked.Aggregates, a)
	}
	c.asked.By = []*query.By{nil, {}, {Device: true}, {Labels: []string{"axis"}}, {Tags: []string{"fleet"}},
		{Device: true, Labels: []string{"axis", "none"}, Tags: []string{"site", "fleet"}}}[rnd.IntN(6)]
	c.asked.Fill = merge.Fills[rnd.IntN(4)]
	return c
}

// sample is a value of the model.
type sample struct {
	at   int64
	text bool
	v    float64
}

// modelRow is an aggregate as the model has it.
type modelRow struct {
	group      string
	start, end int64
	values     []float64
}

func nameOf(a query.Aggregated) string { return groupName(a.Device, a.Labels, a.Tags, a.Metric) }

func groupName(device string, labels, tags telemetry.Labels, metric string) string {
	return fmt.Sprintf("%s %v %v %s", device, labels.Map(), tags.Map(), metric)
}

// edges is the bucket that an instant lies in, without what the code under test knows of buckets.
func (c *aggregateCase) edges(at int64) (start, end int64) {
	if c.right {
		at--
	}
	if c.unit == "" {
		if c.step == 0 {
			return c.given.From, c.given.To
		}
		start = at - (at-c.given.From)%c.step.Milliseconds()
		return start, min(start+c.step.Milliseconds(), c.given.To)
	}
	y, m, d := time.UnixMilli(at).In(c.zone).Date()
	switch c.unit {
	case merge.Week:
		for time.Date(y, m, d, 12, 0, 0, 0, c.zone).Weekday() != time.Monday {
			d--
		}
	case merge.Month:
		d = 1
	case merge.Quarter:
		for m%3 != 1 {
			m--
		}
		d = 1
	case merge.Year:
		m, d = 1, 1
	}
	days, months := 0, 0
	switch c.unit {
	case merge.Day:
		days = 1
	case merge.Week:
		days = 7
	default:
		months = map[merge.Unit]int{merge.Month: 1, merge.Quarter: 3, merge.Year: 12}[c.unit]
	}
	return time.Date(y, m, d, 0, 0, 0, 0, c.zone).UnixMilli(),
		time.Date(y, m+time.Month(months), d+days, 0, 0, 0, 0, c.zone).UnixMilli()
}

// cell is what the model knows of a group in a bucket.
type cell struct {
	end                                 int64
	samples                             []sample // with device and labels in order
	pairs                               int
	increase, delta, rate, area, passed float64
}

func (c *aggregateCase) of(truth truth) (rows []modelRow) {
	type series struct{ device, labels, metric string }
	all := make(map[series][]sample)
	sets := make(map[series]telemetry.Labels)
	for at, last := range truth {
		if !c.request.Range.Contains(at.time) ||
			(c.request.Devices != nil && !slices.Contains(c.request.Devices, at.device)) ||
			(c.request.Metrics != nil && !slices.Contains(c.request.Metrics, at.metric)) {
			continue
		}
		of := series{at.device, at.labels, at.metric}
		sets[of] = last.labels
		s := sample{at: at.time}
		switch last.value.Kind() {
		case telemetry.Text:
			s.text = true
		case telemetry.Float:
			s.v = last.value.Float()
		default:
			s.v = float64(int64(last.value.Bits()))
		}
		if !math.IsNaN(s.v) && !math.IsInf(s.v, 0) {
			all[of] = append(all[of], s)
		}
	}
	type group struct {
		name         string
		device       string
		labels, tags telemetry.Labels
		metric       string
	}
	groups := make(map[string]group)
	cells := make(map[string]map[int64]*cell)
	for _, of := range slices.SortedFunc(maps.Keys(all), func(a, b series) int {
		return cmp.Or(strings.Compare(a.device, b.device), sets[a].Compare(sets[b]), strings.Compare(a.metric, b.metric))
	}) {
		g := group{device: of.device, labels: sets[of], metric: of.metric}
		if by := c.asked.By; by != nil {
			if !by.Device {
				g.device = ""
			}
			g.labels, g.tags = kept(sets[of], by.Labels), kept(telemetry.LabelsOf(modelTags[of.device]), by.Tags)
		}
		g.name = groupName(g.device, g.labels, g.tags, g.metric)
		groups[g.name] = g
		if cells[g.name] == nil {
			cells[g.name] = make(map[int64]*cell)
		}
		c.addSeries(cells[g.name], all[of])
	}
	for _, g := range slices.SortedFunc(maps.Values(groups), func(a, b group) int {
		return cmp.Or(strings.Compare(a.device, b.device), a.labels.Compare(b.labels), a.tags.Compare(b.tags),
			strings.Compare(a.metric, b.metric))
	}) {
		rows = append(rows, c.rows(g.name, cells[g.name])...)
	}
	return rows
}

func kept(l telemetry.Labels, names []string) telemetry.Labels {
	return slices.DeleteFunc(slices.Clone(l), func(x telemetry.Label) bool { return !slices.Contains(names, x.Name) })
}

func (c *aggregateCase) addSeries(cells map[int64]*cell, all []sample) {
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	type rise struct{ sum, from, to float64 }
	rises := make(map[int64]*rise)
	var before *sample
	for i := range all {
		s := &all[i]
		start, end := c.edges(s.at)
		if cells[start] == nil {
			cells[start] = &cell{end: end}
		}
		in := cells[start]
		in.samples = append(in.samples, *s)
		if s.text {
			continue
		}
		if before != nil {
			rose := s.v - before.v
			in.delta += rose
			if rose < 0 {
				rose = s.v
			}
			in.increase += rose
			in.pairs++
			if rises[start] == nil {
				rises[start] = &rise{from: float64(before.at)}
			}
			rises[start].sum, rises[start].to = rises[start].sum+rose, float64(s.at)
			was, wasEnd := c.edges(before.at)
			if was == start {
				in.area += before.v * float64(s.at-before.at)
				in.passed += float64(s.at - before.at)
			} else {
				cells[was].area += before.v * float64(wasEnd-before.at)
				cells[was].passed += float64(wasEnd - before.at)
				in.area += before.v * float64(s.at-start)
				in.passed += float64(s.at - start)
			}
		}
		before = s
	}
	for start, r := range rises {
		cells[start].rate += r.sum / (r.to - r.from) * 1000
	}
}

// rows are the buckets of a group, filled.
func (c *aggregateCase) rows(name string, cells map[int64]*cell) (out []modelRow) {
	for _, start := range slices.Sorted(maps.Keys(cells)) {
		row := modelRow{group: name, start: start, end: cells[start].end}
		for _, a := range c.names {
			row.values = append(row.values, cells[start].value(a))
		}
		out = append(out, row)
	}
	if c.asked.Fill == merge.NoFill {
		return out
	}
	there := make(map[int64]modelRow)
	for _, r := range out {
		there[r.start] = r
	}
	out = nil
	for at := c.given.From; at < c.given.To; {
		first := at
		if c.right {
			first++
		}
		start, end := c.edges(first)
		row, ok := there[start]
		if !ok {
			row = modelRow{group: name, start: start, end: end}
			for range c.names {
				row.values = append(row.values, math.NaN())
			}
		}
		out = append(out, row)
		at = end
	}
	filled := make([]modelRow, len(out))
	for i := range out {
		filled[i] = out[i]
		filled[i].values = slices.Clone(out[i].values)
		for k, a := range c.names {
			if math.IsNaN(out[i].values[k]) {
				filled[i].values[k] = c.filled(out, i, k, a)
			}
		}
	}
	return filled
}

func (c *aggregateCase) filled(rows []modelRow, i, k int, name string) float64 {
	if name == "count" {
		return 0
	}
	before, after := i-1, i+1
	for before >= 0 && math.IsNaN(rows[before].values[k]) {
		before--
	}
	for after < len(rows) && math.IsNaN(rows[after].values[k]) {
		after++
	}
	switch {
	case c.asked.Fill == merge.FillPrevious && before >= 0:
		return rows[before].values[k]
	case c.asked.Fill == merge.FillLinear && before >= 0 && after < len(rows):
		x0, x1 := float64(rows[before].start), float64(rows[after].start)
		y0, y1 := rows[before].values[k], rows[after].values[k]
		return y0 + (y1-y0)*(float64(rows[i].start)-x0)/(x1-x0)
	}
	return math.NaN()
}

func (c *cell) value(name string) float64 {
	var numbers []float64
	var first, last sample
	for _, s := range c.samples {
		if s.text {
			continue
		}
		if len(numbers) == 0 || s.at < first.at {
			first = s
		}
		if len(numbers) == 0 || s.at >= last.at {
			last = s
		}
		numbers = append(numbers, s.v)
	}
	if name == "count" {
		return float64(len(c.samples))
	}
	if len(numbers) == 0 || (c.pairs == 0 && slices.Contains([]string{"rate", "increase", "delta"}, name)) {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range numbers {
		sum += x
	}
	mean := sum / float64(len(numbers))
	switch name {
	case "min":
		return slices.Min(numbers)
	case "max":
		return slices.Max(numbers)
	case "sum":
		return sum
	case "avg":
		return mean
	case "first":
		return first.v
	case "last":
		return last.v
	case "stddev":
		squares := 0.0
		for _, x := range numbers {
			squares += (x - mean) * (x - mean)
		}
		return math.Sqrt(squares / float64(len(numbers)))
	case "rate":
		return c.rate
	case "increase":
		return c.increase
	case "delta":
		return c.delta
	case "time_avg":
		if c.passed == 0 {
			return mean
		}
		return c.area / c.passed
	}
	q := map[string]float64{"median": 0.5, "p0": 0, "p10": 0.1, "p99.9": 0.999, "p100": 1}[name]
	slices.Sort(numbers)
	at := q * float64(len(numbers)-1)
	i := int(at)
	if i == len(numbers)-1 {
		return numbers[i]
	}
	return numbers[i] + (numbers[i+1]-numbers[i])*(at-float64(i))
}
