package decode

import (
	"cmp"
	"errors"
	"math"

	"binnacle/internal/telemetry"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the protobuf fields are from opentelemetry/proto/metrics/v1/metrics.proto, version 1.

// looksLikeOTLP reports whether a payload is a row of resource metrics: field 1 with a length, again and again to the
// end, each beginning with a field of resource metrics; and, since field 1 begins as a line end does, bytes that no
// text has.
func looksLikeOTLP(b []byte) bool {
	if len(b) == 0 || b[0] != '\n' {
		return false
	}
	var f protobufField
	for w := (protobufReader{rest: b}); len(w.rest) > 0; {
		if !w.next(&f) || !f.is(1, protowire.BytesType) {
			return false
		}
		inner := protobufReader{rest: f.bytes}
		if inner.next(&f) && (f.kind != protowire.BytesType || f.number > 3) || inner.err != nil {
			return false
		}
	}
	return !isText(b)
}

// otlpReader reads metrics of OpenTelemetry, in protobuf or JSON.
type otlpReader struct {
	*Decoder
	export    export
	resources resources
}

func newOTLPReader(d *Decoder) reader { return &otlpReader{Decoder: d, resources: newResources()} }

func (d *otlpReader) read(r Record, _ map[string]string) { d.otlp(r.Value) }

// otlp reads metrics as the OpenTelemetry Collector writes them: MetricsData, which is a request to its service, too.
func (d *otlpReader) otlp(value []byte) {
	d.begin()
	err := each(value, 1, d.otlpResource)
	if err != nil {
		d.refuseRecord(faultf(Undecodable, "not OTLP metrics: %v", err))
		return
	}
	d.endGroups()
}

// otlpResource reads ResourceMetrics: the resource may stand behind its metrics.
func (d *otlpReader) otlpResource(message []byte) error {
	d.made.message = 0
	var raw []byte
	err := each(message, 1, func(b []byte) error {
		raw = b
		return nil
	})
	if err != nil {
		return err
	}
	res, err := d.resourceOf(raw)
	if err != nil {
		return err
	}
	d.enter(res)
	return each(message, 2, func(scope []byte) error { return each(scope, 2, d.otlpMetric) })
}

func (d *otlpReader) otlpMetric(message []byte) error {
	var name, unit, data []byte
	var f protobufField
	kind := noMetric
	w := protobufReader{rest: message}
	for w.next(&f) {
		if f.kind != protowire.BytesType {
			continue
		}
		switch f.number {
		case 1:
			name = f.bytes
		case 3:
			unit = f.bytes
		case 5, 7, 9, 10, 11:
			kind, data = metricKind(f.number), f.bytes
		}
	}
	if w.err != nil {
		return w.err
	}
	delta := false
	for w := (protobufReader{rest: data}); w.next(&f); {
		if f.is(2, protowire.VarintType) && kind != gauge && kind != summary {
			delta = f.bits == deltaTemporality
		}
	}
	d.enterMetric(metricHead{name, unit, kind, delta})
	return each(data, 1, func(b []byte) error {
		p := &d.export.point
		p.clear()
		err := d.readPoint(p, kind, b)
		if err != nil {
			return err
		}
		d.addPoint(p)
		return d.made.check()
	})
}

// pointField is the meaning of a field of a data point.
type pointField uint8

const (
	attributesField pointField = iota + 1
	timeField
	doubleField
	intField
	countField
	sumField
	minField
	maxField
	flagsField
	bucketsField
	boundsField
	quantilesField
)

var numberFields = [14]pointField{7: attributesField, 3: timeField, 4: doubleField, 6: intField, 8: flagsField}

// pointFields has the meaning of the fields of data points, by the kind of the metric and the field's number.
var pointFields = [...][14]pointField{
	gauge: numberFields, sum: numberFields,
	histogram: {9: attributesField, 3: timeField, 4: countField, 5: sumField, 6: bucketsField, 7: boundsField,
		10: flagsField, 11: minField, 12: maxField},
	exponential: {1: attributesField, 3: timeField, 4: countField, 5: sumField, 10: flagsField, 12: minField,
		13: maxField},
	summary: {7: attributesField, 3: timeField, 4: countField, 5: sumField, 6: quantilesField, 8: flagsField},
}

func (d *otlpReader) readPoint(p *dataPoint, kind metricKind, message []byte) error {
	var f protobufField
	w := protobufReader{rest: message}
	attributes, fields := span{message: message}, &pointFields[kind]
	for w.next(&f) {
		if int(f.number) >= len(fields) {
			continue
		}
		field := fields[f.number]
		switch {
		case field == bucketsField:
			p.buckets = appendFixed64(p.buckets, &f)
		case field == boundsField:
			p.bounds = appendFixed64(p.bounds, &f)
		case f.kind == protowire.VarintType && field == flagsField:
			p.flags = f.bits
		case f.kind == protowire.BytesType && field == attributesField:
			attributes.saw(&w, f.number)
		case f.kind == protowire.BytesType && field == quantilesField:
			if err := cmp.Or(d.made.part(pairBytes), p.readQuantile(f.bytes)); err != nil {
				return err
			}
		case f.kind == protowire.Fixed64Type:
			p.setFixed(field, f.bits)
		}
	}
	return d.pointLabels(p, w.err, attributes)
}

func (p *dataPoint) setFixed(field pointField, bits uint64) {
	switch field {
	case timeField:
		p.time = bits
	case doubleField:
		p.value = telemetry.BitsValue(telemetry.Float, bits)
	case intField:
		p.value = telemetry.IntValue(int64(bits))
	case countField:
		p.count = bits
	case sumField:
		p.sum = telemetry.BitsValue(telemetry.Float, bits)
	case minField:
		p.min = telemetry.BitsValue(telemetry.Float, bits)
	case maxField:
		p.max = telemetry.BitsValue(telemetry.Float, bits)
	}
}

func (p *dataPoint) readQuantile(message []byte) error {
	var f protobufField
	var q quantile
	w := protobufReader{rest: message}
	for w.next(&f) {
		switch {
		case f.is(1, protowire.Fixed64Type):
			q.quantile = math.Float64frombits(f.bits)
		case f.is(2, protowire.Fixed64Type):
			q.value = math.Float64frombits(f.bits)
		}
	}
	p.quantiles = append(p.quantiles, q)
	return w.err
}

func appendFixed64(to []uint64, f *protobufField) []uint64 {
	if f.kind == protowire.Fixed64Type {
		return append(to, f.bits)
	}
	for b := f.bytes; len(b) >= 8; b = b[8:] {
		u, _ := protowire.ConsumeFixed64(b)
		to = append(to, u)
	}
	return to
}

// span is where the attributes of a data point stand in its message: encoders write them one after another.
type span struct {
	message  []byte
	from, to int
	split    bool // other fields are between the attributes
	number   protowire.Number
}

func (s *span) saw(w *protobufReader, number protowire.Number) {
	begin := len(s.message) - w.before
	if s.to == 0 {
		s.from = begin
	} else if s.to != begin {
		s.split = true
	}
	s.to, s.number = len(s.message)-len(w.rest), number
}

// raw returns the bytes that hold the attributes.
func (s *span) raw() []byte {
	if s.split {
		return s.message
	}
	return s.message[s.from:s.to]
}

// pointLabels finds the labels of a data point by the bytes of its attributes.
func (d *otlpReader) pointLabels(p *dataPoint, err error, s span) error {
	if err != nil {
		return err
	}
	e := &d.export
	if e.fault != nil || s.to == 0 {
		p.labels = e.labels()
		return nil
	}
	raw := s.raw()
	d.key = e.appendKey(d.key[:0], raw)
	if known, ok := d.resources.points.get(d.key); ok {
		p.labels = known
		return nil
	}
	key := string(d.key)
	d.pairs = append(d.pairs[:0], e.labels()...)
	err = each(raw, s.number, func(b []byte) error {
		pair, err := d.attribute(b, &d.labelNames)
		d.pairs = append(d.pairs, pair)
		return cmp.Or(err, d.made.part(pairBytes))
	})
	if f, ok := errors.AsType[*fault](err); ok {
		p.fault = f
		return nil
	}
	if err != nil {
		return err
	}
	if name := d.repeated(d.pairs[len(e.labels()):]); name != "" {
		p.fault = faultf(Label, "the attribute %q occurs twice in a data point", name)
		return nil
	}
	if p.labels, p.fault = d.labelSets.labels(d.pairs, &d.key); p.fault == nil {
		d.resources.keepPoint(key, p.labels)
	}
	return nil
}
