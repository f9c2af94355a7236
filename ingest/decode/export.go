package decode

import (
	"encoding/binary"
	"math"
	"strconv"

	"binnacle/internal/telemetry"
)

// metricKind is the kind of an OTLP metric, as the number of its protobuf field.
type metricKind int32

const (
	noMetric    metricKind = 0
	gauge       metricKind = 5
	sum         metricKind = 7
	histogram   metricKind = 9
	exponential metricKind = 10
	summary     metricKind = 11
)

// deltaTemporality is the number of AGGREGATION_TEMPORALITY_DELTA.
const deltaTemporality = 1

// noRecordedValue is the flag of a data point without a value.
const noRecordedValue = 1

// dataPoint is a data point of any kind of metric, in either encoding.
type dataPoint struct {
	time          uint64 // nanoseconds since 1970, 0 for none
	flags         uint64
	value         telemetry.Value
	count         uint64
	sum, min, max telemetry.Value
	buckets       []uint64
	bounds        []uint64 // bits of float64
	quantiles     []quantile
	labels        telemetry.Labels
	fault         *fault
}

type quantile struct{ quantile, value float64 }

func (p *dataPoint) clear() {
	*p = dataPoint{buckets: p.buckets[:0], bounds: p.bounds[:0], quantiles: p.quantiles[:0]}
}

// export is the state of reading an OTLP export: its resource, metric and data point.
type export struct {
	resource *resource
	source   int32  // a number for the resource
	sender   int32  // a number for its device
	index    int    // the next data point's in the payload
	fault    *fault // why the data points of the resource, or of the metric, are not taken
	reported bool   // the fault is in the Result
	name     string // the metric's
	unit     []byte // until it is reported
	kind     metricKind
	delta    bool
	names    [5]string // metrics that a histogram or summary becomes, as far as they were needed
	point    dataPoint
}

// The places of export.names, and what is appended to the metric's name.
const (
	countName = iota
	sumName
	minName
	maxName
	bucketName
)

var suffixes = [...]string{"_count", "_sum", "_min", "_max", "_bucket"}

func (d *otlpReader) begin() {
	d.groups.reset()
	d.export.index, d.export.source = 0, 0
}

func (d *otlpReader) enter(res *resource) {
	e := &d.export
	e.resource, e.reported = res, false
	e.source++
	isNew := false
	e.sender, isNew = d.groups.sender(res.tenant, res.device)
	d.groups.shared = d.groups.shared || !isNew && res.fault == nil
}

// metricHead is a metric of an export without its data points.
type metricHead struct {
	name, unit []byte
	kind       metricKind
	delta      bool
}

func (d *otlpReader) enterMetric(m metricHead) {
	e := &d.export
	e.unit, e.kind, e.delta, e.names = nil, m.kind, m.delta, [5]string{}
	if e.fault = e.resource.fault; e.fault != nil {
		return
	}
	e.reported = false
	if e.fault = e.resource.deltaFault; e.delta && e.fault != nil {
		return
	}
	e.fault = nil
	var err error
	if e.name, err = d.metrics.get(m.name); err != nil {
		e.fault = faultf(Name, "%v", err)
		return
	}
	e.unit = m.unit
}

// labels returns the labels that the resource and the metric give to every data point.
func (e *export) labels() telemetry.Labels {
	if e.delta {
		return e.resource.deltaLabels
	}
	return e.resource.labels
}

// appendKey appends the key of the labels of a data point with raw attributes.
func (e *export) appendKey(b, raw []byte) []byte {
	id := e.resource.id << 1
	if e.delta {
		id |= 1
	}
	return append(binary.LittleEndian.AppendUint64(b, id), raw...)
}

func (d *otlpReader) addPoint(p *dataPoint) {
	e := &d.export
	index, from := e.index, pointSource{index: e.index, source: e.source, sender: e.sender}
	e.index++
	if e.fault != nil {
		if !e.reported {
			d.addBad(index, e.fault)
			e.reported = true
		}
		return
	}
	if p.flags&noRecordedValue != 0 {
		return
	}
	if p.fault == nil {
		p.fault = e.check(p)
	}
	if p.fault != nil {
		d.addBad(index, p.fault)
		return
	}
	if e.unit != nil {
		d.unit(e.resource.tenant, e.name, e.unit)
		e.unit = nil
	}
	r := telemetry.Reading{
		Tenant: e.resource.tenant, Device: e.resource.device, Time: int64(p.time / 1e6),
		Labels: p.labels, Tags: e.resource.tags,
	}
	if p.time == 0 {
		var f *fault
		if r.Time, f = d.recordTime("the data point"); f != nil {
			d.addBad(index, f)
			return
		}
	}
	from.rest = int32(p.time % 1e6)
	if e.kind == gauge || e.kind == sum {
		d.group(from, &r, telemetry.Field{Metric: e.name, Value: p.value})
		return
	}
	for place, v := range [...]telemetry.Value{telemetry.IntValue(int64(p.count)), p.sum, p.min, p.max} {
		if v.Kind() == 0 {
			continue
		}
		name, f := d.derived(place)
		if f != nil {
			d.addBad(index, f)
			return
		}
		d.group(from, &r, telemetry.Field{Metric: name, Value: v})
	}
	d.addQuantiles(from, p, r)
	d.addBuckets(from, p, r)
}

func (e *export) check(p *dataPoint) *fault {
	switch {
	case e.kind == noMetric:
		return faultf(Value, "metric %q is of no kind that is read here", e.name)
	case e.kind == gauge || e.kind == sum:
		if p.value.Kind() == 0 {
			return faultf(Empty, "a data point of %q has no value", e.name)
		}
	case p.count > math.MaxInt64:
		return faultf(Value, "the count of %q, %d, is beyond int64", e.name, p.count)
	}
	return nil
}

// derived returns the name of one of the metrics that a histogram or summary becomes.
func (d *otlpReader) derived(place int) (string, *fault) {
	e := &d.export
	if e.names[place] == "" {
		d.key = append(append(d.key[:0], e.name...), suffixes[place]...)
		name, err := d.metrics.get(d.key)
		if err != nil {
			return "", faultf(Name, "%v", err)
		}
		e.names[place] = name
	}
	return e.names[place], nil
}

// addQuantiles adds the quantiles of a summary, each with its label.
func (d *otlpReader) addQuantiles(from pointSource, p *dataPoint, r telemetry.Reading) {
	for _, q := range p.quantiles {
		if d.made.over {
			return
		}
		var f *fault
		if r.Labels, f = d.with(p.labels, "quantile", q.quantile); f != nil {
			d.addBad(from.index, f)
			return
		}
		d.group(from, &r, telemetry.Field{Metric: d.export.name, Value: telemetry.FloatValue(q.value)})
	}
}

// addBuckets adds the buckets of a histogram as Prometheus has them: how many values were at most le.
func (d *otlpReader) addBuckets(from pointSource, p *dataPoint, r telemetry.Reading) {
	e := &d.export
	if !d.opts.Buckets || e.kind != histogram || len(p.buckets) == 0 || len(p.buckets) != len(p.bounds)+1 {
		return
	}
	name, f := d.derived(bucketName)
	if f != nil {
		d.addBad(from.index, f)
		return
	}
	total := uint64(0)
	for i, n := range p.buckets {
		if d.made.over {
			return
		}
		bound := math.Inf(1)
		if i < len(p.bounds) {
			bound = math.Float64frombits(p.bounds[i])
		}
		if total += n; total > math.MaxInt64 {
			d.addBad(from.index, faultf(Value, "a bucket of %q is beyond int64", e.name))
			return
		}
		if r.Labels, f = d.with(p.labels, "le", bound); f != nil {
			d.addBad(from.index, f)
			return
		}
		d.group(from, &r, telemetry.Field{Metric: name, Value: telemetry.IntValue(int64(total))})
	}
}

// with returns a label set with one more label, a number.
func (d *Decoder) with(labels telemetry.Labels, name string, value float64) (telemetry.Labels, *fault) {
	text := strconv.AppendFloat(nil, value, 'g', -1, 64)
	if math.IsInf(value, 1) {
		text = []byte("+Inf")
	}
	v, _ := d.texts.get(text)
	d.pairs = append(append(d.pairs[:0], labels...), telemetry.Label{Name: name, Value: v})
	return d.labelSets.labels(d.pairs, &d.key)
}
