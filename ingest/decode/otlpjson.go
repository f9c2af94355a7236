package decode

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"binnacle/internal/wire/jsonscan"

	"google.golang.org/protobuf/encoding/protowire"
)

// readJSON reads metrics in the JSON of OTLP: each resource becomes protobuf, one after another, and is read as such.
// An error is one of syntax, or a value that is not of its field's type: it refuses the record.
func (d *otlpReader) readJSON(scan *jsonscan.Scanner, size int) error {
	d.made.work(size) // the protobuf is shorter
	scan.Allow(nestedAttribute * maxDepth)
	d.begin()
	t := transcoder{scan: scan}
	err := t.object(func(name []byte) error {
		field, known := otlpMetrics.named(name)
		if !known {
			return scan.Skip()
		}
		return t.array(func() error {
			t.out = t.out[:0]
			if err := t.appendFields(field.of); err != nil {
				return err
			}
			return d.otlpResource(t.out)
		})
	})
	if err == nil {
		d.endGroups()
	}
	return err
}

// nestedAttribute is how many objects and arrays an attribute inside another one takes in JSON.
const nestedAttribute = 4

// jsonMessage is how a message of protobuf is written in JSON: the fields that are read here, by their names.
type jsonMessage map[string]jsonField

type jsonField struct {
	number protowire.Number
	kind   jsonKind
	of     jsonMessage // fields of a nestedKind or nestedsKind
}

type jsonKind uint8

const (
	textKind jsonKind = iota
	bytesKind
	boolKind
	varintKind // int64
	uint32Kind // varint
	enumKind   // an aggregation temporality
	fixedKind  // uint64
	sfixedKind // int64
	doubleKind
	fixedsKind  // repeated
	doublesKind // repeated
	nestedKind
	nestedsKind // repeated
)

var temporalities = map[string]uint64{"AGGREGATION_TEMPORALITY_UNSPECIFIED": 0, "AGGREGATION_TEMPORALITY_DELTA": 1,
	"AGGREGATION_TEMPORALITY_CUMULATIVE": 2}

// otlpMetrics is MetricsData of opentelemetry/proto/metrics/v1/metrics.proto.
var otlpMetrics = func() jsonMessage {
	value, pair := jsonMessage{}, jsonMessage{}
	list := func(number protowire.Number, of jsonMessage) jsonField { return jsonField{number, nestedsKind, of} }
	plain := func(number protowire.Number, kind jsonKind) jsonField { return jsonField{number, kind, nil} }
	value["stringValue"], value["boolValue"] = plain(1, textKind), plain(2, boolKind)
	value["intValue"], value["doubleValue"] = plain(3, varintKind), plain(4, doubleKind)
	value["arrayValue"] = jsonField{5, nestedKind, jsonMessage{"values": list(1, value)}}
	value["kvlistValue"] = jsonField{6, nestedKind, jsonMessage{"values": list(1, pair)}}
	value["bytesValue"] = plain(7, bytesKind)
	pair["key"], pair["value"] = plain(1, textKind), jsonField{2, nestedKind, value}

	number := jsonMessage{"attributes": list(7, pair), "timeUnixNano": plain(3, fixedKind),
		"asDouble": plain(4, doubleKind), "asInt": plain(6, sfixedKind), "flags": plain(8, uint32Kind)}
	histogram := jsonMessage{"attributes": list(9, pair), "timeUnixNano": plain(3, fixedKind),
		"count": plain(4, fixedKind), "sum": plain(5, doubleKind), "bucketCounts": plain(6, fixedsKind),
		"explicitBounds": plain(7, doublesKind), "flags": plain(10, uint32Kind), "min": plain(11, doubleKind),
		"max": plain(12, doubleKind)}
	exponential := jsonMessage{"attributes": list(1, pair), "timeUnixNano": plain(3, fixedKind),
		"count": plain(4, fixedKind), "sum": plain(5, doubleKind), "flags": plain(10, uint32Kind),
		"min": plain(12, doubleKind), "max": plain(13, doubleKind)}
	summary := jsonMessage{"attributes": list(7, pair), "timeUnixNano": plain(3, fixedKind),
		"count": plain(4, fixedKind), "sum": plain(5, doubleKind), "flags": plain(8, uint32Kind),
		"quantileValues": list(6, jsonMessage{"quantile": plain(1, doubleKind), "value": plain(2, doubleKind)})}
	data := func(number protowire.Number, point jsonMessage) jsonField {
		return jsonField{number, nestedKind, jsonMessage{"dataPoints": list(1, point),
			"aggregationTemporality": plain(2, enumKind)}}
	}
	metric := jsonMessage{"name": plain(1, textKind), "unit": plain(3, textKind), "gauge": data(5, number),
		"sum": data(7, number), "histogram": data(9, histogram), "exponentialHistogram": data(10, exponential),
		"summary": data(11, summary)}
	resource := jsonMessage{"resource": {1, nestedKind, jsonMessage{"attributes": list(1, pair)}},
		"scopeMetrics": list(2, jsonMessage{"metrics": list(2, metric)})}
	return jsonMessage{"resourceMetrics": list(1, resource)}
}()

// named returns the field of a name, which may be spelt as the definition of the protocol does: with underscores.
func (m jsonMessage) named(name []byte) (f jsonField, known bool) {
	if f, known = m[string(name)]; known || bytes.IndexByte(name, '_') < 0 {
		return f, known
	}
	camel := make([]byte, 0, len(name))
	for i, c := range name {
		switch {
		case c == '_':
		case i > 0 && name[i-1] == '_' && c >= 'a' && c <= 'z':
			camel = append(camel, c-'a'+'A')
		default:
			camel = append(camel, c)
		}
	}
	f, known = m[string(camel)]
	return f, known
}

// transcoder turns JSON into protobuf. null is an empty value, as for the Collector.
type transcoder struct {
	scan *jsonscan.Scanner
	out  []byte
}

func (t *transcoder) null() bool { return t.scan.Next() == 'n' }

func (t *transcoder) object(each func(name []byte) error) error {
	if t.null() {
		return t.scan.Word("null")
	}
	return t.scan.Object(each)
}

func (t *transcoder) array(each func() error) error {
	if t.null() {
		return t.scan.Word("null")
	}
	return t.scan.Array(func(int) error { return each() })
}

func (t *transcoder) appendFields(m jsonMessage) error {
	return t.object(func(name []byte) error {
		f, known := m.named(name)
		if !known {
			return t.scan.Skip()
		}
		switch f.kind {
		case nestedKind:
			return t.nested(f.number, func() error { return t.appendFields(f.of) })
		case nestedsKind:
			return t.array(func() error {
				return t.nested(f.number, func() error { return t.appendFields(f.of) })
			})
		case fixedsKind, doublesKind:
			return t.nested(f.number, func() error { return t.array(func() error { return t.fixed(f.kind) }) })
		}
		return t.scalar(f)
	})
}

// nested appends a field with a length, and puts the length before the bytes that write appends.
func (t *transcoder) nested(number protowire.Number, write func() error) error {
	t.out = append(protowire.AppendTag(t.out, number, protowire.BytesType), 0)
	at := len(t.out)
	if err := write(); err != nil {
		return err
	}
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(t.out)-at))
	t.out[at-1] = length[0]
	if n > 1 {
		t.out = slices.Insert(t.out, at, length[1:n]...)
	}
	return nil
}

func (t *transcoder) scalar(f jsonField) error {
	switch f.kind {
	case textKind, bytesKind:
		return t.nested(f.number, func() error { return t.text(f.kind == bytesKind) })
	case fixedKind, sfixedKind, doubleKind:
		t.out = protowire.AppendTag(t.out, f.number, protowire.Fixed64Type)
		return t.fixed(f.kind)
	}
	t.out = protowire.AppendTag(t.out, f.number, protowire.VarintType)
	var bits uint64
	var err error
	switch f.kind {
	case boolKind:
		if word := "true"; t.scan.Next() == 't' {
			bits, err = 1, t.scan.Word(word)
		} else {
			err = t.scan.Word("false")
		}
	case enumKind:
		bits, err = t.enum()
	case uint32Kind:
		err = t.number(func(text string) (err error) { bits, err = strconv.ParseUint(text, 10, 32); return err })
	default:
		bits, err = t.integer()
	}
	t.out = binary.AppendUvarint(t.out, bits)
	return err
}

func (t *transcoder) text(base bool) error {
	if t.null() {
		return t.scan.Word("null")
	}
	if t.scan.Next() != '"' {
		return t.scan.Fail("no string")
	}
	text, err := t.scan.Str()
	if err == nil && base {
		t.out, err = base64.StdEncoding.AppendDecode(t.out, text)
	} else {
		t.out = append(t.out, text...)
	}
	return err
}

func (t *transcoder) enum() (bits uint64, err error) {
	if t.scan.Next() != '"' {
		return t.integer()
	}
	name, err := t.scan.Str()
	bits, known := temporalities[string(name)]
	if err == nil && !known {
		err = t.scan.Fail("no aggregation temporality")
	}
	return bits, err
}

func (t *transcoder) integer() (bits uint64, err error) {
	err = t.number(func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		bits = uint64(n)
		return err
	})
	return bits, err
}

// fixed appends a number of 64 bits.
func (t *transcoder) fixed(kind jsonKind) (err error) {
	var bits uint64
	switch kind {
	case fixedKind, fixedsKind:
		err = t.number(func(text string) (err error) { bits, err = strconv.ParseUint(text, 10, 64); return err })
	case sfixedKind:
		bits, err = t.integer()
	default:
		err = t.number(func(text string) error {
			v, err := strconv.ParseFloat(text, 64)
			bits = math.Float64bits(v)
			return err
		})
	}
	t.out = binary.LittleEndian.AppendUint64(t.out, bits)
	return err
}

// number passes on a number, which may stand in a string.
func (t *transcoder) number(parse func(text string) error) error {
	if t.scan.Next() == '"' {
		text, err := t.scan.Str()
		if err != nil {
			return err
		}
		return parse(string(text))
	}
	n, err := t.scan.Number()
	if err != nil {
		return err
	}
	return parse(string(n.Text))
}
