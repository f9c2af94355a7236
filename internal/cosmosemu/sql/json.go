package sql

import (
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. fastjson's own marshaller quotes by Go's rules, whose
// escapes are not all JSON.
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

// AppendJSON appends v as minified JSON, numbers as they were written.
func AppendJSON(dst []byte, v *fastjson.Value) []byte {
	switch v.Type() {
	case fastjson.TypeString:
		return AppendString(dst, v.GetStringBytes())
	case fastjson.TypeArray:
		dst = append(dst, '[')
		for i, e := range v.GetArray() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, e)
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
			dst = AppendJSON(dst, e)
		})
		return append(dst, '}')
	default:
		return v.MarshalTo(dst)
	}
}

// equalJSON compares two arrays or two objects; the order of an object's properties does not matter.
func equalJSON(a, b *fastjson.Value) bool {
	if a.Type() == fastjson.TypeArray {
		x, y := a.GetArray(), b.GetArray()
		if len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equal(JSONValue(x[i]), JSONValue(y[i])) {
				return false
			}
		}
		return true
	}
	x, y := a.GetObject(), b.GetObject()
	same := x.Len() == y.Len()
	x.Visit(func(key []byte, e *fastjson.Value) {
		if other := y.Get(string(key)); same {
			same = other != nil && equal(JSONValue(e), JSONValue(other))
		}
	})
	return same
}

// Member is a property of an object; nil when v is no object or has no such property.
func Member(v *fastjson.Value, name string) *fastjson.Value {
	if o := v.GetObject(); o != nil {
		return o.Get(name)
	}
	return nil
}

// includes tells whether v is an object that has all properties of part, with equal values; objects
// among them need only include theirs.
func includes(v *fastjson.Value, part Value) bool {
	if part.kind != Object || v.Type() != fastjson.TypeObject {
		return false
	}
	all := true
	part.node.GetObject().Visit(func(key []byte, want *fastjson.Value) {
		if !all {
			return
		}
		have := v.GetObject().Get(string(key))
		all = have != nil && (equal(JSONValue(have), JSONValue(want)) || includes(have, JSONValue(want)))
	})
	return all
}
