// Package jsonscan walks over JSON text without building a tree: callers read what they want and skip the rest. It is
// strict, reads numbers without loss and allocates nothing but strings that have escapes.
//
// It imports the standard library only and knows nothing of messages or chunks.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// Scanner walks over JSON text. It accepts what RFC 8259 allows and nothing else, and refuses an escaped half of a
// surrogate pair, which no string can hold. That the text is valid UTF-8 is the caller's to check, of all of it or of
// the strings that count.
//
// It is our own because it is strict and reads numbers without loss: valyala/fastjson lets pass
// numbers, escapes and control characters that are no JSON, and jsontext takes four times as long.
type Scanner struct {
	text  []byte
	at    int
	depth int    // how many objects and arrays stand around the scanner
	own   []byte // strings that had escapes; a slice of it stays valid when it grows
}

// maxKept bounds the buffer that outlives a text: one with huge strings does not keep its memory.
const maxKept = 1 << 14

// MaxDepth is how many objects and arrays may stand in each other, the outermost counted. It bounds the stack. Value,
// which does not recurse, knows no bound.
const MaxDepth = 100

// SyntaxError is text that is not JSON.
type SyntaxError struct {
	at   int
	what string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.at) }

// Fail returns an error that names the place of the scanner.
func (s *Scanner) Fail(what string) error { return &SyntaxError{s.at, what} }

// Reset begins a text, which the scanner refers to until the next Reset.
func (s *Scanner) Reset(text []byte) {
	s.text, s.at, s.depth, s.own = text, 0, 0, s.own[:0]
	if cap(s.own) > maxKept {
		s.own = nil
	}
}

// Allow adds to MaxDepth, the number of objects and arrays that may nest.
func (s *Scanner) Allow(more int) { s.depth -= more }

// Blank reports whether c may stand between tokens.
func Blank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// At returns the place of the scanner, in bytes of the text.
func (s *Scanner) At() int { return s.at }

// Seek goes to a place that At has returned.
func (s *Scanner) Seek(at int) { s.at = at }

// End reports whether nothing but blanks is left.
func (s *Scanner) End() bool {
	s.Next()
	return s.at == len(s.text)
}

// Next skips blanks and gives the byte that follows without consuming it, 0 at the end.
func (s *Scanner) Next() byte {
	for s.at < len(s.text) {
		if c := s.text[s.at]; !Blank(c) {
			return c
		}
		s.at++
	}
	return 0
}

// First returns the name of the first property of the object that begins here, nil where there is none without escapes.
func (s *Scanner) First() (name []byte) {
	at := s.at
	defer func() { s.at = at }()
	if s.Next() != '{' {
		return nil
	}
	s.at++
	if s.Next() != '"' {
		return nil
	}
	rest := s.text[s.at+1:]
	if n := bytes.IndexByte(rest, '"'); n >= 0 {
		return rest[:n]
	}
	return nil
}

// Object reads an object. each is called before every property's value and must consume it.
func (s *Scanner) Object(each func(name []byte) error) error {
	if s.Next() != '{' {
		return s.Fail("no object")
	}
	if err := s.Enter(); err != nil {
		return err
	}
	err := s.object(each)
	s.Leave()
	return err
}

// Enter counts an object or array that begins around the scanner; it fails where too many stand around it.
func (s *Scanner) Enter() error {
	if s.depth == MaxDepth {
		return s.Fail("nested too deep")
	}
	s.depth++
	return nil
}

// Leave counts the end of what Enter has counted.
func (s *Scanner) Leave() { s.depth-- }

// Name consumes the name of a property, and the colon. The result stays valid until Reset.
func (s *Scanner) Name() ([]byte, error) {
	if s.Next() != '"' {
		return nil, s.Fail("no property name")
	}
	name, err := s.Str()
	if err != nil {
		return nil, err
	}
	if s.Next() != ':' {
		return nil, s.Fail("no colon")
	}
	s.at++
	return name, nil
}

func (s *Scanner) object(each func(name []byte) error) error {
	s.at++
	if s.Next() == '}' {
		s.at++
		return nil
	}
	for {
		name, err := s.Name()
		if err != nil {
			return err
		}
		if err := each(name); err != nil {
			return err
		}
		more, err := s.More('}')
		if !more || err != nil {
			return err
		}
		s.at++
	}
}

// More skips blanks and reports whether a comma follows, which it does not consume. It consumes the end, a brace or
// bracket.
func (s *Scanner) More(end byte) (bool, error) {
	switch s.Next() {
	case ',':
		return true, nil
	case end:
		s.at++
		return false, nil
	}
	if end == '}' {
		return false, s.Fail("no comma or brace")
	}
	return false, s.Fail("no comma or bracket")
}

// Array reads an array. each is called before every element and must consume it.
func (s *Scanner) Array(each func(i int) error) error {
	if s.Next() != '[' {
		return s.Fail("no array")
	}
	if err := s.Enter(); err != nil {
		return err
	}
	err := s.array(each)
	s.Leave()
	return err
}

func (s *Scanner) array(each func(i int) error) error {
	s.at++
	if s.Next() == ']' {
		s.at++
		return nil
	}
	for i := 0; ; i++ {
		if err := each(i); err != nil {
			return err
		}
		more, err := s.More(']')
		if !more || err != nil {
			return err
		}
		s.at++
	}
}

// Skip consumes any value.
func (s *Scanner) Skip() error {
	switch c := s.Next(); {
	case c == '{':
		return s.Object(func([]byte) error { return s.Skip() })
	case c == '[':
		return s.Array(func(int) error { return s.Skip() })
	case c == '"':
		_, err := s.Str()
		return err
	case c == 't':
		return s.Word("true")
	case c == 'f':
		return s.Word("false")
	case c == 'n':
		return s.Word("null")
	}
	_, err := s.Number()
	return err
}

// Pass consumes any value as Skip does, but looks only for its end where that is quick to find: strings may have
// control characters, and flat arrays anything.
func (s *Scanner) Pass() error {
	switch s.Next() {
	case '"':
		_, err := s.Opaque()
		return err
	case '[':
		rest := s.text[s.at+1:]
		if n := bytes.IndexByte(rest, ']'); n >= 0 && !bytes.ContainsAny(rest[:n], "\"[{") {
			s.at += n + 2
			return nil
		}
	}
	return s.Skip()
}

// Value consumes any value and gives its text, for callers that parse it: Value looks only for the end, and may accept
// text that is no value. The result stays valid as long as the text.
func (s *Scanner) Value() ([]byte, error) {
	c := s.Next()
	from := s.at
	if c != '{' && c != '[' {
		err := s.Pass()
		return s.text[from:s.at:s.at], err
	}
	depth := 0
	for ; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			if !s.passString() {
				return nil, s.Fail("string without end")
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return s.text[from:s.at:s.at], nil
			}
		}
	}
	return nil, s.Fail("value without end")
}

// passString goes from the quote that opens a string to the one that closes it, and reports whether there is one.
func (s *Scanner) passString() bool {
	for s.at++; ; s.at++ {
		n := bytes.IndexByte(s.text[s.at:], '"')
		if n < 0 {
			s.at = len(s.text)
			return false
		}
		s.at += n
		escapes := 0
		for s.text[s.at-1-escapes] == '\\' { // the opening quote is none
			escapes++
		}
		if escapes%2 == 0 {
			return true
		}
	}
}

// PassRest goes to the brace that ends the object around the scanner, which is between two properties, and reports
// whether it could: it finds that brace only where no object, and no string with escapes, comes before.
func (s *Scanner) PassRest() bool {
	rest := s.text[s.at:]
	n := bytes.IndexByte(rest, '}')
	if n < 0 || bytes.IndexByte(rest[:n], '{') >= 0 || bytes.IndexByte(rest[:n], '\\') >= 0 ||
		bytes.Count(rest[:n], quote)%2 != 0 {
		return false
	}
	s.at += n
	return true
}

var quote = []byte{'"'}

// Opaque consumes a string that begins here and may have control characters, for callers that refuse those
// themselves. The result stays valid until Reset.
func (s *Scanner) Opaque() ([]byte, error) {
	rest := s.text[s.at+1:]
	n := bytes.IndexByte(rest, '"')
	if n < 0 || bytes.IndexByte(rest[:n], '\\') >= 0 {
		return s.Str()
	}
	s.at += n + 2
	return rest[:n], nil
}

// Word consumes one of the three literal names.
func (s *Scanner) Word(w string) error {
	if rest := s.text[s.at:]; len(rest) < len(w) || string(rest[:len(w)]) != w {
		return s.Fail("no value")
	}
	s.at += len(w)
	return nil
}

// Str consumes a string that begins here. The result stays valid until Reset.
func (s *Scanner) Str() ([]byte, error) {
	s.at++
	from := s.at
	for s.at+8 <= len(s.text) && ordinary(binary.LittleEndian.Uint64(s.text[s.at:])) {
		s.at += 8
	}
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[from : s.at-1], nil
		case c == '\\':
			return s.escaped(from)
		case c < ' ':
			return nil, s.Fail("control character in a string")
		}
	}
	return nil, s.Fail("string without end")
}

// ordinary reports whether none of eight bytes is a quote, a backslash or a control character. A byte of x-ones below
// borrows exactly where the lowest byte that is 0 lies, which is all that matters here (Lamport 1975).
func ordinary(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^ones*'"', w^ones*'\\'
	return (quote-ones)&^quote&tops|(backslash-ones)&^backslash&tops|(w-ones*' ')&^w&tops == 0
}

// escaped continues a string that began at from and has its first escape here.
func (s *Scanner) escaped(from int) ([]byte, error) {
	begin := len(s.own)
	s.own = append(s.own, s.text[from:s.at]...)
	for s.at < len(s.text) {
		c := s.text[s.at]
		switch {
		case c == '"':
			s.at++
			return s.own[begin:len(s.own):len(s.own)], nil
		case c < ' ':
			return nil, s.Fail("control character in a string")
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
				return nil, s.Fail("wrong \\u escape")
			}
			s.own = utf8.AppendRune(s.own, r)
			continue
		}
		plain := escapes[s.text[s.at+1]]
		if plain == 0 {
			return nil, s.Fail("unknown escape")
		}
		s.own = append(s.own, plain)
		s.at += 2
	}
	return nil, s.Fail("string without end")
}

var escapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// unicode consumes \uXXXX, or two of them that make a surrogate pair.
func (s *Scanner) unicode() (rune, bool) {
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

func (s *Scanner) hex(at int) (r rune, ok bool) {
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
