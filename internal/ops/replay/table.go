package replay

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"binnacle/internal/telemetry"
)

// table is a file of comma-separated values, or values separated by another character.
type table struct {
	text           *text
	rows           *rows
	tenant, device string
	timeColumn     int
	deviceColumn   int // -1: none
	columns        int
	metrics        []column // sorted by name
	exported       bool     // the file is Binnacle's export, which quotes text and nothing else
	fields         []telemetry.Field
}

type column struct {
	name  string
	index int
}

// timeColumns are the names that a time column is taken to have if none is given.
var timeColumns = []string{"time", "timestamp", "ts", "datetime", "date"}

func newTable(cfg Config, t *text) (*table, error) {
	head, err := t.head()
	if err == io.EOF {
		return nil, fmt.Errorf("%s is empty: a CSV file begins with a line of column names", t.path)
	}
	if err != nil {
		return nil, err
	}
	s := &table{text: t, rows: newRows(t, delimiter(head)), tenant: cfg.Tenant, device: cfg.Device, deviceColumn: -1}
	var header []csvCell
	for len(header) == 0 && err == nil {
		header, err = s.rows.next()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the line of column names: %w", t.path, err)
	}
	return s, s.begin(cfg, header)
}

// begin reads the line of column names.
func (s *table) begin(cfg Config, header []csvCell) error {
	s.exported = len(header) > 1 && header[0] == csvCell{text: "time"} && header[1] == csvCell{text: "device"}
	names := make([]string, len(header))
	for i, cell := range header {
		if names[i] = strings.TrimSpace(cell.text); names[i] == "" {
			names[i] = "column_" + strconv.Itoa(i+1)
		}
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("%s has two columns named %q", s.text.path, names[i])
		}
	}
	s.columns = len(names)
	var err error
	if s.timeColumn, err = s.findTime(cfg.TimeColumn, names); err != nil {
		return err
	}
	if cfg.DeviceColumn != "" {
		if s.deviceColumn, err = s.find("--device-column", cfg.DeviceColumn, names); err != nil {
			return err
		}
	}
	for i, name := range names {
		if i == s.timeColumn || i == s.deviceColumn {
			continue
		}
		if s.exported && (name == "metric:time" || name == "metric:device") {
			name = strings.TrimPrefix(name, "metric:")
		}
		if err := telemetry.CheckName("column", name); err != nil {
			return fmt.Errorf("%s: %w", s.text.path, err)
		}
		s.metrics = append(s.metrics, column{name, i})
	}
	slices.SortFunc(s.metrics, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	if len(s.metrics) == 0 {
		return fmt.Errorf("%s has no column but %s: there is nothing to publish", s.text.path, strings.Join(names, ", "))
	}
	return nil
}

func (s *table) find(flag, name string, names []string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s %q: %s has the columns %s", flag, name, s.text.path, strings.Join(names, ", "))
}

func (s *table) findTime(name string, names []string) (int, error) {
	if name != "" {
		return s.find("--time-column", name, names)
	}
	for _, guess := range timeColumns {
		for i, n := range names {
			if strings.EqualFold(n, guess) {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("%s needs --time-column; it has the columns %s", s.text.path, strings.Join(names, ", "))
}

func (s *table) next(e *element) error {
	e.line = s.text.lines + 1
	row, err := s.rows.next()
	switch {
	case errors.Is(err, errRow):
		e.refuse("%s", err)
		return nil
	case err != nil:
		return err
	case len(row) == 0:
		e.outcome = nothing
		return nil
	}
	s.reading(row, e)
	return nil
}

func (s *table) reading(row []csvCell, e *element) {
	if len(row) != s.columns {
		e.refuse("it has %d cells; the line of column names has %d", len(row), s.columns)
		return
	}
	at := strings.TrimSpace(row[s.timeColumn].text)
	millis, ok := parseTime(at)
	if !ok {
		e.refuse("%s", badTime(at))
		return
	}
	r := &e.reading
	*r = telemetry.Reading{Tenant: s.tenant, Device: s.device, Time: millis}
	if s.deviceColumn >= 0 {
		if id := strings.TrimSpace(row[s.deviceColumn].text); id != "" {
			r.Device = id
		}
	}
	s.fields = s.fields[:0]
	for _, c := range s.metrics {
		x := row[c.index]
		if v, ok := x.value(s.exported); ok {
			s.fields = append(s.fields, telemetry.Field{Metric: c.name, Value: v})
			if text := x.text; v.Kind() == telemetry.Text && !(s.exported && x.quoted) && numeric(text) {
				e.texts++
				e.text = cmp.Or(e.text, fmt.Sprintf("%.40q in column %s of line %d%s", text, c.name, e.line, commaNote(text)))
			}
		}
	}
	r.Fields = s.fields
	switch {
	case len(r.Fields) == 0:
		e.outcome = nothing
	case telemetry.CheckDevice(r.Device) != nil:
		e.outcome = deadLetter
	}
}

// numeric reports whether a text begins like a number.
func numeric(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "+-")
	return s != "" && s[0] >= '0' && s[0] <= '9'
}

var decimalComma = regexp.MustCompile(`^\s*[+-]?[0-9]+([. ][0-9]{3})*,[0-9]+\s*$`)

func commaNote(s string) string {
	if decimalComma.MatchString(s) {
		return ": a decimal comma? Numbers have a point"
	}
	return ""
}

var dayOrMonthFirst = regexp.MustCompile(`^[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}\b`)

// badTime says why a text is no time.
func badTime(s string) string {
	switch {
	case s == "":
		return "it has no time"
	case dayOrMonthFirst.MatchString(s):
		return fmt.Sprintf("the time %.40q does not say which number is the day and which the month: "+
			"write 2006-01-02 15:04:05 or seconds since 1970", s)
	}
	return fmt.Sprintf("%.40q is not a time, such as 2006-01-02T15:04:05Z, 2006-01-02 15:04:05 or seconds since 1970", s)
}

// value returns the value of a cell; ok is false if it is empty. Blanks around numbers and bools don't matter. In a
// file of Binnacle's own what is quoted is text.
func (c csvCell) value(exported bool) (v telemetry.Value, ok bool) {
	if exported && c.quoted {
		return telemetry.TextValue(c.text), true
	}
	bare := strings.TrimSpace(c.text)
	if bare == "" {
		return v, false
	}
	switch bare {
	case "true", "True", "TRUE":
		return telemetry.BoolValue(true), true
	case "false", "False", "FALSE":
		return telemetry.BoolValue(false), true
	}
	if v, ok := number(bare); ok {
		return v, true
	}
	return telemetry.TextValue(c.text), true
}

// number returns a float64, but an int64 where an integer of that size is written that no float64 holds. Beyond int64
// an integer is the nearest float64, as 0.1 is. NaN and infinities are numbers, in any case and with Infinity written
// out; hexadecimal floats and digits with underscores are not.
func number(s string) (v telemetry.Value, ok bool) {
	if !strings.ContainsRune("0123456789+-.iInN", rune(s[0])) {
		return v, false // most text shows by its first character
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || strings.ContainsAny(s, "xXpP_") {
		return v, false
	}
	if f >= 1<<53 || f <= -1<<53 {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil && (f >= 1<<63 || int64(f) != i) {
			return telemetry.IntValue(i), true
		}
	}
	return telemetry.FloatValue(f), true
}

// delimiter returns the character that separates the line of column names into the most columns.
func delimiter(head []byte) byte {
	best, most := byte(','), 0
	for _, d := range []byte{',', ';', '\t', '|'} {
		if row, err := appendCells(nil, rowOf(bytes.TrimLeft(head, "\r\n")), d); err == nil && len(row) > most {
			best, most = d, len(row)
		}
	}
	return best
}

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
