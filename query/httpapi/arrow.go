package httpapi

import (
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/apache/arrow-go/v18/arrow"
)

// valueSchema is a value a line, as layout=long of CSV has them, with the value by its type.
var valueSchema = arrow.NewSchema([]arrow.Field{
	instants("time"), texts("device", false), texts("labels", true), texts("metric", false), floats("value"),
	integers("integer", true), {Name: "bool", Type: arrow.FixedWidthTypes.Boolean, Nullable: true}, texts("text", true),
}, nil)

// appendValue appends a line of valueSchema; labels are JSON.
func (t *batched) appendValue(ms int64, device, labels, metric string, v telemetry.Value) error {
	t.time(0, ms)
	t.text(1, device, true)
	t.text(2, labels, labels != "")
	t.text(3, metric, true)
	t.value(4, v)
	text := 0
	if v.Kind() == telemetry.Text {
		text = len(v.Text())
	}
	return t.added(len(device) + len(labels) + len(metric) + text)
}

// batchedRows writes readings as an Arrow stream or a file of Parquet.
type batchedRows struct{ *batched }

func newBatchedRows(w *response, format string) batchedRows {
	return batchedRows{newBatched(w, format, valueSchema)}
}

func (a batchedRows) row(r query.Row) error {
	labels := labelsText(r.Labels)
	for _, f := range r.Values {
		if err := a.appendValue(r.Time, r.Device, labels, f.Metric, f.Value); err != nil {
			return err
		}
	}
	return nil
}

func (a batchedRows) end(r query.Result) error {
	if err := a.batched.end(); err != nil {
		return err
	}
	return endWithTrailers(a.w, r)
}
