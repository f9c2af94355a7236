package decode

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// templates are the forms of messages that were read before. A producer's messages resemble each other: between values
// stand the same bytes. Where they do, only the values are read, which takes two sevenths of the time. A template only
// saves work: what matches in all is what the full walk would find; what does not, be it wrong or only different, is
// left to that walk, from its beginning.
type templates struct {
	frames []*frame                // frames of messages; the last one that fit comes first
	flat   []*frame                // frames of flat texts; the last one that fit comes first
	bodies []*body                 // at most maxBodies; they keep their places, and devices tell which they use
	body   int                     // place of the body that fit last
	next   int                     // place of the body to be replaced next
	sets   cache[telemetry.Labels] // labels by their text, which is an object with one brace that closes
	tenant string                  // the last message's
	budget tryBudget
	off    bool // none is tried or learnt
	fits   int  // counts messages, for tests
	until  int  // last place at which a message that fits may end
}

const (
	maxFrames = 8
	maxBodies = 16 // and frames of flat texts, which are both in one

	// maxTemplate bounds the text of a message that becomes a template, and of one that matches: long texts are not read
	// again for each template that they may match.
	maxTemplate = 1 << 14

	// A match saves four times what a try in vain takes, and as much as learning takes. A spent budget is renewed after
	// restMessages.
	fitGain      = 4
	vainCost     = 1
	learnCost    = 4
	maxBudget    = 256
	restBudget   = 64
	restMessages = 256
)

// frame is a message without its values: the texts between placeholders, and every placeholder's content. The frame
// of an object of any shape has its values among the placeholders.
type frame struct {
	placeholders []placeholder
	end          string            // behind the last one
	fields       []telemetry.Field // one for each valuePlace, in their order, without values
	timed        bool              // it has a time
}

// placeholder is a value of a message, and the text before it.
type placeholder struct {
	before string
	what   content
	// number is a valuePlace's place among the fields, and for an arrayPlace, how many objects are around it.
	number int
	name   string // name of a label or tag
}

// content is the meaning of a placeholder's value.
type content uint8

const (
	tenantPlace content = iota
	devicePlace
	timePlace
	labelsPlace
	tagsPlace
	valuesPlace
	otherPlace // not read

	// In objects of any shape.
	valuePlace // one value
	labelPlace // a label's text
	tagPlace
	arrayPlace // which is skipped
)

// body is an object of values: the text before every value, and the value's place among the fields.
type body struct {
	before []string
	ranks  []int
	fields []telemetry.Field // fields in their order, without values
	end    string
}

// tryBudget limits tries of templates that do not match.
type tryBudget struct {
	left  int // below 0 they are not
	pause int // messages that are not tried
}

func (l *tryBudget) allows() bool {
	if l.left < 0 {
		if l.pause--; l.pause > 0 {
			return false
		}
		l.left = restBudget
	}
	return true
}

func (l *tryBudget) gain() { l.left = min(l.left+fitGain, maxBudget) }

func (l *tryBudget) spend(n int) {
	if l.left -= n; l.left < 0 {
		l.pause = restMessages
	}
}

// matchTemplate reads the message at the scanner's place, if it matches; alone means that nothing may follow. If it
// does not match, all is as before.
func (d *jsonReader) matchTemplate(index int, alone bool) bool {
	s := &d.templates
	frames := *s.of(d.flat)
	if s.off || !s.budget.allows() || len(frames) == 0 {
		return false
	}
	begin, from := d.scan.Mark(), len(d.fields)
	s.until = d.scan.At() + maxTemplate
	for i, f := range frames {
		r, ok := d.fit(f, s.until-maxTemplate)
		if ok && (!alone || d.scan.End()) && d.resolveOrigin(&r, "the message") == nil {
			r.Fields = d.fields[from:len(d.fields):len(d.fields)]
			d.append(index, &r)
			frames[0], frames[i] = frames[i], frames[0]
			s.budget.gain()
			s.fits++
			return true
		}
		d.fields = d.fields[:from]
		long := d.scan.At() > s.until
		if d.scan.Rewind(begin); long {
			break
		}
	}
	s.budget.spend(vainCost)
	return false
}

// of returns the frames of flat texts, or of the other texts.
func (s *templates) of(flat bool) *[]*frame {
	if flat {
		return &s.flat
	}
	return &s.frames
}

// fit reads a message that has a frame. Its fields are appended to d.fields.
func (d *jsonReader) fit(f *frame, at int) (r telemetry.Reading, ok bool) {
	var device interned
	if r.Time = d.origin.now; !f.timed && (!d.origin.timed || r.Time < 0) {
		return r, false
	}
	from, nulls := len(d.fields), false
	d.fields = append(d.fields, f.fields...)
	p := &d.properties
	p.labels, p.tags = p.labels[:0], p.tags[:0]
	for i := range f.placeholders {
		h := &f.placeholders[i]
		if at, ok = behind(d.source, at, h.before); !ok {
			return r, false
		}
		switch h.what {
		case tenantPlace:
			r.Tenant, at, ok = d.fitTenant(at)
		case devicePlace:
			device, at, ok = d.fitDevice(at)
			r.Device = device.text
		case timePlace:
			r.Time, at, ok = d.fitTime(at)
		case labelsPlace:
			r.Labels, at, ok = d.fitLabels(at, "labels")
		case tagsPlace:
			r.Tags, at, ok = d.fitLabels(at, "tags")
		case valuesPlace:
			at, ok = d.fitValues(device, at)
		case otherPlace:
			at, ok = d.fitSkipped(at, 1)
		case valuePlace:
			field := &d.fields[from+h.number]
			if ok = at < len(d.source) && d.source[at] != '{'; ok { // objects have values of their own
				at, ok = d.fitValue(field, at)
				nulls = nulls || field.Value.Kind() == 0
			}
		case labelPlace:
			p.labels, at, ok = d.fitLabel(p.labels, h.name, at)
		case tagPlace:
			p.tags, at, ok = d.fitLabel(p.tags, h.name, at)
		case arrayPlace:
			if ok = at < len(d.source) && d.source[at] == '['; ok {
				at, ok = d.fitSkipped(at, h.number)
			}
		}
		if !ok {
			return r, false
		}
	}
	if at, ok = behind(d.source, at, f.end); !ok || nulls && !d.dropNulls(from) {
		return r, false
	}
	d.scan.Seek(at)
	return r, p.labelsInto(d.Decoder, &r) == nil
}

// fitSkipped reads any value inside depth objects of the message.
func (d *jsonReader) fitSkipped(at, depth int) (end int, ok bool) {
	d.scan.Seek(at)
	ok = d.scan.SkipInside(depth) == nil && utf8.Valid(d.source[at:d.scan.At()])
	return d.scan.At(), ok
}

// fitLabel reads a text, which is that of a label unless it is empty.
func (d *jsonReader) fitLabel(to []telemetry.Label, name string, at int) (labels []telemetry.Label, end int, ok bool) {
	if at == len(d.source) || d.source[at] != '"' {
		return to, at, false
	}
	d.scan.Seek(at)
	raw, err := d.scan.Str()
	if end = d.scan.At(); err != nil || end > d.templates.until || !utf8.Valid(d.source[at:end]) {
		return to, at, false
	}
	if text, _ := d.texts.get(raw); text != "" {
		to = append(to, telemetry.Label{Name: name, Value: text})
	}
	return to, end, true
}

// behind returns the place after a text, and whether source has the text at the given place.
func behind(source []byte, at int, text string) (int, bool) {
	end := at + len(text)
	return end, end <= len(source) && string(source[at:end]) == text
}

// quoted returns a string without escapes, with its opening quote before the given place, and where it ends. It may
// hold bytes that no string may: callers look it up among checked strings.
func (d *jsonReader) quoted(at int) (text []byte, end int, ok bool) {
	n := bytes.IndexByte(d.source[at:], '"')
	if n < 0 {
		return nil, at, false
	}
	return d.source[at : at+n], at + n + 1, true
}

func (d *jsonReader) fitTenant(at int) (string, int, bool) {
	raw, end, ok := d.quoted(at)
	if !ok || len(raw) == 0 {
		return "", at, false
	}
	if string(raw) == d.templates.tenant {
		return d.templates.tenant, end, true
	}
	known, ok := d.tenants.known[string(raw)]
	if ok {
		d.templates.tenant = known.text
	}
	return known.text, end, ok
}

func (d *jsonReader) fitDevice(at int) (interned, int, bool) {
	raw, end, ok := d.quoted(at)
	if !ok {
		return interned{}, at, false
	}
	if known, ok := d.devices.known[string(raw)]; ok && known.text != "" {
		return known, end, true
	}
	d.scan.Seek(at - 1)
	raw, err := d.scan.Str()
	if err != nil {
		return interned{}, at, false
	}
	name, err := d.devices.get(raw)
	if err != nil || name == "" {
		return interned{}, at, false
	}
	return interned{name, d.templates.body}, d.scan.At(), true
}

func (d *jsonReader) fitTime(at int) (millis int64, end int, ok bool) {
	digits := d.source[at:]
	if len(digits) == 0 {
		return 0, at, false
	}
	if digits[0] == '"' {
		d.scan.Seek(at)
		millis, ok, err := d.time()
		end = d.scan.At()
		return millis, end, ok && err == nil && utf8.Valid(d.source[at:end])
	}
	n := 0
	for ; n < len(digits) && n < 19; n++ {
		c := digits[n] - '0'
		if c > 9 {
			break
		}
		millis = millis*10 + int64(c)
	}
	return telemetry.EpochMillis(millis), at + n, n > 0 && n < 19 && (digits[0] != '0' || n == 1)
}

// fitLabels reads labels or tags, and remembers them by their text. It does not remember those with an empty value,
// which are other labels than tags.
func (d *jsonReader) fitLabels(at int, what string) (telemetry.Labels, int, bool) {
	end := bytes.IndexByte(d.source[at:], '}') + at + 1
	if end <= at {
		return nil, at, false
	}
	if l, ok := d.templates.sets.known[string(d.source[at:end])]; ok {
		return l, end, true
	}
	d.scan.Seek(at)
	l, err := d.labels(&d.labelNames, what)
	if err != nil || !utf8.Valid(d.source[at:d.scan.At()]) {
		return nil, at, false
	}
	text := d.source[at:end]
	if d.scan.At() == end && len(text) <= maxInternedBytes*2 && !bytes.Contains(text, []byte(`""`)) {
		d.templates.sets.put(string(text), l)
	}
	return l, d.scan.At(), true
}

// fitValues reads the values of a message, by the body of its producer's last one if they fit it.
func (d *jsonReader) fitValues(device interned, at int) (end int, ok bool) {
	s, from := &d.templates, len(d.fields)
	d.scan.Seek(at)
	begin, first := d.scan.Mark(), s.body
	if device.text != "" {
		first = device.body
	}
	for i := range s.bodies {
		k := first + i
		if k >= len(s.bodies) {
			k -= len(s.bodies)
		}
		if end, ok := d.fitBody(s.bodies[k], at); ok {
			if device.body != k {
				if _, known := d.devices.known[device.text]; known {
					d.devices.known[device.text] = interned{device.text, k}
				}
			}
			s.body = k
			return end, true
		}
		if d.fields = d.fields[:from]; d.scan.At() > s.until {
			break
		}
		d.scan.Rewind(begin)
	}
	return at, false
}

func (d *jsonReader) fitBody(b *body, at int) (end int, ok bool) {
	if at, ok = behind(d.source, at, b.before[0]); !ok {
		return at, false
	}
	from, nulls := len(d.fields), false
	d.fields = append(d.fields, b.fields...)
	fields := d.fields[from:]
	for i, rank := range b.ranks {
		if i > 0 {
			if at, ok = behind(d.source, at, b.before[i]); !ok {
				return at, false
			}
		}
		f := &fields[rank]
		if at, ok = d.fitValue(f, at); !ok {
			return at, false
		}
		nulls = nulls || f.Value.Kind() == 0
	}
	if nulls && !d.dropNulls(from) {
		return at, false
	}
	return behind(d.source, at, b.end)
}

// fitValue reads the value of a field; one of kind 0 is null.
func (d *jsonReader) fitValue(f *telemetry.Field, at int) (end int, ok bool) {
	if x, end, ok := plainNumber(d.source, at); ok {
		f.Value = telemetry.FloatValue(x)
		return end, true
	}
	d.scan.Seek(at)
	v, err := d.value(f.Metric)
	if end = d.scan.At(); err != nil || end > d.templates.until || !utf8.Valid(d.source[at:end]) {
		return at, false
	}
	f.Value = v
	return end, true
}

// dropNulls drops the fields without a value, from a place on, and reports whether others are left.
func (d *jsonReader) dropNulls(from int) bool {
	kept := slices.DeleteFunc(d.fields[from:], func(f telemetry.Field) bool { return f.Value.Kind() == 0 })
	d.fields = d.fields[:from+len(kept)]
	return len(kept) > 0
}

// plainNumber reads a number of at most 15 digits without an exponent, which is most of them: it is a whole number
// below 2^53, over a power of ten that a float64 holds exactly, so that one division rounds it right (Clinger 1990).
func plainNumber(source []byte, at int) (x float64, end int, ok bool) {
	negative := at < len(source) && source[at] == '-'
	if negative {
		at++
	}
	mantissa, first := uint64(0), at
	for ; at < len(source); at++ {
		c := source[at] - '0'
		if c > 9 {
			break
		}
		mantissa = mantissa*10 + uint64(c)
	}
	digits := at - first
	if digits == 0 || digits > 15 || source[first] == '0' && digits > 1 {
		return 0, at, false
	}
	if at < len(source) && source[at] == '.' {
		at++
		point := at
		for ; at < len(source); at++ {
			c := source[at] - '0'
			if c > 9 {
				break
			}
			mantissa = mantissa*10 + uint64(c)
		}
		places := at - point
		if places == 0 || digits+places > 15 {
			return 0, at, false
		}
		x = float64(mantissa) / tens[places]
	} else {
		x = float64(mantissa)
	}
	if at < len(source) && source[at]|0x20 == 'e' {
		return 0, at, false
	}
	if negative {
		x = -x
	}
	return x, at, true
}

// tens are powers of ten.
var tens = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}
