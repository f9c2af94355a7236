package jsonvalue

import (
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
