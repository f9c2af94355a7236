// Package report writes what tools tell people on a terminal: tables, paragraphs, numbers. It decides how things
// look, not what they say.
package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/rivo/uniseg"
)

// gap stands between two columns.
const gap = "  "

// Grid writes rows of figures, indented: the first column to the left, which names the row, all others to the right.
// Rows may be of different lengths.
func Grid(w io.Writer, rows [][]string) error {
	return columns(w, gap, rows, func(column int) bool { return column > 0 })
}

// List writes rows of text in columns, all to the left.
func List(w io.Writer, rows [][]string) error {
	return columns(w, "", rows, func(int) bool { return false })
}

// columns pads each cell to the width of its column, as a terminal shows it, and leaves out blanks at ends of lines.
// Text to the left that ends its row may be longer than its column: there is nothing behind it to push aside.
func columns(w io.Writer, indent string, rows [][]string, right func(column int) bool) error {
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
				line.WriteString(indent)
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

// lineEnd is where a line of a paragraph ends at the latest.
const lineEnd = 116

// Paragraph writes text in lines that begin behind the mark, which stands before the first.
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

// Thousands is an integer with its digits in groups of three.
func Thousands[T ~int | ~int64](n T) string {
	if n < 0 {
		return "-" + group(strings.TrimPrefix(fmt.Sprint(n), "-"))
	}
	return group(fmt.Sprint(n))
}

// Dollars is an amount with cents and grouped digits.
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
