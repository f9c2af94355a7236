// Package jsonvalue reads and writes JSON as the emulator keeps it: read strictly, written minified, numbers as
// they were sent. It is the emulator's one writer of JSON strings. It must not know the meaning of any JSON.
package jsonvalue

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

// Numbers are kept as point reads give them: integers of 64 bits exact, signed or unsigned; all others as float64,
// with 15 digits where these are enough, else 17, and exponents of three digits. Queries write exponents of two digits
// at least, and integers beyond the signed ones as float64.

// Shape is what matters of JSON for how it is kept.
type Shape struct {
	Plain bool // all numbers are written as they are kept
	Wide  bool // queries write one of the numbers otherwise
	// Depth is the depth of nested objects and arrays.
	Depth int
}

// ShapeOf returns the shape of a value. A number beyond float64 is ErrInvalid.
func ShapeOf(v *fastjson.Value) (s Shape, err error) {
	s.Plain = true
	var walk func(v *fastjson.Value, depth int)
	walk = func(v *fastjson.Value, depth int) {
		switch v.Type() {
		case fastjson.TypeObject:
			s.Depth = max(s.Depth, depth)
			v.GetObject().Visit(func(_ []byte, e *fastjson.Value) { walk(e, depth+1) })
		case fastjson.TypeArray:
			s.Depth = max(s.Depth, depth)
			for _, e := range v.GetArray() {
				walk(e, depth+1)
			}
		case fastjson.TypeNumber:
			var buf [48]byte
			text := v.MarshalTo(buf[:0])
			if small(text) {
				return
			}
			kept, ok := appendKept(nil, text)
			if !ok {
				err = ErrInvalid
			}
			s.Plain = s.Plain && bytes.Equal(kept, text)
			s.Wide = s.Wide || !bytes.Equal(kept, appendQueried(nil, kept))
		}
	}
	walk(v, 1)
	return s, err
}

// small reports whether a number is an integer that is kept as it is written.
func small(text []byte) bool {
	if len(text) > 18 || text[0] == '-' && text[1] == '0' {
		return false
	}
	for i, c := range text {
		if (c < '0' || c > '9') && (c != '-' || i > 0) {
			return false
		}
	}
	return true
}

// appendKept appends a number as it is kept; ok is false for one beyond float64.
func appendKept(dst, text []byte) (out []byte, ok bool) {
	if !bytes.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return strconv.AppendInt(dst, n, 10), true
		}
		if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return strconv.AppendUint(dst, n, 10), true
		}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	return appendFloat(dst, f, 3), err == nil
}

// AppendFloat appends a number as queries write it.
func AppendFloat(dst []byte, f float64) []byte { return appendFloat(dst, f, 2) }

// appendFloat appends a number with that many digits of the exponent at least.
func appendFloat(dst []byte, f float64, exponent int) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	text := strconv.AppendFloat(make([]byte, 0, 32), f, 'g', 15, 64)
	if again, _ := strconv.ParseFloat(string(text), 64); again != f {
		text = strconv.AppendFloat(text[:0], f, 'g', 17, 64)
	}
	at := bytes.IndexByte(text, 'e')
	if at < 0 {
		return append(dst, text...)
	}
	dst = append(dst, text[:at+2]...)
	for range exponent - len(text[at+2:]) {
		dst = append(dst, '0')
	}
	return append(dst, text[at+2:]...)
}

func appendQueried(dst, kept []byte) []byte {
	if len(kept) < 19 && bytes.IndexByte(kept, 'e') < 0 {
		return append(dst, kept...)
	}
	if n, err := strconv.ParseInt(string(kept), 10, 64); err == nil {
		return strconv.AppendInt(dst, n, 10)
	}
	f, _ := strconv.ParseFloat(string(kept), 64)
	if math.IsInf(f, 0) {
		return append(dst, kept...)
	}
	return AppendFloat(dst, f)
}

// ErrInvalid is the error of Parse for what is not JSON.
var ErrInvalid = errors.New("not valid JSON")

// Parse parses JSON that is valid in every respect. Parsing comes first: it bounds the depth that
// validation then recurses into. The value is valid until the parser's next use.
func Parse(p *fastjson.Parser, text []byte) (*fastjson.Value, error) {
	v, err := p.ParseBytes(text)
	if err != nil || fastjson.ValidateBytes(text) != nil || !utf8.Valid(text) {
		return nil, ErrInvalid
	}
	return v, nil
}

// Member returns a property of an object; nil when v is no object or has no such property.
func Member(v *fastjson.Value, name string) *fastjson.Value {
	if o := v.GetObject(); o != nil {
		return o.Get(name)
	}
	return nil
}

// At returns what a path of properties leads to; nil for nothing.
func At(v *fastjson.Value, steps []string) *fastjson.Value {
	for _, s := range steps {
		v = Member(v, s)
	}
	return v
}

// escapes are the escapes of a JSON string: a pair of surrogates, a lone surrogate, or any other.
var escapes = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[dD][89a-fA-F]..|\\.`)

// Repair returns JSON with U+FFFD in place of every lone escaped surrogate.
func Repair(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\ud`)) && !bytes.Contains(text, []byte(`\uD`)) {
		return text
	}
	return escapes.ReplaceAllFunc(text, func(escape []byte) []byte {
		if len(escape) == len(`\ud800`) {
			return []byte("\uFFFD")
		}
		return escape
	})
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. fastjson's own marshaller quotes by Go's rules, and not all of their escapes
// are JSON.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		c := s[0]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(s)
			dst = utf8.AppendRune(dst, r)
			s = s[n:]
			continue
		}
		s = s[1:]
	}
	return append(dst, '"')
}

// Append appends v as minified JSON, numbers as they were written.
func Append(dst []byte, v *fastjson.Value) []byte {
	return form{func(dst, text []byte) []byte { return append(dst, text...) }}.append(dst, v)
}

// AppendKept appends v as minified JSON, numbers as they are kept; they must be within float64.
func AppendKept(dst []byte, v *fastjson.Value) []byte {
	return form{func(dst, text []byte) []byte { dst, _ = appendKept(dst, text); return dst }}.append(dst, v)
}

// AppendQueried appends v as minified JSON, numbers as queries write them.
func AppendQueried(dst []byte, v *fastjson.Value) []byte {
	return form{func(dst, text []byte) []byte {
		if !small(text) {
			text, _ = appendKept(nil, text)
		}
		return appendQueried(dst, text)
	}}.append(dst, v)
}

// form is how numbers are written.
type form struct{ number func(dst, text []byte) []byte }

func (f form) append(dst []byte, v *fastjson.Value) []byte {
	switch v.Type() {
	case fastjson.TypeString:
		return AppendString(dst, v.GetStringBytes())
	case fastjson.TypeArray:
		dst = append(dst, '[')
		for i, e := range v.GetArray() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = f.append(dst, e)
		}
		return append(dst, ']')
	case fastjson.TypeObject:
		dst = append(dst, '{')
		first := true
		v.GetObject().Visit(func(key []byte, e *fastjson.Value) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = AppendString(dst, key)
			dst = append(dst, ':')
			dst = f.append(dst, e)
		})
		return append(dst, '}')
	case fastjson.TypeNumber:
		var buf [48]byte
		return f.number(dst, v.MarshalTo(buf[:0]))
	default:
		return v.MarshalTo(dst)
	}
}
