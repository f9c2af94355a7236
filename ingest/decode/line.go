package decode

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"binnacle/internal/telemetry"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// precisions convert the times of line protocol to milliseconds, rounded down. Without one the magnitude decides: a
// sender of seconds that does not name them means seconds.
var precisions = map[string]func(int64) (int64, bool){
	"":   byMagnitude,
	"ns": func(t int64) (int64, bool) { return telemetry.FloorDiv(t, 1e6), true },
	"us": func(t int64) (int64, bool) { return telemetry.FloorDiv(t, 1e3), true },
	"ms": func(t int64) (int64, bool) { return t, true },
	"s": func(t int64) (int64, bool) {
		return t * 1e3, t >= math.MinInt64/1000 && t <= math.MaxInt64/1000
	},
}

func byMagnitude(t int64) (int64, bool) { return telemetry.EpochMillis(t), true }

// lineReader reads line protocol.
type lineReader struct {
	*Decoder
	templates lineTemplates
	// contentType is the last record's, and millis converts times by its precision.
	contentType string
	millis      func(int64) (int64, bool)
	doubled     []byte // an entry with more backslashes
}

func newLineReader(d *Decoder) reader {
	return &lineReader{Decoder: d, templates: newLineTemplates(d.opts.Set != Names{}), millis: byMagnitude}
}

func (d *lineReader) read(r Record, params map[string]string) {
	if r.ContentType != d.contentType {
		millis, ok := precisions[params["precision"]]
		if !ok {
			d.addBad(Whole, faultf(ContentType, "content-type %.80q: precision is ns, us, ms or s", r.ContentType))
			return
		}
		d.contentType, d.millis = r.ContentType, millis
	}
	d.lines(r.Value)
}

// lines reads line protocol. Lines are independent: a bad one does not touch the others.
func (d *lineReader) lines(value []byte) {
	rest, line := value, 0
	for len(rest) > 0 && !d.made.over {
		if n := d.matchLine(line, rest); n > 0 {
			rest = rest[n:]
			line++
			continue
		}
		entry, n := rest[:Entry(rest)], len(d.out.Readings)
		f := d.line(line, entry)
		if first := firstLine(entry); f != nil && first < len(entry) {
			// A quote out of place has swallowed lines that may be right by themselves.
			entry = entry[:first]
			f = d.line(line, entry)
		}
		switch {
		case f != nil:
			d.addBad(line, f)
		case len(d.out.Readings) > n:
			d.learnLine(entry)
		}
		line += bytes.Count(entry, newline)
		rest = rest[len(entry):]
	}
}

// looksLikeLine reports whether the first line that is no comment is text and has a blank and an equals sign behind it.
func looksLikeLine(value []byte) bool {
	for rest := value; len(rest) > 0; {
		line := rest[:firstLine(rest)]
		rest = rest[len(line):]
		line = bytes.TrimLeft(line, " \t\r\n")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		_, fields, ok := bytes.Cut(line, []byte{' '})
		return ok && bytes.IndexByte(fields, '=') > 0 && isText(line)
	}
	return len(value) > 0 && value[blanks(value)] == '#'
}

var newline = []byte{'\n'}

// maxEntry bounds how far Entry looks for the end of a string.
const maxEntry = 1 << 16

// lineWalk goes through an entry of line protocol, as far as it takes to know where strings begin and end. Its zero
// value is before the measurement.
type lineWalk struct {
	begun  bool // blanks before the measurement are over
	fields bool // measurement and tags are over
	text   bool // inside a string field
}

// next returns how many of the bytes that follow belong together: an escape, the begin of a string, or one byte.
func (w *lineWalk) next(b []byte) int {
	escapes, begin := ", =", byte(0)
	if w.text {
		escapes = `"\`
	}
	if len(b) > 1 && b[0] == '\\' && strings.IndexByte(escapes, b[1]) >= 0 {
		return 2
	}
	if w.fields && len(b) > 1 && b[0] == '=' {
		begin = b[1]
	}
	switch c := b[0]; {
	case w.text:
		w.text = c != '"'
	case begin == '"':
		w.text = true
		return 2
	case c != ' ':
		w.begun = true
	default:
		w.fields = w.begun
	}
	return 1
}

// Entry returns the length of the first entry of line protocol in b, its line end included. An entry is a line, or more
// than one where a string field holds line ends. Without a closing quote in the next 64 KiB it is the first line.
func Entry(b []byte) int {
	if first := bytes.TrimLeft(b, " \t\r"); len(first) > 0 && first[0] == '#' {
		return firstLine(b)
	}
	var w lineWalk
	for i := 0; i < min(len(b), maxEntry); i += w.next(b[i:]) {
		if b[i] == '\n' && !w.text {
			return i + 1
		}
	}
	if !w.text && len(b) <= maxEntry {
		return len(b)
	}
	return firstLine(b)
}

// literal returns an entry in which \n, \r and \t in strings stand for themselves, a backslash and a letter, when the
// library reads it: that takes them for control characters, and the format knows no such escapes.
func (d *lineReader) literal(entry []byte) []byte {
	if bytes.IndexByte(entry, '\\') < 0 {
		return entry
	}
	if d.doubled = d.doubled[:0]; cap(d.doubled) > maxEntry {
		d.doubled = nil
	}
	var w lineWalk
	for i := 0; i < len(entry); {
		if rest := entry[i:]; w.text && len(rest) > 1 && rest[0] == '\\' && strings.IndexByte("nrt", rest[1]) >= 0 {
			d.doubled = append(d.doubled, '\\')
		}
		n := w.next(entry[i:])
		d.doubled = append(d.doubled, entry[i:i+n]...)
		i += n
	}
	return d.doubled
}

func firstLine(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	return len(b)
}

// line reads one entry, or a blank or comment line, which is nothing.
func (d *lineReader) line(index int, entry []byte) *fault {
	if !utf8.Valid(entry) {
		return faultf(Undecodable, "the line is not valid UTF-8")
	}
	lp := lineprotocol.NewDecoderWithBytes(d.literal(entry))
	if !lp.Next() {
		return nil
	}
	measurement, err := lp.Measurement()
	if err != nil {
		return syntax(err)
	}
	from := len(d.fields)
	d.key = append(append(d.key[:0], measurement...), '_')
	r, f := d.lineTags(lp)
	if f == nil {
		f = d.lineFields(lp)
	}
	if f == nil {
		r.Time, f = d.lineTime(lp)
	}
	if f == nil && lp.Next() {
		f = faultf(Undecodable, "more than one line in an entry")
	}
	if f == nil {
		f = d.resolveOrigin(&r, "the line")
	}
	if f == nil {
		f = d.lineLabels(&r.Labels, &r.Tags)
	}
	if f == nil {
		f = d.addReading(index, r, from)
	}
	if f != nil {
		d.fields = d.fields[:from]
	}
	return f
}

// lineLabels gives a line the labels in d.pairs and the tags in d.others.
func (d *Decoder) lineLabels(labels, tags *telemetry.Labels) (f *fault) {
	if *labels, f = d.labelSets.labels(d.pairs, &d.key); f == nil {
		*tags, f = d.labelSets.get(d.others, &d.key)
	}
	return f
}

func syntax(err error) *fault { return faultf(Undecodable, "not line protocol: %.200v", err) }

func (d *lineReader) lineTags(lp *lineprotocol.Decoder) (r telemetry.Reading, f *fault) {
	d.pairs, d.others = d.pairs[:0], d.others[:0]
	for {
		name, value, err := lp.NextTag()
		if err != nil {
			return r, syntax(err)
		}
		if name == nil {
			return r, nil
		}
		if f = d.tag(&r, name, value); f != nil {
			return r, f
		}
	}
}

// tag takes a tag: the tenant and the device go into the reading, labels into d.pairs, tags into d.others.
func (d *Decoder) tag(r *telemetry.Reading, name, value []byte) (f *fault) {
	var err error
	switch tag := string(name); {
	case tag == d.opts.DeviceTag && r.Device != "", tag == d.opts.TenantTag && r.Tenant != "":
		return faultf(Label, "the tag %q occurs twice", name)
	case tag == d.opts.DeviceTag:
		if r.Device, err = d.devices.get(value); err != nil {
			return faultf(Device, "%v", err)
		}
	case tag == d.opts.TenantTag:
		if r.Tenant, err = d.tenants.get(value); err != nil {
			return faultf(Tenant, "%v", err)
		}
	case d.tags[tag]:
		var l telemetry.Label
		l, f = d.label(&d.tagNames, name, value)
		d.others = append(d.others, l)
	default:
		var l telemetry.Label
		l, f = d.label(&d.labelNames, name, value)
		d.pairs = append(d.pairs, l)
	}
	return f
}

func (d *Decoder) label(names *interner, name, value []byte) (telemetry.Label, *fault) {
	n, err := names.get(name)
	if err != nil {
		return telemetry.Label{}, faultf(Name, "%v", err)
	}
	v, _ := d.texts.get(value)
	return telemetry.Label{Name: n, Value: v}, nil
}

// lineFields reads the fields; d.key holds the measurement and an underscore.
func (d *lineReader) lineFields(lp *lineprotocol.Decoder) *fault {
	prefix := len(d.key)
	for place := 0; ; place++ {
		field, kind, raw, err := lp.NextFieldBytes()
		if err != nil {
			return syntax(err)
		}
		if field == nil {
			return nil
		}
		metric := field
		if d.opts.Metric != "field" {
			d.key = append(d.key[:prefix], field...)
			metric = d.key
		}
		name, err := d.metric(place, metric)
		if err != nil {
			return faultf(Name, "%v", err)
		}
		v, ok := d.lineValue(kind, raw)
		if !ok {
			return faultf(Value, "field %.80q: %s %.80q is not a value", field, kind, raw)
		}
		d.fields = append(d.fields, telemetry.Field{Metric: name, Value: v})
	}
}

// lineValue reads a value exactly: i and u are int64, and what does not fit is not a value.
func (d *lineReader) lineValue(kind lineprotocol.ValueKind, raw []byte) (v telemetry.Value, ok bool) {
	switch kind {
	case lineprotocol.Int:
		i, err := strconv.ParseInt(string(raw), 10, 64)
		return telemetry.IntValue(i), err == nil
	case lineprotocol.Uint:
		i, err := strconv.ParseUint(string(raw), 10, 63)
		return telemetry.IntValue(int64(i)), err == nil
	case lineprotocol.Float:
		if f, end, ok := plainNumber(raw, 0); ok && end == len(raw) {
			return telemetry.FloatValue(f), true
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		return telemetry.FloatValue(f), err == nil && !bytes.ContainsAny(raw, "xXpP_")
	case lineprotocol.Bool:
		switch string(raw) {
		case "t", "T", "true", "True", "TRUE":
			return telemetry.BoolValue(true), true
		case "f", "F", "false", "False", "FALSE":
			return telemetry.BoolValue(false), true
		}
	case lineprotocol.String:
		s, _ := d.texts.get(raw)
		return telemetry.TextValue(s), true
	}
	return telemetry.Value{}, false
}

func (d *lineReader) lineTime(lp *lineprotocol.Decoder) (int64, *fault) {
	raw, err := lp.TimeBytes()
	if err != nil {
		return 0, faultf(Time, "%.200v", err)
	}
	if raw == nil {
		return d.recordTime("the line")
	}
	units, err := strconv.ParseInt(string(raw), 10, 64)
	t, ok := d.millis(units)
	if err != nil || !ok {
		return 0, faultf(Time, "time %.80q is not an int64", raw)
	}
	return t, nil
}
