package httpapi

import (
	"reflect"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"

	"github.com/parquet-go/parquet-go"
)

// kind is how the cells of a field are written.
type kind byte

const (
	instantField kind = iota // an instant: milliseconds in JSON, RFC 3339 in CSV
	nameField                // a name, which CSV has without quotes where it can
	tagField                 // a text that may be missing
	labelsField              // labels, which may be missing
	countField               // an integer
	oddField                 // an integer, which JSON leaves out if it is 0
	figureField              // a number or a bool, which may be missing; Parquet has the nearest float
	floatField               // a float, which is null in JSON where it is missing
	valueField               // a value of any type, which may be missing; Parquet has a column for each type
)

// field describes what the records of a list have: in JSON a member, in CSV and Parquet a column.
type field struct {
	name string
	kind kind
	json string // the name of the member if it is another one
	in   place
}

// place is where a field is written.
type place byte

const (
	everywhere place = iota
	onlyInJSON
	onlyInTables
)

// cell is what a record has of a field; without a value and labels it is missing.
type cell struct {
	telemetry.Value
	labels telemetry.Labels
}

func textCell(s string) cell             { return cell{Value: telemetry.TextValue(s)} }
func intCell(n int64) cell               { return cell{Value: telemetry.IntValue(n)} }
func labelsCell(l telemetry.Labels) cell { return cell{labels: l} }
func valueCell(v telemetry.Value) cell   { return cell{Value: v} }
func optionalCell(s string, ok bool) (c cell) {
	if ok {
		c = textCell(s)
	}
	return c
}

// isMissing reports whether JSON has no member of a field.
func (f *field) isMissing(c *cell) bool {
	switch f.kind {
	case labelsField:
		return len(c.labels) == 0
	case oddField:
		return c.Int() == 0
	case floatField:
		return false
	}
	return c.Kind() == 0
}

// fields are the fields of a list, in the order of JSON.
type fields []field

// tableOrder returns the places of columns in CSV and Parquet: instants stand before the device.
func (l fields) tableOrder() (out []int) {
	for i, f := range l {
		if f.in == onlyInJSON {
			continue
		}
		at := len(out)
		if f.kind == instantField && at > 0 {
			for at > 0 && l[out[at-1]].name == "device" {
				at--
			}
		}
		out = append(out[:at], append([]int{i}, out[at:]...)...)
	}
	return out
}

func (l fields) head() string {
	var names []string
	for _, i := range l.tableOrder() {
		names = append(names, string(appendCell(nil, l[i].name)))
	}
	return strings.Join(names, ",")
}

func (l fields) columns() (out []column) {
	for _, i := range l.tableOrder() {
		name := l[i].name
		switch l[i].kind {
		case instantField:
			out = append(out, instants(name))
		case nameField:
			out = append(out, texts(name, l[i].in == onlyInTables))
		case tagField, labelsField:
			out = append(out, texts(name, true))
		case countField, oddField:
			out = append(out, integers(name, false))
		case figureField, floatField:
			out = append(out, floats(name))
		case valueField:
			out = append(out, floats(name), integers("integer", true), bools("bool"), texts("text", true))
		}
	}
	return out
}

func (l fields) appendJSON(b []byte, cells []cell) []byte {
	b = append(b, '{')
	for i := range l {
		f, c := &l[i], &cells[i]
		if f.in == onlyInTables || f.isMissing(c) {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		name := f.name
		if f.json != "" {
			name = f.json
		}
		b = append(append(append(b, '"'), name...), `":`...)
		switch {
		case f.kind == labelsField:
			b = jsontext.AppendLabels(b, c.labels)
		case c.Kind() == 0:
			b = append(b, "null"...)
		default:
			b = appendJSON(b, c.Value)
		}
	}
	return append(b, '}')
}

// appendCSV appends a record as a line. order is the tableOrder.
func (l fields) appendCSV(b []byte, order []int, cells []cell) []byte {
	for k, i := range order {
		if k > 0 {
			b = append(b, ',')
		}
		switch c := &cells[i]; {
		case l[i].kind == instantField:
			b = appendTime(b, c.Int())
		case len(c.labels) > 0:
			b = appendCell(b, labelsText(c.labels))
		case c.Kind() == 0:
		case l[i].kind == nameField:
			b = appendCell(b, c.Text())
		case l[i].kind == countField || l[i].kind == oddField:
			b = strconv.AppendInt(b, c.Int(), 10)
		default:
			b = appendValueCell(b, c.Value)
		}
	}
	return b
}

// appendRow appends a record as a row of columns. order is the tableOrder.
func (l fields) appendRow(f *parquetFile, order []int, cells []cell) error {
	column := 0
	for _, i := range order {
		switch c := &cells[i]; l[i].kind {
		case instantField:
			f.time(column, c.Int())
		case nameField, tagField:
			f.text(column, c.Text(), c.Kind() != 0)
		case labelsField:
			f.text(column, labelsText(c.labels), len(c.labels) > 0)
		case countField, oddField:
			f.integer(column, c.Int(), true)
		case figureField, floatField:
			n, ok := nearest(c.Value)
			f.number(column, n, ok)
		case valueField:
			n, ok := nearest(c.Value)
			f.number(column, n, ok)
			f.integer(column+1, c.Int(), c.Kind() == telemetry.Int)
			f.bool(column+2, c.Bits() == 1, c.Kind() == telemetry.Bool)
			f.text(column+3, c.Text(), c.Kind() == telemetry.Text)
			column += 3
		}
		column++
	}
	return f.endRow()
}

// column is a column of a file of Parquet. It implements parquet.Field.
type column struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (c column) Name() string { return c.name }

// Value implements parquet.Field. Rows are not written as Go values.
func (c column) Value(reflect.Value) reflect.Value { panic("no Go value has a column") }

func instants(name string) column {
	node := parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked)
	return column{parquet.Required(node), name}
}

func texts(name string, nullable bool) column { return repeating(name, parquet.String(), nullable) }

func floats(name string) column { return repeating(name, parquet.Leaf(parquet.DoubleType), true) }

func integers(name string, nullable bool) column {
	return repeating(name, parquet.Leaf(parquet.Int64Type), nullable)
}

func bools(name string) column {
	return column{parquet.Optional(parquet.Leaf(parquet.BooleanType)), name}
}

func repeating(name string, node parquet.Node, nullable bool) column {
	node = parquet.Encoded(node, &parquet.RLEDictionary)
	if nullable {
		return column{parquet.Optional(node), name}
	}
	return column{parquet.Required(node), name}
}

// valueFields has a value a record, as layout=long of CSV.
var valueFields = fields{{name: "device", kind: nameField}, {name: "time", kind: instantField, json: "ts"},
	{name: "labels", kind: labelsField}, {name: "metric", kind: nameField}, {name: "value", kind: valueField}}

// parquetRows writes readings as a file of Parquet.
type parquetRows struct{ *records }

func (p parquetRows) row(r query.Row) error {
	for _, v := range r.Values {
		err := p.record(textCell(r.Device), intCell(r.Time), labelsCell(r.Labels), textCell(v.Metric), valueCell(v.Value))
		if err != nil {
			return err
		}
	}
	return nil
}

// nearest returns the float that is nearest to a number or a bool; ok is false for text and for no value.
func nearest(v telemetry.Value) (float64, bool) {
	switch v.Kind() {
	case telemetry.Float:
		return v.Float(), true
	case telemetry.Int:
		return float64(v.Int()), true
	case telemetry.Bool:
		return float64(v.Bits()), true
	}
	return 0, false
}

// labelsText returns labels as JSON, empty if there are none.
func labelsText(l telemetry.Labels) string {
	if len(l) == 0 {
		return ""
	}
	return string(jsontext.AppendLabels(nil, l))
}
