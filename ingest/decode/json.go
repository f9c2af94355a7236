package decode

import (
	"bytes"
	"errors"
	"math"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsonscan"
)

// jsonReader reads messages in JSON, objects of any shape, and payloads that their first property identifies: an
// envelope of IoT Hub, an export of OTLP.
type jsonReader struct {
	objects
	scan     jsonscan.Scanner
	source   []byte // the payload that is scanned
	flat     bool   // an object may have any shape
	messages places
	room     room
	lookups  int                     // counts properties that were not where they were the last times, for tests
	sets     cache[telemetry.Labels] // labels by their text, which is an object with one brace that closes
	shapes   shapes
	// unchecked says that the text may not be UTF-8. That of a known shape is, but for its leaves.
	unchecked bool

	// Of the current message.
	message unfinished
	had     [otherPart]bool
	whole   bool   // it has an object of values: no other property is a value
	number  []byte // the number that the device gives it
}

// content is the meaning of a property of a message.
type content uint8

const (
	tenantPart content = iota
	devicePart
	timePart
	labelsPart
	tagsPart
	valuesPart
	otherPart // none of these
)

var contents = map[string]content{
	"tenant": tenantPart, "device": devicePart, "ts": timePart,
	"labels": labelsPart, "tags": tagsPart, "values": valuesPart,
}

func newJSONReader(d *Decoder) reader {
	r := &jsonReader{objects: newObjects(d), sets: newCache[telemetry.Labels](deviceBytes, setWeight)}
	r.valueAt = r.scalarAt
	return r
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
	if d.room.full() {
		d.messages, d.room, d.shapes = places{}, room{}, shapes{} // shapes refer to places
	}
	if err := d.jsonText(); err != nil {
		d.refuseRecord(faultf(Undecodable, "not JSON: %v", err))
	}
}

func (d *jsonReader) jsonText() error {
	next := d.scan.Next()
	if d.unchecked = next == '{' && d.messages.begin.follow(d.source[d.scan.At():]) != nil; d.unchecked {
		if err := d.alone(0); err != nil {
			return err
		}
		return d.end()
	}
	if !valid(d.source) {
		return errNotUTF8
	}
	var err error
	switch first := d.scan.First(); {
	case next == '[':
		err = d.scan.Array(func(i int) error {
			if err := d.made.check(); err != nil {
				return err
			}
			return d.alone(i)
		})
	case string(first) == "resourceMetrics":
		err = d.readerOf(OTLP).(*otlpReader).readJSON(&d.scan, len(d.source))
	case beginsEnvelope(first):
		return d.jsonEnvelope()
	default:
		err = d.alone(0)
	}
	if err != nil {
		return err
	}
	return d.end()
}

var errNotUTF8 = errors.New("not valid UTF-8")

func (d *jsonReader) end() error {
	if !d.scan.End() {
		return d.scan.Fail("more after the end")
	}
	return nil
}

// alone reads an element. A syntax error is returned; anything else that is wrong refuses the element alone.
func (d *jsonReader) alone(i int) error {
	begin := d.scan.At()
	err := d.reading(i)
	if err == nil {
		return nil
	}
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
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
	var err error
	from := d.scan.At()
	d.fields.begin = len(d.fields.sorted)
	if !d.fits(from) {
		if d.unchecked && !valid(d.source) {
			return errNotUTF8
		}
		d.scan.Seek(from)
		d.begin()
		err = d.object(&d.messages, "", messageKind)
	}
	if err == nil && d.flat {
		err = d.complete(&d.message, d.whole)
	}
	if err != nil {
		return err
	}
	if err := d.numbered(d.number); err != nil {
		return err
	}
	if err = d.finish(i, &d.message); err == nil && d.shapes.learns {
		d.learn(from)
	}
	return err
}

// begin forgets what was read of a message.
func (d *jsonReader) begin() {
	d.message, d.made.message = unfinished{}, 0
	d.fields.drop()
	d.number, d.whole = nil, !d.flat
	clear(d.had[:])
	if d.flat {
		d.properties.clear()
	}
}

// objectKind is the kind of an object: which method reads its properties.
type objectKind uint8

const (
	messageKind objectKind = iota // part
	valuesKind                    // single
	flatKind                      // property
)

// object reads the object that begins here, which has its properties in s. The names of the objects around it are in
// path.
func (d *jsonReader) object(s *places, path string, k objectKind) error {
	if err := d.scan.Enter(); err != nil {
		return err
	}
	defer d.scan.Leave()
	last, at := &s.begin, d.scan.At()
	for more := true; more; {
		var err error
		p := last.follow(d.source[at:])
		if p != nil {
			d.scan.Seek(at + len(p.before))
		} else {
			d.scan.Seek(at + 1)
			if d.scan.Next() == '}' && last == &s.begin {
				d.scan.Seek(d.scan.At() + 1)
				return nil
			}
			name, err := d.scan.Name()
			if err != nil {
				return err
			}
			if err := d.made.part(len(path)); err != nil {
				return err
			}
			d.scan.Next()
			p = d.placeOf(s, last, path, name, d.source[at:d.scan.At()])
		}
		c, from := d.scan.Next(), d.scan.At()
		if err = d.take(p, k); err != nil {
			return err
		}
		if c != '{' || p.inner == nil {
			x := leaf{place: p, kind: k, from: from, to: d.scan.At()}
			if (c == '-' || c-'0' <= 9) && (k != messageKind || !d.whole) {
				x.metric = p.metric
			}
			d.shapes.find(x)
		}
		if more, err = d.scan.More('}'); err != nil {
			return err
		}
		last, at = p, d.scan.At()
	}
	return nil
}

// take reads a property of an object of some kind.
func (d *jsonReader) take(p *place, k objectKind) error {
	switch k {
	case messageKind:
		return d.part(p)
	case valuesKind:
		return d.single(p)
	}
	return d.property(p)
}

// placeOf returns the place of a property with the name, which has the text before in front of its value and came
// behind another one.
func (d *jsonReader) placeOf(s *places, last *place, path string, name, before []byte) *place {
	d.lookups++
	if p := s.get(before); p != nil {
		last.link(p)
		return p
	}
	p := &place{before: string(before), name: string(name), what: otherPart}
	if what, known := contents[p.name]; known {
		p.what = what
	}
	if path != "" {
		p.name = path + "_" + p.name
	}
	p.propertyRole = d.roles[p.name]
	if special := last == &d.messages.begin && (p.name == "resourceMetrics" || beginsEnvelope(name)); special {
		return p // alone, such an object is no message
	}
	if d.room.put(s, p) {
		last.link(p)
	}
	return p
}

// part reads a property of the message itself.
func (d *jsonReader) part(p *place) (err error) {
	if p.what < otherPart {
		if d.had[p.what] {
			return faultf(Undecodable, "the property %q occurs twice", p.name)
		}
		d.had[p.what] = true
	}
	r := &d.message.Reading
	switch p.what {
	case tenantPart:
		r.Tenant, err = d.text(&d.tenants, Tenant, "tenant")
	case devicePart:
		r.Device, err = d.text(&d.devices, Device, "device")
	case timePart:
		r.Time, d.message.timed, err = d.instant()
	case valuesPart:
		if d.flat && d.scan.Next() != '{' {
			err = d.property(p)
			p.metric = "" // it is not always a value
			return err
		}
		d.fields.drop()
		d.whole = true
		err = d.values(p)
	case labelsPart:
		r.Labels, err = d.labels(&d.labelNames, "labels")
	case tagsPart:
		r.Tags, err = d.labels(&d.tagNames, "tags")
	default:
		if !d.whole {
			return d.property(p)
		}
		d.scan.Next()
		begin := d.scan.At()
		if err = d.scan.Skip(); err == nil && p.name == d.opts.Sequence {
			if d.number != nil {
				return faultf(Undecodable, "the property %q occurs twice", d.opts.Sequence)
			}
			d.number = d.source[begin:d.scan.At()]
		}
	}
	return err
}

// unfinished is a reading while it is read.
type unfinished struct {
	telemetry.Reading
	timed bool // it has a time
}

func (d *Decoder) finish(index int, m *unfinished) error {
	f := d.resolveOrigin(&m.Reading, "the message")
	switch {
	case f != nil || m.timed:
	case !d.origin.timed:
		f = faultf(Time, "the message has no ts")
	default:
		m.Time, f = d.recordTime("the message")
	}
	if f == nil {
		f = d.addReading(index, &m.Reading)
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

// instant reads a number since 1970, in the unit of its magnitude, or RFC 3339, rounded down to milliseconds;
// null is none.
func (d *jsonReader) instant() (millis int64, ok bool, err error) {
	if millis, ok = d.digits(); ok {
		return telemetry.EpochMillis(millis), true, nil
	}
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

// digits reads a whole number of at most 18 digits, which nearly all times are. It reads nothing else.
func (d *jsonReader) digits() (n int64, ok bool) {
	from := d.scan.At()
	at := from
	for ; at < len(d.source) && at-from < 18; at++ {
		c := d.source[at] - '0'
		if c > 9 {
			break
		}
		n = n*10 + int64(c)
	}
	if at == from || d.source[from] == '0' || at == len(d.source) || d.source[at] != ',' && d.source[at] != '}' {
		return 0, false
	}
	d.scan.Seek(at)
	return n, true
}

// values reads the object of values into d.fields, in its order; null is no value.
func (d *jsonReader) values(p *place) error {
	switch d.scan.Next() {
	case 'n':
		return d.scan.Word("null")
	case '{':
	default:
		return faultf(Value, "values is not an object")
	}
	return d.object(p.objects(), "", valuesKind)
}

// single reads a property that is a value.
func (d *jsonReader) single(p *place) error {
	metric, err := d.metricAt(p)
	if err != nil {
		return err
	}
	v, err := d.scalar(metric)
	if err != nil {
		return err
	}
	d.put(metric, v)
	return nil
}

func (d *jsonReader) scalar(metric string) (telemetry.Value, error) {
	if x, end, ok := plainNumber(d.source, d.scan.At()); ok {
		d.scan.Seek(end)
		return telemetry.FloatValue(x), nil
	}
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
	at := d.scan.At()
	end := at + 1 + bytes.IndexByte(d.source[at:], '}')
	if l, ok := d.sets.get(d.source[at:end]); ok {
		d.scan.Seek(end)
		return l, nil
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
	// An empty value is a label of tags only.
	text := d.source[at:end]
	if d.scan.At() == end && len(text) <= maxInternedBytes*2 && !bytes.Contains(text, []byte(`""`)) {
		d.sets.put(string(text), labels)
	}
	return labels, nil
}
