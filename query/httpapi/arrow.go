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

// valueLine is a line of valueSchema; labels are JSON.
type valueLine struct {
	ms                     int64
	device, labels, metric string
	value                  telemetry.Value
}

func (t *batched) appendValue(l valueLine) error {
	t.time(0, l.ms)
	t.text(1, l.device, true)
	t.text(2, l.labels, l.labels != "")
	t.text(3, l.metric, true)
	t.value(4, l.value)
	text := 0
	if l.value.Kind() == telemetry.Text {
		text = len(l.value.Text())
	}
	return t.added(len(l.device) + len(l.labels) + len(l.metric) + text)
}

// batchedRows writes readings in batches.
type batchedRows struct{ *records }

func (a batchedRows) row(r query.Row) error {
	labels := labelsText(r.Labels)
	for _, f := range r.Values {
		if err := a.batched.appendValue(valueLine{r.Time, r.Device, labels, f.Metric, f.Value}); err != nil {
			return err
		}
	}
	return nil
}
