package decode

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"

	"binnacle/internal/telemetry"

	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

// lineTemplates are the forms of lines that were read before, as templates are the forms of messages. The text before
// a line's fields comes again with each line of its device and labels: its head. The text between the values comes
// again with each line of its measurement: its body. Where both are known, values and time alone are read. As there,
// a template only saves work: a line that does not match in all is left to the full walk. No text with a backslash
// matches, so that the walk alone reads escapes.
type lineTemplates struct {
	heads  cache[*lineHead] // heads by their text
	bodies []*lineBody      // at most maxLineBodies; they keep their places, and heads tell which they use
	next   int              // place of the body to be replaced next
	budget tryBudget
	off    bool // none is tried or learnt
	fits   int  // counts lines, for tests
	tried  int  // the same
}

// lineHead is what measurement and tags mean.
type lineHead struct {
	measurement    string
	tenant, device string
	labels, tags   telemetry.Labels
	body           int // place of the body of its last line
}

// lineBody is a body of the lines of a measurement.
type lineBody struct {
	measurement string
	body
}

const (
	// Agents write some ten measurements, and a measurement has several bodies where fields come and go.
	maxLineBodies = 64

	// maxLineHead bounds the text of a head that is remembered.
	maxLineHead = 1 << 10

	// lineHeadBytes bounds what heads take. Where lines have heads, there are no other names of devices.
	lineHeadBytes = 2 * deviceBytes
)

func newLineTemplates(off bool) lineTemplates {
	heads := newCache[*lineHead](lineHeadBytes, setWeight)
	return lineTemplates{heads: heads, budget: tryBudget{left: maxBudget}, off: off}
}

// matchLine reads the line at the begin of the text, if it matches, and returns its length with its end, 0 if it does
// not.
func (d *lineReader) matchLine(index int, source []byte) int {
	s := &d.templates
	if s.off || !s.budget.allows() || len(s.bodies) == 0 {
		return 0
	}
	s.tried++
	from := len(d.fields)
	if r, end, ok := d.fitLine(source); ok && d.resolveOrigin(&r, "the line") == nil {
		r.Fields = d.fields[from:len(d.fields):len(d.fields)]
		d.append(index, &r)
		s.budget.gain()
		s.fits++
		return end
	}
	d.fields = d.fields[:from]
	s.budget.spend(vainCost)
	return 0
}

// fitLine reads a line; its fields are appended to d.fields.
func (d *lineReader) fitLine(source []byte) (r telemetry.Reading, end int, ok bool) {
	at := bytes.IndexByte(source, ' ')
	if at <= 0 {
		return r, 0, false
	}
	head, ok := d.templates.heads.known[string(source[:at])]
	if !ok {
		if head = d.learnHead(source[:at]); head == nil {
			return r, 0, false
		}
	}
	if at, ok = d.fitFields(head, source, at); !ok {
		return r, 0, false
	}
	r = telemetry.Reading{Tenant: head.tenant, Device: head.device, Labels: head.labels, Tags: head.tags}
	r.Time, at, ok = d.fitLineTime(source, at)
	return r, at, ok
}

// learnHead reads a text without escapes that ends before a blank as measurement and tags; nil where the full walk must
// decide.
func (d *lineReader) learnHead(text []byte) *lineHead {
	if len(text) > maxLineHead || !utf8.Valid(text) {
		return nil
	}
	measurement, tags, tagged := bytes.Cut(text, comma)
	if !isToken(measurement) || measurement[0] == '#' {
		return nil
	}
	d.pairs, d.others = d.pairs[:0], d.others[:0]
	var r telemetry.Reading
	for tagged {
		var pair []byte
		pair, tags, tagged = bytes.Cut(tags, comma)
		name, value, ok := bytes.Cut(pair, equals)
		if !ok || !isToken(name) || !isToken(value) || bytes.IndexByte(value, '=') >= 0 ||
			d.tag(&r, name, value) != nil {
			return nil
		}
	}
	h := &lineHead{measurement: string(measurement), tenant: r.Tenant, device: r.Device}
	if d.lineLabels(&h.labels, &h.tags) != nil {
		return nil
	}
	d.templates.heads.put(string(text), h)
	return h
}

var comma, equals = []byte{','}, []byte{'='}

// isToken reports whether a text that holds no comma and no blank may stand for itself: it is not empty, and nothing in
// it is a control character or an escape.
func isToken(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == 0x7f || c == '\\' {
			return false
		}
	}
	return len(text) > 0
}

// fitFields reads the fields of a line, by the body of its head's last one if they fit it.
func (d *lineReader) fitFields(head *lineHead, source []byte, at int) (end int, ok bool) {
	s, from := &d.templates, len(d.fields)
	for i := range s.bodies {
		k := head.body + i
		if k >= len(s.bodies) {
			k -= len(s.bodies)
		}
		b := s.bodies[k]
		if b.measurement != head.measurement {
			continue
		}
		if end, ok := d.fitLineBody(&b.body, source, at); ok {
			head.body = k
			return end, true
		}
		d.fields = d.fields[:from]
	}
	return at, false
}

func (d *lineReader) fitLineBody(b *body, source []byte, at int) (end int, ok bool) {
	if at, ok = behind(source, at, b.before[0]); !ok {
		return at, false
	}
	from := len(d.fields)
	d.fields = append(d.fields, b.fields...)
	fields := d.fields[from:]
	for i, rank := range b.ranks {
		if i > 0 {
			if at, ok = behind(source, at, b.before[i]); !ok {
				return at, false
			}
		}
		f := &fields[rank]
		if x, end, ok := plainNumber(source, at); ok && endsField(source, end) {
			f.Value, at = telemetry.FloatValue(x), end
		} else if f.Value, at, ok = d.fitField(source, at); !ok {
			return at, false
		}
	}
	return at, true
}

func endsField(source []byte, at int) bool {
	if at == len(source) {
		return true
	}
	c := source[at]
	return c == ',' || c == ' ' || c == '\n' || c == '\r'
}

func (d *lineReader) fitField(source []byte, at int) (v telemetry.Value, end int, ok bool) {
	if at == len(source) {
		return v, at, false
	}
	if source[at] == '"' {
		n := bytes.IndexByte(source[at+1:], '"')
		if n < 0 || n > maxTemplate { // long texts are not made for each body that may fit
			return v, at, false
		}
		text := source[at+1 : at+1+n]
		if bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, '\n') >= 0 {
			return v, at, false // a line end inside a string is one more line
		}
		s, err := d.checked.get(text)
		return telemetry.TextValue(s), at + n + 2, err == nil
	}
	for end = at; !endsField(source, end); {
		end++
	}
	kind := lineprotocol.Float
	raw := source[at:end]
	switch c := source[at]; {
	case c == 't', c == 'T', c == 'f', c == 'F':
		kind = lineprotocol.Bool
	case c != '-' && c != '.' && (c < '0' || c > '9'):
		return v, at, false
	case raw[len(raw)-1] == 'i':
		kind, raw = lineprotocol.Int, raw[:len(raw)-1]
	case raw[len(raw)-1] == 'u':
		kind, raw = lineprotocol.Uint, raw[:len(raw)-1]
	}
	v, ok = d.lineValue(kind, raw)
	return v, end, ok
}

// fitLineTime reads the end of a line: a time in digits, or none.
func (d *lineReader) fitLineTime(source []byte, at int) (t int64, end int, ok bool) {
	t = d.origin.now
	timeless := at == len(source) || source[at] != ' '
	if !timeless {
		at++
		negative := at < len(source) && source[at] == '-'
		if negative {
			at++
		}
		units, first := uint64(0), at
		for ; at < len(source) && at-first < 20; at++ {
			c := source[at] - '0'
			if c > 9 {
				break
			}
			units = units*10 + uint64(c)
		}
		// 19 digits do not overflow the 64 bits.
		if at == first || at-first > 19 || units > math.MaxInt64 {
			return 0, at, false
		}
		signed := int64(units)
		if negative {
			signed = -signed
		}
		if t, ok = d.millis(signed); !ok {
			return 0, at, false
		}
	}
	switch rest := source[at:]; {
	case timeless && t < 0:
		return 0, at, false
	case len(rest) == 0:
		return t, at, true
	case rest[0] == '\n':
		return t, at + 1, true
	case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
		return t, at + 2, true
	}
	return 0, at, false
}

// learnLine learns a body from a line that was right and gave a reading.
func (d *lineReader) learnLine(line []byte) {
	s := &d.templates
	if s.off || s.budget.left < 0 || len(line) > maxTemplate || bytes.IndexByte(line, '\\') >= 0 {
		return
	}
	s.budget.spend(learnCost)
	at := bytes.IndexByte(line, ' ')
	if at <= 0 {
		return
	}
	measurement, _, _ := bytes.Cut(line[:at], comma)
	b := &lineBody{measurement: string(measurement)}
	var names []string
	for {
		n := bytes.IndexByte(line[at:], '=')
		if n < 0 {
			return
		}
		field := bytes.TrimLeft(line[at:at+n], " ,")
		if d.opts.Metric != "field" {
			d.key = append(append(append(d.key[:0], measurement...), '_'), field...)
			field = d.key
		}
		name, err := d.metrics.get(field)
		if err != nil {
			return
		}
		names = append(names, name)
		b.before = append(b.before, string(line[at:at+n+1]))
		at += n + 1
		if at < len(line) && line[at] == '"' {
			n = bytes.IndexByte(line[at+1:], '"')
			if n < 0 {
				return
			}
			at += n + 2
		} else {
			for !endsField(line, at) {
				at++
			}
		}
		if at == len(line) || line[at] != ',' {
			break
		}
	}
	if b.fields, b.ranks = order(names); b.fields == nil {
		return
	}
	same := func(c *lineBody) bool { return c.measurement == b.measurement && slices.Equal(c.before, b.before) }
	if slices.ContainsFunc(s.bodies, same) {
		return
	}
	if len(s.bodies) < maxLineBodies {
		s.bodies = append(s.bodies, b)
		return
	}
	s.bodies[s.next] = b
	s.next = (s.next + 1) % maxLineBodies
}
