package decode_test

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// otlp is metrics of OpenTelemetry, as opentelemetry/proto/metrics/v1/metrics.proto has them.
type otlp struct{ resources []*resource }

type resource struct {
	attributes map[string]any
	scopes     []*scope
}

type scope struct{ metrics []*metric }

// metricKind is the number of the field that holds a metric's data points.
type metricKind protowire.Number

const (
	gauges       metricKind = 5
	sums         metricKind = 7
	histograms   metricKind = 9
	exponentials metricKind = 10
	summaries    metricKind = 11
)

const (
	cumulative = 2
	delta      = 1
)

type metric struct {
	name, unit  string
	kind        metricKind
	temporality int
	points      []*dataPoint
}

// dataPoint is a point of any kind; what is nil is absent.
type dataPoint struct {
	attributes  map[string]any
	start, time uint64
	value       any // float64, int64 or nil
	flags       int64
	count       uint64
	sum, min, max,
	scale *float64
	counts []uint64
	bounds []float64
	// quantile is that of 0.99.
	quantile *float64
}

func (m *otlp) add(attributes map[string]any) *scope {
	r := &resource{attributes: attributes, scopes: []*scope{{}}}
	m.resources = append(m.resources, r)
	return r.scopes[0]
}

func (s *scope) add(name, unit string, kind metricKind) *metric {
	m := &metric{name: name, unit: unit, kind: kind}
	s.metrics = append(s.metrics, m)
	return m
}

func (m *metric) add(p dataPoint) *dataPoint {
	m.points = append(m.points, &p)
	return &p
}

func (p *dataPoint) put(name string, v any) *dataPoint {
	if p.attributes == nil {
		p.attributes = map[string]any{}
	}
	p.attributes[name] = v
	return p
}

// A message of protobuf is fields in their order, each with its number, its name in JSON, and a value that says how it
// is encoded.
type (
	protoMessage []protoField
	protoField   struct {
		number protowire.Number
		name   string
		value  any
	}

	messages []protoMessage
	fixed    uint64   // fixed64, in JSON text
	signed   int64    // sfixed64, in JSON text
	fixeds   []uint64 // packed
	doubles  []float64
	long     int64 // a varint, in JSON text
	short    int64 // a varint, in JSON a number
	zigzag   int64
)

func (m *otlp) encoded() protoMessage {
	var all messages
	for _, r := range m.resources {
		var scopes messages
		for _, s := range r.scopes {
			var metrics messages
			for _, x := range s.metrics {
				metrics = append(metrics, x.encoded())
			}
			scopes = append(scopes, protoMessage{{2, "metrics", metrics}})
		}
		all = append(all, protoMessage{{1, "resource", protoMessage{{1, "attributes", keyValues(r.attributes)}}},
			{2, "scopeMetrics", scopes}})
	}
	return protoMessage{{1, "resourceMetrics", all}}
}

func (m *metric) encoded() protoMessage {
	var points messages
	for _, p := range m.points {
		points = append(points, p.encoded(m.kind))
	}
	data := protoMessage{{1, "dataPoints", points}}
	if m.temporality > 0 {
		data = append(data, protoField{2, "aggregationTemporality", short(m.temporality)})
	}
	name := map[metricKind]string{gauges: "gauge", sums: "sum", histograms: "histogram",
		exponentials: "exponentialHistogram", summaries: "summary"}[m.kind]
	return protoMessage{{1, "name", m.name}, {3, "unit", m.unit}, {protowire.Number(m.kind), name, data}}
}

func (p *dataPoint) encoded(kind metricKind) protoMessage {
	// The numbers of attributes, flags, min and max differ by the kind of point.
	numbers := map[metricKind][4]protowire.Number{gauges: {7, 8}, sums: {7, 8}, summaries: {7, 8},
		histograms: {9, 10, 11, 12}, exponentials: {1, 10, 12, 13}}[kind]
	m := protoMessage{{2, "startTimeUnixNano", fixed(p.start)}, {3, "timeUnixNano", fixed(p.time)},
		{numbers[0], "attributes", keyValues(p.attributes)}, {numbers[1], "flags", short(p.flags)}}
	optional := func(number protowire.Number, name string, v *float64) {
		if v != nil {
			m = append(m, protoField{number, name, *v})
		}
	}
	switch v := p.value.(type) {
	case float64:
		m = append(m, protoField{4, "asDouble", v})
	case int64:
		m = append(m, protoField{6, "asInt", signed(v)})
	}
	if kind == gauges || kind == sums {
		return m
	}
	m = append(m, protoField{4, "count", fixed(p.count)})
	optional(5, "sum", p.sum)
	optional(numbers[2], "min", p.min)
	optional(numbers[3], "max", p.max)
	switch {
	case kind == histograms:
		m = append(m, protoField{6, "bucketCounts", fixeds(p.counts)}, protoField{7, "explicitBounds", doubles(p.bounds)})
	case kind == exponentials && p.scale != nil:
		m = append(m, protoField{6, "scale", zigzag(*p.scale)}, protoField{7, "zeroCount", fixed(5)},
			protoField{8, "positive", protoMessage{{1, "offset", zigzag(-1)}}})
	case p.quantile != nil:
		m = append(m, protoField{6, "quantileValues", messages{{{1, "quantile", 0.99}, {2, "value", *p.quantile}}}})
	}
	return m
}

func keyValues(attributes map[string]any) (all messages) {
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		all = append(all, protoMessage{{1, "key", name}, {2, "value", anyValue(attributes[name])}})
	}
	return all
}

// present is a value that stands in a message though it is its type's zero, as those of a oneof do.
type present struct{ value any }

func anyValue(v any) protoMessage {
	switch v := v.(type) {
	case string:
		return protoMessage{{1, "stringValue", present{v}}}
	case bool:
		return protoMessage{{2, "boolValue", present{v}}}
	case int:
		return protoMessage{{3, "intValue", present{long(v)}}}
	case int64:
		return protoMessage{{3, "intValue", present{long(v)}}}
	case float64:
		return protoMessage{{4, "doubleValue", v}}
	case []any:
		var all messages
		for _, x := range v {
			all = append(all, anyValue(x))
		}
		return protoMessage{{5, "arrayValue", protoMessage{{1, "values", all}}}}
	case map[string]any:
		return protoMessage{{6, "kvlistValue", protoMessage{{1, "values", keyValues(v)}}}}
	case []byte:
		return protoMessage{{7, "bytesValue", v}}
	}
	return protoMessage{}
}

// asText is an attribute's value as text, as the Collector writes it.
func asText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// protobuf is the metrics in protobuf.
func (m *otlp) protobuf() []byte { return appendProto(nil, m.encoded()) }

// json is the metrics in OTLP's JSON.
func (m *otlp) json() []byte {
	text, err := json.Marshal(inJSON(m.encoded()))
	if err != nil {
		panic(err)
	}
	return text
}

func appendProto(b []byte, m protoMessage) []byte {
	for _, f := range m {
		tag := func(kind protowire.Type) { b = protowire.AppendTag(b, f.number, kind) }
		bytes := func(v []byte) {
			tag(protowire.BytesType)
			b = protowire.AppendBytes(b, v)
		}
		value, there := f.value.(present)
		if there {
			f.value = value.value
		}
		switch v := f.value.(type) {
		case protoMessage:
			bytes(appendProto(nil, v))
		case messages:
			for _, one := range v {
				bytes(appendProto(nil, one))
			}
		case string:
			if there || v != "" {
				bytes([]byte(v))
			}
		case []byte:
			bytes(v)
		case float64:
			tag(protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, math.Float64bits(v))
		case fixed:
			if v != 0 {
				tag(protowire.Fixed64Type)
				b = protowire.AppendFixed64(b, uint64(v))
			}
		case signed:
			tag(protowire.Fixed64Type)
			b = protowire.AppendFixed64(b, uint64(v))
		case fixeds:
			var packed []byte
			for _, n := range v {
				packed = protowire.AppendFixed64(packed, n)
			}
			bytes(packed)
		case doubles:
			var packed []byte
			for _, n := range v {
				packed = protowire.AppendFixed64(packed, math.Float64bits(n))
			}
			bytes(packed)
		case bool:
			tag(protowire.VarintType)
			b = protowire.AppendVarint(b, protowire.EncodeBool(v))
		case long:
			tag(protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(v))
		case short:
			tag(protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(v))
		case zigzag:
			tag(protowire.VarintType)
			b = protowire.AppendVarint(b, protowire.EncodeZigZag(int64(v)))
		}
	}
	return b
}

func inJSON(v any) any {
	switch v := v.(type) {
	case protoMessage:
		object := map[string]any{}
		for _, f := range v {
			object[f.name] = inJSON(f.value)
		}
		return object
	case messages:
		list := []any{}
		for _, m := range v {
			list = append(list, inJSON(m))
		}
		return list
	case present:
		return inJSON(v.value)
	case float64:
		switch {
		case math.IsNaN(v):
			return "NaN"
		case math.IsInf(v, 0):
			return map[bool]string{true: "Infinity", false: "-Infinity"}[v > 0]
		}
		return v
	case fixed:
		return strconv.FormatUint(uint64(v), 10)
	case signed:
		return strconv.FormatInt(int64(v), 10)
	case fixeds:
		list := []any{}
		for _, n := range v {
			list = append(list, strconv.FormatUint(n, 10))
		}
		return list
	case long:
		return strconv.FormatInt(int64(v), 10)
	}
	return v
}
