package replay

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"unicode/utf8"
)

// errRow is a row that is not CSV.
var errRow = errors.New("not a row of CSV")

// rows cuts a file into rows and reads each by encoding/csv. It cuts by itself because a quote out of
// place shall spoil its own line, not all that follow up to the next quote.
type rows struct {
	text   *text
	feed   feed
	reader *csv.Reader
}

func newRows(t *text, delimiter rune) *rows {
	r := &rows{text: t}
	r.reader = csv.NewReader(&r.feed)
	r.reader.Comma, r.reader.FieldsPerRecord, r.reader.ReuseRecord = delimiter, -1, true
	return r
}

// next returns the next row: none for a blank line, errRow for a line that is no row. Its strings may be kept, the
// slice is valid until the next call.
func (r *rows) next() ([]string, error) {
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

func (r *rows) parse(part []byte) ([]string, error) {
	if !utf8.Valid(part) {
		return nil, errRow
	}
	if len(bytes.Trim(part, " \t\r\n")) == 0 {
		return nil, nil
	}
	r.feed.rest = part
	row, err := r.reader.Read()
	if err != nil || len(r.feed.rest) > 0 {
		r.drain()
		return nil, errRow
	}
	return row, nil
}

// drain takes what a refused row has left in the reader.
func (r *rows) drain() {
	for {
		if _, err := r.reader.Read(); err == io.EOF {
			return
		}
	}
}

// feed gives the CSV reader one row, then says that the file ends. The next row begins it anew.
type feed struct{ rest []byte }

func (f *feed) Read(b []byte) (int, error) {
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}
