package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Terminal returns a writer that passes text on to w as a terminal may show it: what tenants, devices and stores say
// must not move the cursor, set a title or reverse a line. Characters that could are written as JSON and Go spell them,
// such as \u001b, so that JSON stays the same value; bytes that are no UTF-8 as \x9b. Ends of lines and tabs stay. It
// is safe for any number of goroutines.
func Terminal(w io.Writer) io.Writer { return &terminal{w: w} }

type terminal struct {
	mu sync.Mutex // guards below
	w  io.Writer
	// rest begins a character that has more bytes.
	rest []byte
}

// Write implements io.Writer.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := append(t.rest, p...)
	out := make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[0])
		case r != '\n' && r != '\t' && isControl(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	t.rest = append([]byte(nil), text...)
	if len(out) > 0 {
		if _, err := t.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// isControl reports whether a terminal may obey a character instead of showing it: controls of ASCII and of Latin-1,
// ends of lines of Unicode, and what changes the direction of text.
func isControl(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r < 0xa0, r == 0x061c, r == 0x200e, r == 0x200f, r == 0x2028, r == 0x2029,
		r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// cellText returns text as a cell of a table may have it: within its line.
func cellText(text string) string {
	if strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if isControl(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
