package httpapi

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // where a machine has no time zones

	"binnacle/internal/telemetry"
	"binnacle/internal/text/duration"
	"binnacle/query"
	"binnacle/query/merge"
)

// Bounds of a request for aggregates.
const (
	maxAggregates = 20
	maxBy         = 20
)

// groupedOnly are the parameters that ask for aggregates of groups: numbers of all types together, and any aggregate.
var groupedOnly = []string{"aggregate", "by", "fill", "closed", "tz"}

// dimension is what one part of a group's key is made of.
type dimension struct{ kind, name string }

// The kinds of dimensions.
const (
	byDevice = "device"
	byMetric = "metric"
	byLabel  = "label"
	byTag    = "tag"
)

func (d dimension) String() string {
	if d.name == "" {
		return d.kind
	}
	return d.kind + ":" + d.name
}

// of returns a group's value of the dimension; ok is false where it has none.
func (d dimension) of(x *query.Aggregated) (v string, ok bool) {
	switch d.kind {
	case byDevice:
		return x.Device, true
	case byTag:
		return x.Tags.Get(d.name)
	}
	return x.Labels.Get(d.name)
}

func (p *params) isGrouped() bool {
	unit := slices.Contains(merge.Units, merge.Unit(p.values.Get("step")))
	return unit || slices.ContainsFunc(groupedOnly, p.values.Has)
}

func (a *api) grouped(w *response, p *params, q query.Request) error {
	ask, by := p.aggregation(&q)
	list := records{w: w, asked: q, name: "aggregates"}
	list.format, list.limit = p.format(parquetFormat)
	if p.err != nil {
		return p.err
	}
	list.fields = groupedFields(by, ask.Aggregates)
	var cells []cell
	return a.list(&list, p.request, func() (query.Result, error) {
		return a.cfg.Querier.Aggregates(p.request.Context(), q, ask, func(x query.Aggregated) error {
			cells = appendGrouped(cells[:0], by, &x)
			return list.record(cells...)
		})
	})
}

// groupedFields returns the fields of aggregates of groups: by the dimensions, nil for each series alone.
func groupedFields(by []dimension, aggregates []query.Aggregate) fields {
	places := [2]place{onlyInJSON, onlyInJSON} // of device and labels
	if by == nil {
		places = [2]place{}
	}
	out := fields{{name: "device", kind: nameField, in: places[0]}, {name: "start", kind: instantField},
		{name: "end", kind: instantField}, {name: "labels", kind: labelsField, in: places[1]},
		{name: "tags", kind: labelsField, in: onlyInJSON}}
	for _, d := range by {
		one := field{name: d.String(), kind: tagField, in: onlyInTables}
		if d.kind == byDevice {
			one.kind = nameField
		}
		out = append(out, one)
	}
	out = append(out, field{name: "metric", kind: nameField})
	for _, a := range aggregates {
		out = append(out, field{name: a.String(), kind: floatField})
	}
	return out
}

func appendGrouped(cells []cell, by []dimension, x *query.Aggregated) []cell {
	cells = append(cells, optionalCell(x.Device, x.Device != ""), intCell(x.Start), intCell(x.End), labelsCell(x.Labels),
		labelsCell(x.Tags))
	for _, d := range by {
		cells = append(cells, optionalCell(d.of(x)))
	}
	cells = append(cells, textCell(x.Metric))
	for _, v := range x.Values {
		one := cell{}
		if !math.IsNaN(v) {
			one.Value = telemetry.FloatValue(v)
		}
		cells = append(cells, one)
	}
	return cells
}

// aggregation returns the requested aggregation. It narrows q.Range to the instants that the buckets hold.
func (p *params) aggregation(q *query.Request) (ask query.Aggregation, by []dimension) {
	ask.Aggregates = p.aggregates()
	ask.By, by = p.by()
	ask.Fill = merge.Fill(p.word("fill", words(merge.Fills)...))
	right := p.word("closed", "left", "right") == "right"
	if p.err == nil {
		ask.Buckets = p.buckets(q.Range, right)
	}
	if p.err == nil && ask.Fill != merge.NoFill && !p.values.Has("step") {
		p.fail("fill", "is allowed only with a step")
	}
	if p.err == nil {
		q.Range = ask.Buckets.Held(q.Range)
	}
	return ask, by
}

func words[T ~string](all []T) (out []string) {
	for _, x := range all {
		out = append(out, string(x))
	}
	return out
}

func (p *params) aggregates() (out []query.Aggregate) {
	names := p.list("aggregate", maxAggregates)
	if names == nil {
		return merge.PlainAggregates()
	}
	for _, name := range names {
		one, err := merge.ParseAggregate(name)
		if err != nil {
			p.fail("aggregate", "%.100q; %v", name, err)
		}
		out = append(out, one)
	}
	return out
}

// list returns the values of a parameter that may be repeated and may have several values with commas between them,
// each once.
func (p *params) list(name string, most int) (out []string) {
	for _, value := range p.values[name] {
		out = append(out, strings.Split(value, ",")...)
	}
	if len(out) > most {
		p.fail(name, "has %d values; up to %d may be", len(out), most)
	}
	return inOrder(out)
}

// by returns the dimensions of groups; nil makes each series a group.
func (p *params) by() (by *query.By, out []dimension) {
	if !p.values.Has("by") {
		return nil, nil
	}
	by, out = &query.By{}, []dimension{} // grouping by the metric alone differs from no grouping
	for _, given := range p.list("by", maxBy) {
		kind, name, named := strings.Cut(given, ":")
		switch {
		case kind == byMetric && !named: // groups differ by it in any case
			continue
		case kind == byDevice && !named:
			by.Device = true
		case kind == byLabel && name != "":
			by.Labels = append(by.Labels, name)
		case kind == byTag && name != "":
			by.Tags = append(by.Tags, name)
		default:
			p.fail("by", "%.100q; allowed are device, label:NAME, tag:NAME and metric (groups differ by metric in any case)",
				given)
		}
		out = append(out, dimension{kind, name})
	}
	return by, out
}

// buckets returns the buckets of a step: a length of time, or a unit of the calendar in a time zone.
func (p *params) buckets(r telemetry.Range, right bool) (b query.Buckets) {
	step, unit := time.Duration(0), merge.Unit(p.values.Get("step"))
	if p.values.Has("tz") && unit == "1d" {
		unit = merge.Day
	}
	isUnit := slices.Contains(merge.Units, unit)
	if p.values.Has("tz") && !isUnit {
		p.fail("tz", "is allowed only with a step of the calendar: %s", strings.Join(words(merge.Units), ", "))
		return b
	}
	if !isUnit {
		step = p.step()
	}
	zone := p.zone()
	if p.err != nil {
		return b
	}
	var err error
	if isUnit {
		b, err = merge.EveryUnit(merge.Bounds{Range: r, Right: right, Most: maxBuckets}, unit, zone)
	} else {
		b, err = merge.EveryStep(merge.Bounds{Range: r, Right: right, Most: maxBuckets}, step)
	}
	if many, ok := errors.AsType[*merge.TooManyBuckets](err); ok {
		p.fail("step", "%v", many)
	}
	return b
}

// step returns a length of time in whole milliseconds, 0 if it is absent.
func (p *params) step() time.Duration {
	if !p.values.Has("step") {
		return 0
	}
	step, err := duration.Parse(p.values.Get("step"))
	switch {
	case err != nil || step <= 0 || step > maxStep:
		p.fail("step", "%.100q; allowed is a duration like 10s or 5m, at most %s, and %s", p.values.Get("step"),
			duration.String(maxStep), strings.Join(words(merge.Units), ", "))
	case step%time.Millisecond != 0:
		p.fail("step", "%s is not a whole number of milliseconds", p.values.Get("step"))
	}
	return step
}

func (p *params) zone() *time.Location {
	if !p.values.Has("tz") {
		return time.UTC
	}
	name := p.values.Get("tz")
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		p.fail("tz", "%.100q; allowed is a name of the IANA time zone database, such as Europe/Berlin", name)
	}
	return zone
}
