package httpapi

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"binnacle/internal/telemetry"
	"binnacle/internal/wire/jsontext"
)

// The formats that have columns with types.
const (
	arrowFormat   = "arrow"
	parquetFormat = "parquet"

	arrowType = "application/vnd.apache.arrow.stream"
)

// A record batch has so many rows, but for the last one, or less where their texts are long.
const (
	arrowBatch      = 8192
	arrowBatchBytes = 1 << 20
)

// isBatched reports whether a format has columns with types.
func isBatched(format string) bool { return format == arrowFormat || format == parquetFormat }

// reserveFor takes what writing a format holds of what all queries may hold; free gives it back. The error is as of
// query.Memory.
func (a *api) reserveFor(format string) (free func(), err error) {
	if format != parquetFormat {
		return func() {}, nil
	}
	held := a.cfg.Querier.Memory(parquetBytes)
	if err := held.Take(parquetBytes); err != nil {
		held.Close()
		return nil, err
	}
	return held.Close, nil
}

// batches writes batches of records to a response.
type batches interface {
	Write(arrow.RecordBatch) error
	Close() error
}

// batched writes rows in record batches: as an Arrow stream, or as a file of Parquet. A row is a value appended to each
// of the builder's fields, followed by a call of added.
type batched struct {
	*array.RecordBuilder
	w    *response
	kind string // of the content
	open func() (batches, error)
	out  batches

	rows, bytes int // in the batch
}

// newBatched writes columns as a format, arrowFormat or parquetFormat.
func newBatched(w *response, format string, schema *arrow.Schema) *batched {
	t := &batched{RecordBuilder: array.NewRecordBuilder(memory.NewGoAllocator(), schema), w: w, kind: arrowType}
	t.open = func() (batches, error) { return ipc.NewWriter(w, ipc.WithSchema(schema)), nil }
	if format == parquetFormat {
		t.kind = parquetType
		t.open = func() (batches, error) { return openParquet(w, schema), nil }
	}
	return t
}

// begin answers with the kind of content. Nothing of the content is written before there is a batch of it, or none.
func (t *batched) begin() { t.w.begin(t.kind, trailers...) }

// added ends a row, in which there are so many bytes of text.
func (t *batched) added(bytes int) error {
	t.rows++
	t.bytes += bytes
	if t.rows == arrowBatch || t.bytes >= arrowBatchBytes {
		return t.flush()
	}
	return nil
}

// flush writes the batch.
func (t *batched) flush() (err error) {
	if t.out == nil {
		if t.out, err = t.open(); err != nil {
			return fmt.Errorf("begin record batches: %w", err)
		}
	}
	b := t.NewRecordBatch()
	defer b.Release()
	if t.rows, t.bytes = 0, 0; b.NumRows() == 0 {
		return nil
	}
	if err := t.out.Write(b); err != nil {
		return fmt.Errorf("write a record batch: %w", err)
	}
	return nil
}

// end writes the last batch, and the mark that the answer is whole.
func (t *batched) end() error {
	if err := t.flush(); err != nil {
		return err
	}
	t.Release()
	if err := t.out.Close(); err != nil {
		return fmt.Errorf("end the record batches: %w", err)
	}
	return nil
}

// time appends an instant to the column at i.
func (t *batched) time(i int, ms int64) {
	t.Field(i).(*array.TimestampBuilder).Append(arrow.Timestamp(ms))
}

// text appends a text to the column at i, as UTF-8, which readers count on, or null if there is none.
func (t *batched) text(i int, s string, there bool) {
	if !there {
		t.Field(i).AppendNull()
		return
	}
	t.Field(i).(*array.StringBuilder).Append(strings.ToValidUTF8(s, "\uFFFD"))
}

// number appends a number to the column at i, or null if there is none.
func (t *batched) number(i int, v float64, there bool) {
	if !there {
		t.Field(i).AppendNull()
		return
	}
	t.Field(i).(*array.Float64Builder).Append(v)
}

// integer appends an integer to the column at i, or null if there is none.
func (t *batched) integer(i int, v int64, there bool) {
	if !there {
		t.Field(i).AppendNull()
		return
	}
	t.Field(i).(*array.Int64Builder).Append(v)
}

// value appends a value to the columns of all types; the first column is i. A number and a bool stand in the first
// one, too, as the nearest float.
func (t *batched) value(i int, v telemetry.Value) {
	kind := v.Kind()
	n, ok := nearest(v)
	t.number(i, n, ok)
	t.integer(i+1, v.Int(), kind == telemetry.Int)
	if kind == telemetry.Bool {
		t.Field(i + 2).(*array.BooleanBuilder).Append(v.Bits() == 1)
	} else {
		t.Field(i + 2).AppendNull()
	}
	t.text(i+3, v.Text(), kind == telemetry.Text)
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

func instants(name string) arrow.Field {
	return arrow.Field{Name: name, Type: &arrow.TimestampType{Unit: arrow.Millisecond, TimeZone: "UTC"}}
}

func texts(name string, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.BinaryTypes.String, Nullable: nullable}
}

func floats(name string) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
}

func integers(name string, nullable bool) arrow.Field {
	return arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64, Nullable: nullable}
}
