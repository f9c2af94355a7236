package replay

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"
)

// errRow is a row that is not CSV.
var errRow = errors.New("not a row of CSV")

// rows cuts a file into rows, as RFC 4180 has them. A quote out of place spoils its own line, not all that follow up to
// the next quote.
type rows struct {
	text      *text
	delimiter byte
	row       []csvCell
}

// csvCell is a cell of a row. What was quoted is text in files that tell numbers from text by it.
type csvCell struct {
	text   string
	quoted bool
}

func newRows(t *text, delimiter byte) *rows { return &rows{text: t, delimiter: delimiter} }

// next returns the next row: none for a blank line, errRow for a line that is no row. Its strings may be kept, the
// slice is valid until the next call.
func (r *rows) next() ([]csvCell, error) {
	head, err := r.text.head()
	if err != nil {
		return nil, err
	}
	first, whole := firstLine(head)
	if !whole {
		line, ok, err := r.text.line()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errRow
		}
		return r.parse(line)
	}
	part := rowOf(head)
	row, err := r.parse(part)
	if err != nil && len(first) < len(part) {
		part = first
		row, err = r.parse(part)
	}
	r.text.take(part)
	return row, err
}

// rowOf returns the first row of head: the lines up to the one by which all quotes are closed. It is the first line if
// they are not closed in head.
func rowOf(head []byte) []byte {
	open := false
	for i, c := range head {
		switch {
		case c == '"':
			open = !open
		case c == '\n' && !open:
			return head[:i+1]
		}
	}
	if open || len(head) == lookAhead {
		first, _ := firstLine(head)
		return first
	}
	return head
}

// parse reads a row with its line end; a blank one has no cells.
func (r *rows) parse(part []byte) (row []csvCell, err error) {
	if len(bytes.Trim(part, " \t\r\n")) == 0 && utf8.Valid(part) {
		return nil, nil
	}
	r.row, err = appendCells(r.row[:0], part, r.delimiter)
	return r.row, err
}

// appendCells appends the cells of a row. All bytes between the quotes of a cell are its text, line ends, too.
func appendCells(row []csvCell, part []byte, delimiter byte) ([]csvCell, error) {
	if !utf8.Valid(part) {
		return row, errRow
	}
	for rest, more := strings.TrimSuffix(strings.TrimSuffix(string(part), "\n"), "\r"), true; more; {
		var cell csvCell
		if cell.quoted = strings.HasPrefix(rest, `"`); cell.quoted {
			var ok bool
			if cell.text, rest, ok = unquote(rest[1:]); !ok {
				return row, errRow
			}
			if more = rest != ""; more && rest[0] != delimiter {
				return row, errRow
			}
			rest = rest[min(1, len(rest)):]
		} else if cell.text, rest, more = strings.Cut(rest, string(rune(delimiter))); strings.Contains(cell.text, `"`) {
			return row, errRow
		}
		row = append(row, cell)
	}
	return row, nil
}

// unquote returns a text up to the quote that ends it, with one quote for each two, and what comes behind.
func unquote(s string) (text, rest string, ok bool) {
	for {
		end := strings.IndexByte(s, '"')
		if end < 0 {
			return "", "", false
		}
		if end+1 == len(s) || s[end+1] != '"' {
			return text + s[:end], s[end+1:], true
		}
		text, s = text+s[:end+1], s[end+2:]
	}
}
