package decode

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"binnacle/internal/telemetry"
)

// readJSON reads metrics in the JSON of OTLP, which is valid UTF-8: the names of the protobuf fields in camel case,
// 64-bit integers as strings. What must be known before something that stands in front of it is read by going back.
func (d *otlpReader) readJSON(text []byte) {
	d.scan.Reset(text)
	d.begin()
	err := d.scan.Object(func(name []byte) error {
		if string(name) != "resourceMetrics" {
			return d.scan.Skip(1)
		}
		return d.list(d.jsonResource)
	})
	if err == nil && !d.scan.End() {
		err = d.scan.Fail("more after the end")
	}
	if err != nil {
		d.refuseRecord(faultf(Undecodable, "not JSON: %v", err))
		return
	}
	d.endGroups()
}

func (d *otlpReader) jsonResource() error {
	known, scopes := false, 0
	enter := func(f *fault) {
		d.export.enter(d.describe(f))
		known = true
	}
	err := d.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "resource":
			d.pairs = d.pairs[:0]
			f, err := d.jsonAttributesOf(&d.tagNames)
			enter(f)
			return err
		case "scopeMetrics":
			if known {
				return d.jsonScopes()
			}
			scopes, err = d.later()
			return err
		}
		return d.scan.Skip(3)
	})
	if err != nil || scopes == 0 {
		return err
	}
	if !known {
		d.pairs = d.pairs[:0]
		enter(nil)
	}
	return d.back(scopes, d.jsonScopes)
}

func (d *otlpReader) jsonAttributesOf(names *interner) (f *fault, err error) {
	err = d.scan.Object(func(name []byte) error {
		if string(name) != "attributes" {
			return d.scan.Skip(4)
		}
		wrong, err := d.jsonAttributes(names)
		if f == nil {
			f = wrong
		}
		return err
	})
	return f, err
}

func (d *otlpReader) jsonScopes() error {
	return d.list(func() error {
		return d.scan.Object(func(name []byte) error {
			if string(name) != "metrics" {
				return d.scan.Skip(4)
			}
			return d.list(d.jsonMetric)
		})
	})
}

var jsonKinds = map[string]metricKind{
	"gauge": gauge, "sum": sum, "histogram": histogram, "exponentialHistogram": exponential, "summary": summary,
}

func (d *otlpReader) jsonMetric() error {
	var metric, unit []byte
	kind, data := noMetric, 0
	err := d.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			metric, err = d.jsonString()
			return err
		case "unit":
			unit, err = d.jsonString()
			return err
		}
		if k := jsonKinds[string(name)]; k != noMetric {
			kind = k
			data, err = d.later()
			return err
		}
		return d.scan.Skip(5)
	})
	if err != nil {
		return err
	}
	return d.back(data, func() error { return d.jsonData(metric, unit, kind) })
}

func (d *otlpReader) jsonData(metric, unit []byte, kind metricKind) error {
	points, delta := 0, false
	err := d.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "dataPoints":
			points, err = d.later()
		case "aggregationTemporality":
			var text []byte
			text, err = d.jsonWord()
			delta = string(text) == "1" || string(text) == "AGGREGATION_TEMPORALITY_DELTA"
		default:
			err = d.scan.Skip(6)
		}
		return err
	})
	if err != nil {
		return err
	}
	d.enterMetric(metricHead{metric, unit, kind, delta})
	return d.back(points, func() error { return d.list(d.jsonPoint) })
}

func (d *otlpReader) jsonPoint() error {
	p := &d.export.point
	p.clear()
	d.pairs = d.pairs[:0]
	if d.export.fault == nil {
		d.pairs = append(d.pairs, d.export.labels()...)
	}
	err := d.scan.Object(func(name []byte) error { return d.jsonPointField(p, string(name)) })
	if err != nil {
		return err
	}
	if d.export.fault == nil && p.fault == nil {
		p.labels = d.labelSets.get(d.pairs, &d.key)
	}
	d.addPoint(p)
	return nil
}

func (d *otlpReader) jsonPointField(p *dataPoint, name string) (err error) {
	switch name {
	case "attributes":
		f, err := d.jsonAttributes(&d.labelNames)
		p.wrong(f)
		return err
	case "timeUnixNano":
		p.time, err = d.jsonUint(p)
	case "flags":
		p.flags, err = d.jsonUint(p)
	case "asInt":
		var i int64
		i, err = d.jsonInt(p)
		p.value = telemetry.IntValue(i)
	case "asDouble":
		p.value, err = d.jsonDouble(p)
	case "count":
		p.count, err = d.jsonUint(p)
	case "sum":
		p.sum, err = d.jsonDouble(p)
	case "min":
		p.min, err = d.jsonDouble(p)
	case "max":
		p.max, err = d.jsonDouble(p)
	case "bucketCounts":
		err = d.list(func() error {
			n, err := d.jsonUint(p)
			p.buckets = append(p.buckets, n)
			return err
		})
	case "explicitBounds":
		err = d.list(func() error {
			v, err := d.jsonDouble(p)
			p.bounds = append(p.bounds, v.Bits())
			return err
		})
	case "quantileValues":
		err = d.list(func() error { return d.jsonQuantile(p) })
	default:
		err = d.scan.Skip(7)
	}
	return err
}

func (d *otlpReader) jsonQuantile(p *dataPoint) error {
	var q quantile
	err := d.scan.Object(func(name []byte) error {
		to := map[string]*float64{"quantile": &q.quantile, "value": &q.value}[string(name)]
		if to == nil {
			return d.scan.Skip(8)
		}
		v, err := d.jsonDouble(p)
		if v.Kind() != 0 {
			*to = v.Float()
		}
		return err
	})
	p.quantiles = append(p.quantiles, q)
	return err
}

func (p *dataPoint) wrong(f *fault) {
	if p.fault == nil {
		p.fault = f
	}
}

func (d *otlpReader) jsonUint(p *dataPoint) (uint64, error) {
	text, err := d.jsonWord()
	if err != nil || len(text) == 0 {
		return 0, err
	}
	u, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		p.wrong(faultf(Value, "%.80q is no unsigned integer of 64 bits", text))
	}
	return u, nil
}

func (d *otlpReader) jsonInt(p *dataPoint) (int64, error) {
	text, err := d.jsonWord()
	if err != nil || len(text) == 0 {
		return 0, err
	}
	i, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		p.wrong(faultf(Value, "%.80q is no integer of 64 bits", text))
	}
	return i, nil
}

// jsonDouble reads a number, or one of the strings that stand for what is none; null is none.
func (d *otlpReader) jsonDouble(p *dataPoint) (telemetry.Value, error) {
	c := d.scan.Next()
	if c == '-' || c >= '0' && c <= '9' {
		n, err := d.scan.Number()
		if err != nil {
			return telemetry.Value{}, err
		}
		f, err := n.Float()
		if err != nil {
			p.wrong(faultf(Value, "number %.80q is beyond float64", n.Text))
		}
		return telemetry.FloatValue(f), nil
	}
	text, err := d.jsonWord()
	if err != nil || len(text) == 0 {
		return telemetry.Value{}, err
	}
	switch string(text) {
	case "NaN":
		return telemetry.FloatValue(math.NaN()), nil
	case "Infinity":
		return telemetry.FloatValue(math.Inf(1)), nil
	case "-Infinity":
		return telemetry.FloatValue(math.Inf(-1)), nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		p.wrong(faultf(Value, "%.80q is no number", text))
	}
	return telemetry.FloatValue(f), nil
}

// jsonAttributes reads a list of attributes into d.pairs. f is what is wrong with one of them.
func (d *otlpReader) jsonAttributes(names *interner) (f *fault, err error) {
	err = d.list(func() error {
		var key []byte
		var pair telemetry.Label
		fail := func(wrong error) {
			if wrong != nil && f == nil && !errors.As(wrong, &f) {
				f = faultf(Name, "%v", wrong)
			}
		}
		err := d.scan.Object(func(name []byte) (err error) {
			switch string(name) {
			case "key":
				key, err = d.jsonString()
				return err
			case "value":
				v, err := d.jsonAny(0)
				if err != nil {
					return err
				}
				text, wrong := d.anyText(v)
				fail(wrong)
				pair.Value = text
				return nil
			}
			return d.scan.Skip(8)
		})
		var wrong error
		pair.Name, wrong = names.get(key)
		fail(wrong)
		d.pairs = append(d.pairs, pair)
		return err
	})
	return f, err
}

func (d *otlpReader) jsonAny(depth int) (v any, err error) {
	if depth > maxDepth {
		return nil, d.scan.Fail("nested too deep")
	}
	if d.scan.Next() != '{' {
		return nil, d.scan.Skip(0)
	}
	err = d.scan.Object(func(name []byte) error {
		switch string(name) {
		case "stringValue":
			v, err = d.jsonString()
		case "boolValue":
			v = d.scan.Next() == 't'
			err = d.scan.Skip(0)
		case "intValue":
			var text []byte
			text, err = d.jsonWord()
			i, wrong := strconv.ParseInt(string(text), 10, 64)
			if wrong != nil && err == nil {
				return d.scan.Fail("intValue is no integer of 64 bits")
			}
			v = i
		case "doubleValue":
			var p dataPoint
			var x telemetry.Value
			x, err = d.jsonDouble(&p)
			if p.fault != nil {
				return d.scan.Fail("doubleValue is no number")
			}
			v = nil
			if x.Kind() != 0 {
				v = x.Float()
			}
		case "arrayValue":
			list := []any{}
			err = d.jsonValues(func() error {
				x, err := d.jsonAny(depth + 1)
				list = append(list, x)
				return err
			})
			v = list
		case "kvlistValue":
			pairs := map[string]any{}
			err = d.jsonValues(func() error { return d.jsonPair(pairs, depth+1) })
			v = pairs
		case "bytesValue":
			var text []byte
			text, err = d.jsonString()
			b, wrong := base64.StdEncoding.DecodeString(string(text))
			if wrong != nil && err == nil {
				return d.scan.Fail("bytesValue is not base64")
			}
			v = base64Bytes(b)
		default:
			err = d.scan.Skip(depth)
		}
		return err
	})
	return v, err
}

// jsonValues reads the object around the values of an array or a list of pairs.
func (d *otlpReader) jsonValues(each func() error) error {
	return d.scan.Object(func(name []byte) error {
		if string(name) != "values" {
			return d.scan.Skip(0)
		}
		return d.list(each)
	})
}

func (d *otlpReader) jsonPair(to map[string]any, depth int) error {
	var key []byte
	var value any
	err := d.scan.Object(func(name []byte) (err error) {
		switch string(name) {
		case "key":
			key, err = d.jsonString()
		case "value":
			value, err = d.jsonAny(depth)
		default:
			err = d.scan.Skip(depth)
		}
		return err
	})
	to[string(key)] = value
	return err
}
