// Package report formats tables, paragraphs and numbers for a terminal.
package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// gap separates two columns.
const gap = "  "

// Grid writes rows of figures with an indent: the first column aligned to the left, all others to the right. Rows may
// have different lengths.
func Grid(w io.Writer, rows [][]string) error {
	return writeColumns(w, rows, layout{indent: gap, firstRight: 1})
}

// List writes rows of text in columns that are aligned to the left.
func List(w io.Writer, rows [][]string) error {
	return writeColumns(w, rows, layout{firstRight: math.MaxInt})
}

// layout places cells in columns.
type layout struct {
	indent     string
	firstRight int // the first column that is aligned to the right, as are all after it
}

// writeColumns pads each cell to the width of its column on a terminal and trims blanks at ends of lines. A
// left-aligned cell that ends its row may exceed its column: nothing follows it.
func writeColumns(w io.Writer, rows [][]string, l layout) error {
	right := func(column int) bool { return column >= l.firstRight }
	shown := make([][]string, len(rows))
	for i, row := range rows {
		for _, cell := range row {
			shown[i] = append(shown[i], cellText(cell))
		}
	}
	rows = shown
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if ends := strings.Join(row[i+1:], "") == ""; !ends || right(i) {
				widths[i] = max(widths[i], uniseg.StringWidth(cell))
			}
		}
	}
	var out, line strings.Builder
	for _, row := range rows {
		line.Reset()
		for i, cell := range row {
			if i == 0 {
				line.WriteString(l.indent)
			} else {
				line.WriteString(gap)
			}
			blanks := strings.Repeat(" ", max(0, widths[i]-uniseg.StringWidth(cell)))
			if right(i) {
				line.WriteString(blanks + cell)
			} else {
				line.WriteString(cell + blanks)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// lineEnd is the greatest length of a line of a paragraph.
const lineEnd = 116

// Paragraph writes text in lines that are indented by the width of the mark, which precedes the first line.
func Paragraph(w io.Writer, mark, text string) error {
	indent := strings.Repeat(" ", uniseg.StringWidth(mark))
	var out strings.Builder
	line, length := mark, len(indent)
	end := func() { out.WriteString(strings.TrimRight(line, " ") + "\n") }
	for word := range strings.FieldsSeq(text) {
		n := uniseg.StringWidth(word)
		if length+n > lineEnd && length > len(indent) {
			end()
			line, length = indent, len(indent)
		}
		line += word + " "
		length += n + 1
	}
	end()
	_, err := io.WriteString(w, out.String())
	return err
}

// Thousands formats an integer with its digits in groups of three.
func Thousands[T ~int | ~int64](n T) string {
	if n < 0 {
		return "-" + group(strings.TrimPrefix(fmt.Sprint(n), "-"))
	}
	return group(fmt.Sprint(n))
}

// Dollars formats an amount with cents and grouped digits.
func Dollars(amount float64) string {
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", amount), ".")
	sign := ""
	if digits, ok := strings.CutPrefix(whole, "-"); ok {
		sign, whole = "-", digits
	}
	return sign + group(whole) + "." + cents
}

func group(digits string) string {
	var out strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			out.WriteByte(',')
		}
		out.WriteRune(d)
	}
	return out.String()
}

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
