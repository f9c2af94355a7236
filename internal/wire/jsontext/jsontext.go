// Package jsontext writes JSON strings. Messages, chunk documents and answers are written by hand, for speed and
// because some of their bytes are specified, and this is how all of them spell a string.
package jsontext

import (
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

const hex = "0123456789abcdef"

// plain are the bytes that stand in a string as they are.
var plain = func() (out [256]bool) {
	for c := ' '; c < 0x7F; c++ {
		out[c] = c != '"' && c != '\\'
	}
	return out
}()

// AppendString appends s as a JSON string. Quotes and backslashes have a backslash in front; control characters of
// ASCII, the delete character too, are \u00xx; everything else is unchanged. Bytes that are no UTF-8 become U+FFFD,
// each.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				b = append(append(b, s[done:i]...), "\uFFFD"...)
				done = i + 1
			}
			i += n
			continue
		}
		i++
		switch {
		case c == '"' || c == '\\':
			b = append(append(b, s[done:i-1]...), '\\', c)
			done = i
		case c < ' ' || c == 0x7F:
			b = append(append(b, s[done:i-1]...), '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			done = i
		}
	}
	return append(append(b, s[done:]...), '"')
}

// Len returns how many bytes AppendString appends for s.
func Len(s string) int {
	n := len(s) + len(`""`)
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case plain[c]:
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				n += len("\uFFFD") - 1
			}
			i += size
			continue
		case c == '"' || c == '\\':
			n++
		default:
			n += len(`\u0000`) - 1
		}
		i++
	}
	return n
}

// AppendLabels appends a label set as an object, in the set's order.
func AppendLabels(b []byte, l telemetry.Labels) []byte {
	b = append(b, '{')
	for i, x := range l {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(AppendString(b, x.Name), ':')
		b = AppendString(b, x.Value)
	}
	return append(b, '}')
}
