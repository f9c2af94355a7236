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
