package decode

import (
	"errors"
	"math"
	"unicode/utf8"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// jsonReader reads messages in JSON, objects of any shape, and payloads that their first property identifies: an
// envelope of IoT Hub, an export of OTLP.
type jsonReader struct {
	objects
	scan      jsonscan.Scanner
	source    []byte // the payload that is scanned
	flat      bool   // an object may have any shape
	templates templates
}

func newJSONReader(d *Decoder) reader {
	return &jsonReader{objects: newObjects(d), templates: newTemplates(d.opts.Set != Names{})}
}

func (d *jsonReader) read(r Record, _ map[string]string) { d.json(r.Value, false) }

// flatReader reads objects of any shape.
type flatReader struct{ *jsonReader }

func newFlatReader(d *Decoder) reader { return flatReader{d.readerOf(JSON).(*jsonReader)} }

func (d flatReader) read(r Record, _ map[string]string) { d.json(r.Value, true) }

func looksLikeJSON(value []byte) bool {
	c := value[blanks(value)]
	return c == '{' || c == '['
}

// json reads an object or an array of objects. Text that is not JSON is bad as a whole, also when
// elements before the error were right: half a message is never taken. Objects of a flat text may have any shape.
func (d *jsonReader) json(text []byte, flat bool) {
	d.scan.Reset(text)
	d.source = text
	d.flat = flat || d.origin.enveloped
	if err := d.jsonText(); err != nil {
		d.refuseRecord(faultf(Undecodable, "not JSON: %v", err))
	}
}

func (d *jsonReader) jsonText() error {
	if d.scan.Next() == '{' && d.matchTemplate(0, true) {
		return nil
	}
	if !utf8.Valid(d.source) {
		return errors.New("not valid UTF-8")
	}
	var err error
	switch {
	case d.scan.Next() == '[':
		err = d.scan.Array(d.element)
	case d.scan.Begins("resourceMetrics"):
		err = d.readerOf(OTLP).(*otlpReader).readJSON(&d.scan, len(d.source))
	case d.beginsEnvelope():
		return d.jsonEnvelope()
	default:
		err = d.walk(0)
	}
	if err != nil {
		return err
	}
	if !d.scan.End() {
		return d.scan.Fail("more after the end")
	}
	return nil
}

func (d *jsonReader) element(i int) error {
	if err := d.made.check(); err != nil {
		return err
	}
	if d.scan.Next() == '{' && d.matchTemplate(i, false) {
		return nil
	}
	return d.walk(i)
}

// alone reads an element. A syntax error is returned; anything else that is wrong refuses the element alone.
func (d *jsonReader) alone(i int) error {
	begin, from := d.scan.At(), len(d.fields)
	err := d.reading(i)
	if err == nil {
		return nil
	}
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	d.fields = d.fields[:from]
	d.addBad(i, f)
	d.scan.Seek(begin)
	return d.scan.Skip()
}

// errNoMessage is made once: a megabyte may have half a million elements that are no messages.
var errNoMessage = faultf(Undecodable, "a message is an object or an array of objects")

func (d *jsonReader) reading(i int) error {
	if d.scan.Next() != '{' {
		return errNoMessage
	}
	m := message{from: len(d.fields)}
	r, whole := &m.Reading, !d.flat
	d.from = m.from
	var number []byte // the number that the device gives the message
	var had [otherPlace]bool
	if d.flat {
		d.properties.clear()
	}
	err := d.scan.Object(func(name []byte) (err error) {
		if what, known := contents[string(name)]; known {
			if had[what] {
				return faultf(Undecodable, "the property %q occurs twice", name)
			}
			had[what] = true
		}
		switch string(name) {
		case "tenant":
			r.Tenant, err = d.text(&d.tenants, Tenant, "tenant")
		case "device":
			r.Device, err = d.text(&d.devices, Device, "device")
		case "ts":
			r.Time, m.timed, err = d.time()
		case "values":
			if d.scan.Next() != '{' && d.flat {
				return d.property(name)
			}
			d.fields, whole = d.fields[:m.from], true
			err = d.values()
		case "labels":
			r.Labels, err = d.labels(&d.labelNames, "labels")
		case "tags":
			r.Tags, err = d.labels(&d.tagNames, "tags")
		default:
			if !whole {
				return d.property(name)
			}
			begin := d.scan.At()
			isNumber := string(name) == d.opts.Sequence
			if err = d.scan.Skip(); err == nil && isNumber {
				if number != nil {
					return faultf(Undecodable, "the property %q occurs twice", d.opts.Sequence)
				}
				number = d.source[begin:d.scan.At()]
			}
		}
		return err
	})
	if err == nil && d.flat {
		err = d.complete(&m, whole)
	}
	if err != nil {
		return err
	}
	if err := d.numbered(number, m.from); err != nil {
		return err
	}
	return d.finish(i, &m)
}

// message is a reading while it is read.
type message struct {
	telemetry.Reading
	timed bool // it has a time
	from  int  // where its fields begin
}

func (d *Decoder) finish(index int, m *message) error {
	f := d.resolveOrigin(&m.Reading, "the message")
	switch {
	case f != nil || m.timed:
	case !d.origin.timed:
		f = faultf(Time, "the message has no ts")
	default:
		m.Time, f = d.recordTime("the message")
	}
	if f == nil {
		f = d.addReading(index, m.Reading, m.from)
	}
	if f != nil {
		return f
	}
	return nil
}

// text reads a checked string; null is none.
func (d *jsonReader) text(known *interner, reason Reason, what string) (string, error) {
	switch d.scan.Next() {
	case 'n':
		return "", d.scan.Word("null")
	case '"':
		raw, err := d.scan.Str()
		if err != nil {
			return "", err
		}
		s, err := known.get(raw)
		if err != nil {
			return "", faultf(reason, "%v", err)
		}
		return s, nil
	}
	return "", faultf(reason, "%s is not a string", what)
}

// time reads a number since 1970, in the unit of its magnitude, or RFC 3339, rounded down to milliseconds;
// null is none.
func (d *jsonReader) time() (millis int64, ok bool, err error) {
	switch c := d.scan.Next(); {
	case c == 'n':
		return 0, false, d.scan.Word("null")
	case c == '"':
		raw, err := d.scan.Str()
		if err != nil {
			return 0, false, err
		}
		t, ok := telemetry.ParseRFC3339(raw)
		if !ok {
			return 0, false, faultf(Time, "ts %.80q is not RFC 3339, such as 2026-11-20T10:00:00Z", raw)
		}
		return t.UnixMilli(), true, nil
	case c == '-' || c >= '0' && c <= '9':
		n, err := d.scan.Number()
		if err != nil {
			return 0, false, err
		}
		f, err := n.Float()
		n.Exp += telemetry.EpochPlaces(f)
		if millis, ok = n.Floor(); !ok || err != nil {
			return 0, false, faultf(Time, "ts %.80q is beyond int64", n.Text)
		}
		return millis, true, nil
	}
	return 0, false, faultf(Time, "ts is neither a number since 1970 nor RFC 3339")
}

// values reads the object of values into d.fields, in its order; null is no value.
func (d *jsonReader) values() error {
	switch d.scan.Next() {
	case 'n':
		return d.scan.Word("null")
	case '{':
	default:
		return faultf(Value, "values is not an object")
	}
	place := 0
	return d.scan.Object(func(raw []byte) error {
		name, err := d.metric(place, raw)
		if err != nil {
			return err
		}
		place++
		v, err := d.value(name)
		if err != nil {
			return err
		}
		d.fields = append(d.fields, telemetry.Field{Metric: name, Value: v})
		return nil
	})
}

// metric returns the name of the metric at a place in the reading.
func (d *Decoder) metric(place int, raw []byte) (string, error) {
	if err := d.made.part(fieldBytes + len(raw)); err != nil {
		return "", err
	}
	if name, ok := d.shape.guess(place, raw); ok {
		return name, nil
	}
	name, err := d.metrics.get(raw)
	if err != nil {
		return "", faultf(Name, "%v", err)
	}
	d.shape.learn(place, name)
	return name, nil
}

func (d *jsonReader) value(metric string) (telemetry.Value, error) {
	none := telemetry.Value{}
	switch c := d.scan.Next(); {
	case c == '-' || c >= '0' && c <= '9':
		n, err := d.scan.Number()
		if err != nil {
			return none, err
		}
		v, f := valueOf(n)
		if f != nil {
			return none, f
		}
		return v, nil
	case c == '"':
		raw, err := d.scan.Str()
		if err != nil {
			return none, err
		}
		s, _ := d.texts.get(raw)
		return telemetry.TextValue(s), nil
	case c == 't':
		return telemetry.BoolValue(true), d.scan.Word("true")
	case c == 'f':
		return telemetry.BoolValue(false), d.scan.Word("false")
	case c == 'n':
		return none, d.scan.Word("null")
	case c == '{':
		return d.special(metric)
	}
	return none, faultf(Value, "value of %q is an array", metric)
}

// special reads {"float":"NaN"}, {"float":"+Inf"} or {"float":"-Inf"}.
func (d *jsonReader) special(metric string) (telemetry.Value, error) {
	var v telemetry.Value
	wrong := func() error {
		return faultf(Value, `the value of %q is an object other than {"float":"NaN"|"+Inf"|"-Inf"}`, metric)
	}
	err := d.scan.Object(func(name []byte) error {
		if string(name) != "float" || v.Kind() != 0 || d.scan.Next() != '"' {
			return wrong()
		}
		raw, err := d.scan.Str()
		if err != nil {
			return err
		}
		switch string(raw) {
		case "NaN":
			v = telemetry.FloatValue(math.NaN())
		case "+Inf":
			v = telemetry.FloatValue(math.Inf(1))
		case "-Inf":
			v = telemetry.FloatValue(math.Inf(-1))
		default:
			return wrong()
		}
		return nil
	})
	if err == nil && v.Kind() == 0 {
		return v, wrong()
	}
	return v, err
}

// labels reads an object of strings, which are labels or tags; null is the empty set.
func (d *jsonReader) labels(names *interner, what string) (telemetry.Labels, error) {
	switch d.scan.Next() {
	case 'n':
		return nil, d.scan.Word("null")
	case '{':
	default:
		return nil, faultf(Label, "%s is not an object", what)
	}
	d.pairs = d.pairs[:0]
	err := d.scan.Object(func(raw []byte) error {
		name, err := names.get(raw)
		if err != nil {
			return faultf(Name, "%v", err)
		}
		if d.scan.Next() != '"' {
			return faultf(Label, "%s: the value of %q is not a string", what, name)
		}
		text, err := d.scan.Str()
		if err != nil {
			return err
		}
		value, _ := d.texts.get(text)
		d.pairs = append(d.pairs, telemetry.Label{Name: name, Value: value})
		return d.made.part(pairBytes)
	})
	if err != nil {
		return nil, err
	}
	set := d.labelSets.labels
	if what == "tags" {
		set = d.labelSets.get
	}
	labels, f := set(d.pairs, &d.key)
	if f != nil {
		return nil, f
	}
	return labels, nil
}
