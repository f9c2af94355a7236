package jsonvalue

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

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

// Deeper reports whether valid JSON is nested deeper than most. What has fewer brackets than that, as
// nearly all has, is not looked at closely.
func Deeper(json []byte, most int) bool {
	if bytes.Count(json, []byte{'{'})+bytes.Count(json, []byte{'['}) <= most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}
