package decode

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner walks over JSON text that is known to be valid UTF-8. It accepts what RFC 8259 allows and
// nothing else, and refuses an escaped half of a surrogate pair, which no string can hold.
//
// It is our own because it is strict and reads numbers without loss: valyala/fastjson lets pass
// numbers, escapes and control characters that are no JSON, and jsontext takes four times as long.
type scanner struct {
	text []byte
	at   int
	own  []byte // strings that had escapes; a slice of it stays valid when it grows
}

// maxDepth bounds nesting, and so the stack. A message has three levels; what is deeper is ignored
// property.
const maxDepth = 100

// syntaxError is text that is not JSON.
type syntaxError struct {
	at   int
	what string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

func (s *scanner) fail(what string) error { return &syntaxError{s.at, what} }

func (s *scanner) reset(text []byte) {
	s.text, s.at, s.own = text, 0, s.own[:0]
	if cap(s.own) > maxKept {
		s.own = nil
	}
}

func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// next skips blanks and gives the byte that follows without consuming it, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		if c := s.text[s.at]; !blank(c) {
			return c
		}
		s.at++
	}
	return 0
}

// object reads an object. each is called before every property's value and must consume it.
func (s *scanner) object(each func(name []byte) error) error {
	if s.next() != '{' {
		return s.fail("no object")
	}
	s.at++
	if s.next() == '}' {
		s.at++
		return nil
	}
	for {
		if s.next() != '"' {
			return s.fail("no property name")
		}
		name, err := s.str()
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail("no colon")
		}
		s.at++
		if err := each(name); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return nil
		default:
			return s.fail("no comma or brace")
		}
	}
}

// array reads an array. each is called before every element and must consume it.
func (s *scanner) array(each func(i int) error) error {
	if s.next() != '[' {
		return s.fail("no array")
	}
	s.at++
	if s.next() == ']' {
		s.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return nil
		default:
			return s.fail("no comma or bracket")
		}
	}
}

// skip consumes any value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("nested too deep")
	}
	switch c := s.next(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case c == '[':
		return s.array(func(int) error { return s.skip(depth + 1) })
	case c == '"':
		_, err := s.str()
		return err
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	_, err := s.number()
	return err
}

// word consumes one of the three literal names.
func (s *scanner) word(w string) error {
	if rest := s.text[s.at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return s.fail("no value")
	}
	s.at += len(w)
	return nil
}

// str consumes a string that begins here. The result stays valid until reset.
func (s *scanner) str() ([]byte, error) {
	s.at++
	from := s.at
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[from : s.at-1], nil
		case c == '\\':
			return s.escaped(from)
		case c < ' ':
			return nil, s.fail("control character in a string")
		}
	}
	return nil, s.fail("string without end")
}

// escaped goes on with a string that began at from and has its first escape here.
func (s *scanner) escaped(from int) ([]byte, error) {
	begin := len(s.own)
	s.own = append(s.own, s.text[from:s.at]...)
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"':
			s.at++
			return s.own[begin:len(s.own):len(s.own)], nil
		case c < ' ':
			return nil, s.fail("control character in a string")
		case c != '\\':
			s.own = append(s.own, c)
			s.at++
			continue
		}
		if s.at+1 >= len(s.text) {
			break
		}
		if s.text[s.at+1] == 'u' {
			r, ok := s.unicode()
			if !ok {
				return nil, s.fail("wrong \\u escape")
			}
			s.own = utf8.AppendRune(s.own, r)
			continue
		}
		plain := escapes[s.text[s.at+1]]
		if plain == 0 {
			return nil, s.fail("unknown escape")
		}
		s.own = append(s.own, plain)
		s.at += 2
	}
	return nil, s.fail("string without end")
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unicode consumes \uXXXX, or two of them that make a surrogate pair.
func (s *scanner) unicode() (rune, bool) {
	r, ok := s.hex(s.at)
	if !ok {
		return 0, false
	}
	if !utf16.IsSurrogate(r) {
		s.at += 6
		return r, true
	}
	low, ok := s.hex(s.at + 6)
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, false
	}
	s.at += 12
	return r, true
}

// hex reads \uXXXX at a place.
func (s *scanner) hex(at int) (r rune, ok bool) {
	if at+6 > len(s.text) || s.text[at] != '\\' || s.text[at+1] != 'u' {
		return 0, false
	}
	for _, c := range s.text[at+2 : at+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
