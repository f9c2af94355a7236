package decode

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"binnacle/internal/telemetry"
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

// lineReader reads line protocol. What a line has in front of its fields comes again with each line of its device and
// labels, and its fields with each line of its measurement: both are remembered.
type lineReader struct {
	*Decoder
	heads        cache[*lineHead] // by their text
	measurements places           // by their names; inner has their fields
	room         room
	lookups      int // counts heads and fields that were not where they were the last times, for tests
	// contentType is the last record's, and millis converts times by its precision.
	contentType string
	millis      func(int64) (int64, bool)
	plain       []byte // names and texts without their escapes, of the current line
	breaks      int    // line ends in its strings
	most        int    // where its strings end at the latest
}

// lineHead is what measurement and tags mean.
type lineHead struct {
	measurement    *place
	tenant, device string
	// known is the entry of the device's name in the cache of names.
	known        *cached[int32]
	labels, tags telemetry.Labels
}

const (
	// maxLineHead bounds the text of a head that is remembered.
	maxLineHead = 1 << 10
	// lineHeadBytes bounds what heads take. Where lines have heads, there are no other names of devices.
	lineHeadBytes = 2 * deviceBytes
	// maxEntry bounds how far the end of a string is looked for behind the first line.
	maxEntry = 1 << 16
)

func newLineReader(d *Decoder) reader {
	return &lineReader{Decoder: d, heads: newCache[*lineHead](lineHeadBytes, setWeight), millis: byMagnitude}
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
	if d.room.full() {
		d.measurements, d.room = places{}, room{}
		d.heads = newCache[*lineHead](lineHeadBytes, setWeight)
	}
	d.lines(r.Value)
}

// lines reads line protocol. Lines are independent: a bad one does not touch the others.
func (d *lineReader) lines(value []byte) {
	for rest, line := value, 0; len(rest) > 0 && !d.made.over; {
		n, f := d.line(line, rest)
		if f != nil {
			n = entry(rest)
			if first := firstLine(rest); first < n {
				// A quote out of place has swallowed lines that may be right by themselves.
				n = first
				_, f = d.line(line, rest[:n])
			}
		}
		if f != nil {
			if d.breaks = bytes.Count(rest[:n-1], newline); !utf8.Valid(rest[:n]) {
				f = faultf(Undecodable, "the line is not valid UTF-8")
			}
			d.addBad(line, f)
		}
		rest, line = rest[n:], line+1+d.breaks
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

// entry returns the length of the first entry of line protocol in b, its line end included. An entry is a line, or more
// than one where a string field holds line ends. Without a closing quote in the next 64 KiB it is the first line.
func entry(b []byte) int {
	if first := bytes.TrimLeft(b, " \t\r"); len(first) > 0 && first[0] == '#' {
		return firstLine(b)
	}
	begun, fields, text := false, false, false // blanks at the begin are over, measurement and tags are; inside a string
	for i := 0; i < min(len(b), maxEntry); i++ {
		c, next := b[i], byte(0)
		if i+1 < len(b) {
			next = b[i+1]
		}
		switch {
		case c == '\\' && (text && (next == '"' || next == '\\') || !text && strings.IndexByte(", =", next) >= 0):
			i++
		case text:
			text = c != '"'
		case c == '\n':
			return i + 1
		case c == ' ':
			fields = begun
		case c == '=' && fields && next == '"':
			text = true
			i++
		default:
			begun = true
		}
	}
	if !text && len(b) <= maxEntry {
		return len(b)
	}
	return firstLine(b)
}

func firstLine(b []byte) int {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1
	}
	return len(b)
}

// line reads the entry, or the blank or comment line, that a text begins with, and returns its length with its end.
func (d *lineReader) line(index int, b []byte) (n int, f *fault) {
	d.plain, d.breaks, d.most = d.plain[:0], 0, len(b)
	if len(b) > maxEntry {
		d.most = max(maxEntry, firstLine(b))
	}
	at := spaces(b, 0)
	if end := lineEnd(b, at); end > 0 {
		return end, nil
	}
	if b[at] == '#' {
		return comment(b, at)
	}
	d.fields.start()
	h, at, f := d.head(b, at)
	if f == nil {
		at, f = d.lineFields(h, b, at)
	}
	if f != nil {
		return 0, f
	}
	d.devices.last = h.known
	r := telemetry.Reading{Tenant: h.tenant, Device: h.device, Labels: h.labels, Tags: h.tags}
	if r.Time, n, f = d.lineTime(b, at); f == nil {
		f = d.resolveOrigin(&r, "the line")
	}
	if f == nil {
		f = d.addReading(index, &r)
	}
	return n, f
}

func spaces(b []byte, at int) int {
	for at < len(b) && b[at] == ' ' {
		at++
	}
	return at
}

// lineEnd returns the place behind the end of a line that stands at a place, 0 if none does.
func lineEnd(b []byte, at int) int {
	switch {
	case at == len(b):
		return at
	case b[at] == '\n':
		return at + 1
	case b[at] != '\r':
	case at+1 == len(b):
		return at + 1
	case b[at+1] == '\n':
		return at + 2
	}
	return 0
}

func comment(b []byte, at int) (n int, f *fault) {
	for n = at; n < len(b) && b[n] >= ' ' && b[n] != 0x7f; n++ {
	}
	end := lineEnd(b, n)
	if end == 0 || !utf8.Valid(b[at:n]) {
		return 0, syntax("a comment has a control character")
	}
	return end, nil
}

func syntax(format string, args ...any) *fault {
	return faultf(Undecodable, "not line protocol: "+format, args...)
}

// head returns what the measurement and the tags at a place mean, and where they end, which is before a blank.
func (d *lineReader) head(b []byte, from int) (h *lineHead, at int, f *fault) {
	if n := bytes.IndexByte(b[from:min(len(b), from+maxLineHead)], ' '); n > 0 {
		if h, ok := d.heads.get(b[from : from+n]); ok {
			return h, from + n, nil
		}
	}
	d.lookups++
	measurement, at := d.token(b, from, false)
	if len(measurement) == 0 {
		return nil, at, syntax("a line begins with no measurement")
	}
	h = &lineHead{measurement: d.measurementOf(measurement)}
	var r telemetry.Reading
	d.pairs, d.others = d.pairs[:0], d.others[:0]
	for at < len(b) && b[at] == ',' {
		var name, value []byte
		if name, at = d.token(b, at+1, true); len(name) == 0 || at == len(b) || b[at] != '=' {
			return nil, at, syntax("the tag %.80q has no name, or no value", name)
		}
		if value, at = d.token(b, at+1, true); len(value) == 0 {
			return nil, at, syntax("the tag %.80q has no value", name)
		}
		if f = d.tag(&r, name, value); f != nil {
			return nil, at, f
		}
	}
	text := b[from:at]
	if at == len(b) || b[at] != ' ' || !utf8.Valid(text) {
		return nil, at, syntax("no blank behind %.80q", text)
	}
	h.tenant, h.device, h.known = r.Tenant, r.Device, d.devices.last
	if h.labels, f = d.labelSets.labels(d.pairs, &d.key); f == nil {
		h.tags, f = d.labelSets.get(d.others, &d.key)
	}
	if f == nil && len(text) <= maxLineHead && bytes.IndexByte(text, ' ') < 0 {
		d.heads.put(string(text), h)
	}
	return h, at, f
}

func (d *lineReader) measurementOf(name []byte) *place {
	p := d.measurements.get(name)
	if p == nil {
		p = &place{before: string(name), name: string(name) + "_", inner: &places{}}
		d.room.put(&d.measurements, p)
	}
	return p
}

// token returns the text at a place without its escapes, and where it ends: before a comma, a blank, a control
// character, or in names and values of tags and names of fields an equals sign.
func (d *lineReader) token(b []byte, at int, equals bool) (text []byte, end int) {
	from, begin := at, len(d.plain)
	for ; at < len(b); at++ {
		c := b[at]
		if c == '\\' && at+1 < len(b) && (b[at+1] == ',' || b[at+1] == ' ' || equals && b[at+1] == '=') {
			d.plain = append(d.plain, b[from:at]...)
			at++
			from = at
			continue
		}
		if c <= ' ' || c == ',' || c == 0x7f || c == '=' && equals {
			break
		}
	}
	if len(d.plain) == begin {
		return b[from:at], at
	}
	d.plain = append(d.plain, b[from:at]...)
	return d.plain[begin:len(d.plain):len(d.plain)], at
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

// lineFields reads the fields, which begin with the blanks at a place.
func (d *lineReader) lineFields(h *lineHead, b []byte, at int) (end int, f *fault) {
	last := &h.measurement.inner.begin
	for {
		p := last.follow(b[at:])
		if p == nil {
			if p, f = d.fieldAt(h.measurement, last, b, at); f != nil {
				return at, f
			}
		}
		at += len(p.before)
		metric, err := d.metricAt(p)
		if err != nil {
			return at, d.made.asFault(err)
		}
		value := d.fields.next(metric)
		value.Metric = metric
		if x, end, ok := plainNumber(b, at); ok && endsField(b, end) {
			value.Value, at = telemetry.FloatValue(x), end
		} else if value.Value, at, f = d.lineValue(p, b, at); f != nil {
			return at, f
		}
		if at == len(b) || b[at] != ',' {
			return at, nil
		}
		last = p
	}
}

// fieldAt returns the field with the name at a place, behind the comma or the blanks there, and what it came behind.
func (d *lineReader) fieldAt(measurement, last *place, b []byte, from int) (*place, *fault) {
	d.lookups++
	begin := from + 1
	if b[from] == ' ' {
		begin = spaces(b, from)
	}
	name, at := d.token(b, begin, true)
	switch {
	case len(name) == 0:
		return nil, syntax("a field has no name")
	case at == len(b) || b[at] != '=':
		return nil, syntax("the field %.80q has no value", name)
	case !utf8.Valid(b[begin:at]):
		return nil, syntax("the name %.80q is not valid UTF-8", name)
	}
	before := b[from : at+1]
	p := measurement.inner.get(before)
	if p == nil {
		p = &place{before: string(before), name: string(name)}
		if d.opts.Metric != "field" {
			p.name = measurement.name + p.name
		}
		if !d.room.put(measurement.inner, p) {
			return p, nil
		}
	}
	last.link(p)
	return p, nil
}

func endsField(b []byte, at int) bool {
	if at == len(b) {
		return true
	}
	c := b[at]
	return c == ',' || c == ' ' || c == '\n' || c == '\r'
}

// lineValue reads the value at a place exactly: i and u are int64, and what does not fit is not a value.
func (d *lineReader) lineValue(p *place, b []byte, at int) (v telemetry.Value, end int, f *fault) {
	switch {
	case at == len(b):
		return v, at, syntax("the field %.80q has no value", p.name)
	case b[at] == '"':
		return d.lineString(b, at+1)
	}
	for end = at; !endsField(b, end); {
		end++
	}
	ok, raw := false, string(b[at:end])
	switch c := b[at]; {
	case raw == "t", raw == "T", raw == "true", raw == "True", raw == "TRUE":
		v, ok = telemetry.BoolValue(true), true
	case raw == "f", raw == "F", raw == "false", raw == "False", raw == "FALSE":
		v, ok = telemetry.BoolValue(false), true
	case c == 't', c == 'T', c == 'f', c == 'F':
	case c != '-' && c != '.' && (c < '0' || c > '9'):
		return v, end, syntax("the value of the field %.80q is of no type", p.name)
	case raw[len(raw)-1] == 'i':
		i, err := strconv.ParseInt(raw[:len(raw)-1], 10, 64)
		v, ok = telemetry.IntValue(i), err == nil
	case raw[len(raw)-1] == 'u':
		i, err := strconv.ParseUint(raw[:len(raw)-1], 10, 63)
		v, ok = telemetry.IntValue(int64(i)), err == nil
	default:
		x, err := strconv.ParseFloat(raw, 64)
		v, ok = telemetry.FloatValue(x), err == nil && !strings.ContainsAny(raw, "xXpP_")
	}
	if !ok {
		f = faultf(Value, "field %.80q: %.80q is not a value", p.name, raw)
	}
	return v, end, f
}

// lineString reads a string behind its opening quote. Only a quote and a backslash are escaped in it: \n, \r and \t
// stand for themselves, a backslash and a letter.
func (d *lineReader) lineString(b []byte, at int) (v telemetry.Value, end int, f *fault) {
	from, begin := at, len(d.plain)
	for ; at < d.most; at++ {
		switch c := b[at]; {
		case c == '\n':
			d.breaks++
		case c == '\\' && at+1 < d.most && (b[at+1] == '"' || b[at+1] == '\\'):
			d.plain = append(d.plain, b[from:at]...)
			at++
			from = at
		case c == '"':
			text := b[from:at]
			if len(d.plain) > begin {
				d.plain = append(d.plain, text...)
				text = d.plain[begin:]
			}
			s, err := d.checked.get(text)
			if err != nil || !endsField(b, at+1) {
				return v, at, syntax("text behind a string, or a string that is not valid UTF-8")
			}
			return telemetry.TextValue(s), at + 1, nil
		}
	}
	return v, at, syntax("a string has no closing quote")
}

// lineTime reads the time behind the fields, if there is one, and the end of the line.
func (d *lineReader) lineTime(b []byte, at int) (t int64, n int, f *fault) {
	if at = spaces(b, at); lineEnd(b, at) > 0 {
		t, f = d.recordTime("the line")
		return t, lineEnd(b, at), f
	}
	from := at
	if b[at] == '-' {
		at++
	}
	units, first := uint64(0), at
	for ; at < len(b) && b[at] >= '0' && b[at] <= '9'; at++ {
		units = units*10 + uint64(b[at]-'0')
	}
	signed := int64(units)
	if first > from {
		signed = -signed
	}
	if at-first > 19 || units > math.MaxInt64 { // 19 digits do not overflow the 64 bits
		var err error
		if signed, err = strconv.ParseInt(string(b[from:at]), 10, 64); err != nil {
			return 0, 0, faultf(Time, "time %.80q is not an int64", b[from:at])
		}
	}
	if n = lineEnd(b, spaces(b, at)); at == first || n == 0 {
		return 0, 0, faultf(Time, "time %.80q is not an int64", b[from:from+firstLine(b[from:])])
	}
	t, ok := d.millis(signed)
	if !ok {
		return 0, 0, faultf(Time, "time %.80q is not an int64", b[from:at])
	}
	return t, n, nil
}
