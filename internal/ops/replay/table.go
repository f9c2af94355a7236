package replay

import (
	"cmp"
	"encoding/csv"
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
	path           string
	in             *bounded // of rows
	rows           *csv.Reader
	line           int // the last row's first line
	tenant, device string
	timeColumn     int
	deviceColumn   int // -1: none
	columns        int
	metrics        []column // sorted by name
	fields         []telemetry.Field
}

// maxRow is the bytes of a row from which on the file ends: a quote that is not closed would take all that follows into
// memory.
const maxRow = 16 << 20

// bounded reads one row after another.
type bounded struct {
	io.Reader
	left int // bytes until the row is too long
}

var errLongRow = fmt.Errorf("a row has more than %d bytes: perhaps a quote is not closed", maxRow)

// Read implements io.Reader.
func (r *bounded) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.Reader.Read(b)
	r.left -= n
	return n, err
}

type column struct {
	name  string
	index int
}

// timeColumns are the names that a time column is taken to have if none is given.
var timeColumns = []string{"time", "timestamp", "ts", "datetime", "date"}

func newTable(cfg Config, t *text) (*table, error) {
	head, err := t.in.Peek(maxHeader)
	if len(head) == 0 && err == io.EOF {
		return nil, fmt.Errorf("%s is empty: a CSV file begins with a line of column names", t.path)
	}
	names, _, _ := strings.Cut(strings.TrimLeft(string(head), "\r\n"), "\n")
	in := &bounded{t.in, maxRow}
	s := &table{path: t.path, in: in, rows: csv.NewReader(in), tenant: cfg.Tenant, device: cfg.Device, deviceColumn: -1}
	s.rows.Comma, s.rows.FieldsPerRecord, s.rows.ReuseRecord = delimiter(names), -1, true
	header, err := s.rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: the line of column names: %w", t.path, err)
	}
	return s, s.begin(cfg, header)
}

// maxHeader is the bytes of the line of column names by which the delimiter is chosen.
const maxHeader = 1 << 16

// begin reads the line of column names.
func (s *table) begin(cfg Config, header []string) error {
	names := make([]string, len(header))
	for i, cell := range header {
		if names[i] = strings.TrimSpace(cell); names[i] == "" {
			names[i] = "column_" + strconv.Itoa(i+1)
		}
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("%s has two columns named %q", s.path, names[i])
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
		if err := telemetry.CheckName("column", name); err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
		s.metrics = append(s.metrics, column{name, i})
	}
	slices.SortFunc(s.metrics, func(a, b column) int { return cmp.Compare(a.name, b.name) })
	if len(s.metrics) == 0 {
		return fmt.Errorf("%s has no column but %s: there is nothing to publish", s.path, strings.Join(names, ", "))
	}
	return nil
}

func (s *table) find(flag, name string, names []string) (int, error) {
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("%s %q: %s has the columns %s", flag, name, s.path, strings.Join(names, ", "))
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
	return 0, fmt.Errorf("%s needs --time-column; it has the columns %s", s.path, strings.Join(names, ", "))
}

// next reads a row. A quote that is not closed would take all that follows with it, so it ends the file.
func (s *table) next(e *element) error {
	s.in.left = maxRow
	row, err := s.rows.Read()
	wrong, isWrong := errors.AsType[*csv.ParseError](err)
	switch {
	case err == io.EOF:
		return err
	case isWrong && wrong.Line == wrong.StartLine:
		e.line = wrong.Line
		e.refuse("%v", wrong.Err)
		return nil
	case errors.Is(err, errLongRow):
		return fmt.Errorf("read %s: behind line %d: %w", s.path, s.line, err)
	case err != nil:
		return fmt.Errorf("read %s: %w", s.path, err)
	}
	e.line, _ = s.rows.FieldPos(0)
	s.line = e.line
	s.reading(row, e)
	return nil
}

func (s *table) reading(row []string, e *element) {
	switch {
	case len(row) != s.columns:
		e.refuse("it has %d cells; the line of column names has %d", len(row), s.columns)
		return
	case slices.ContainsFunc(row, func(cell string) bool { return !utf8.ValidString(cell) }):
		e.refuse("it is not UTF-8")
		return
	}
	at := strings.TrimSpace(row[s.timeColumn])
	millis, ok := parseTime(at)
	if !ok {
		e.refuse("%s", badTime(at))
		return
	}
	r := &e.reading
	*r = telemetry.Reading{Tenant: s.tenant, Device: s.device, Time: millis}
	if s.deviceColumn >= 0 {
		if id := strings.TrimSpace(row[s.deviceColumn]); id != "" {
			r.Device = id
		}
	}
	s.fields = s.fields[:0]
	for _, c := range s.metrics {
		text := row[c.index]
		if v, ok := cellValue(text); ok {
			s.fields = append(s.fields, telemetry.Field{Metric: c.name, Value: v})
			if v.Kind() == telemetry.Text && numeric(text) {
				e.texts++
				e.text = cmp.Or(e.text, fmt.Sprintf("%.40q in column %s of line %d%s", text, c.name, e.line, commaNote(text)))
			}
		}
	}
	r.Fields = s.fields
	if len(r.Fields) == 0 {
		e.outcome = nothing
	} else if err := telemetry.CheckDevice(r.Device); err != nil {
		e.refuse("%v", err)
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

// cellValue returns the value of a cell; ok is false if it is empty. Blanks around numbers and bools don't matter.
func cellValue(text string) (v telemetry.Value, ok bool) {
	bare := strings.TrimSpace(text)
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
	return telemetry.TextValue(text), true
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
func delimiter(names string) rune {
	return slices.MaxFunc([]rune(",;\t|"), func(a, b rune) int {
		return cmp.Compare(strings.Count(names, string(a)), strings.Count(names, string(b)))
	})
}
