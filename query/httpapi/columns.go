package httpapi

import (
	"reflect"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
	"binnacle/query"

	"github.com/parquet-go/parquet-go"
)

// column is a column of a file of Parquet. It implements parquet.Field.
type column struct {
	parquet.Node
	name string
}

// Name implements parquet.Field.
func (c column) Name() string { return c.name }

// Value implements parquet.Field. Rows are not written as Go values.
func (c column) Value(reflect.Value) reflect.Value { panic("no Go value has a column") }

// instants returns a column of instants, which are nearly equidistant.
func instants(name string) column {
	node := parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked)
	return column{parquet.Required(node), name}
}

// texts returns a column of texts.
func texts(name string, nullable bool) column { return repeating(name, parquet.String(), nullable) }

// floats returns a column of floats, which may be null.
func floats(name string) column { return repeating(name, parquet.Leaf(parquet.DoubleType), true) }

// integers returns a column of integers.
func integers(name string, nullable bool) column {
	return repeating(name, parquet.Leaf(parquet.Int64Type), nullable)
}

// bools returns a column of bools, which may be null.
func bools(name string) column {
	return column{parquet.Optional(parquet.Leaf(parquet.BooleanType)), name}
}

// repeating returns a column with a dictionary, for values that repeat.
func repeating(name string, node parquet.Node, nullable bool) column {
	node = parquet.Encoded(node, &parquet.RLEDictionary)
	if nullable {
		return column{parquet.Optional(node), name}
	}
	return column{parquet.Required(node), name}
}

// valueColumns has a value a line, as layout=long of CSV, with the value by its type.
var valueColumns = []column{instants("time"), texts("device", false), texts("labels", true), texts("metric", false),
	floats("value"), integers("integer", true), bools("bool"), texts("text", true)}

// valueLine is a line of valueColumns.
type valueLine struct {
	ms     int64
	device string
	labels string // encoded as JSON
	metric string
	value  telemetry.Value
}

// appendValue appends a row of valueColumns. A number and a bool stand in the column "value", too, as the nearest
// float.
func (f *parquetFile) appendValue(l valueLine) error {
	f.time(0, l.ms)
	f.text(1, l.device, true)
	f.text(2, l.labels, l.labels != "")
	f.text(3, l.metric, true)
	kind := l.value.Kind()
	n, ok := nearest(l.value)
	f.number(4, n, ok)
	f.integer(5, l.value.Int(), kind == telemetry.Int)
	f.bool(6, l.value.Bits() == 1, kind == telemetry.Bool)
	f.text(7, l.value.Text(), kind == telemetry.Text)
	return f.endRow()
}

// parquetRows writes readings as a file of Parquet.
type parquetRows struct{ *records }

func (p parquetRows) row(r query.Row) error {
	labels := labelsText(r.Labels)
	for _, v := range r.Values {
		if err := p.file.appendValue(valueLine{r.Time, r.Device, labels, v.Metric, v.Value}); err != nil {
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
