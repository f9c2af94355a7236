package jsonvalue

import (
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

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
