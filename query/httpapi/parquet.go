package httpapi

import (
	"fmt"
	"reflect"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/klauspost/compress/gzhttp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const parquetType = "application/vnd.apache.parquet"

// A row group is held back until it is whole, so it ends with so many rows, or bytes before they are compressed.
const (
	groupRows  = 1 << 16
	groupBytes = 16 << 20

	// parquetBytes is about what writing takes: a row group, and what its columns' writers hold.
	parquetBytes = 32 << 20

	// pageBytes is the size of a page of a column before it is compressed.
	pageBytes = 1 << 20

	// dictionaryBytes is the size of a column's dictionary from which on its values are written as they are.
	dictionaryBytes = 1 << 20
)

// parquetFile writes record batches as a file of Parquet, row group by row group.
type parquetFile struct {
	out    *parquet.GenericWriter[any]
	rows   int64  // of the row group
	bytes  uint64 // of the row group
	values []parquet.Value
}

// openParquet begins a file. What readers need to find its row groups comes last.
func openParquet(w *response, schema *arrow.Schema) *parquetFile {
	root := parquetRoot{Group: parquet.Group{}}
	for _, f := range schema.Fields() {
		node := parquetNode(f)
		root.Group[f.Name] = node
		root.fields = append(root.fields, parquetField{node, f.Name})
	}
	return &parquetFile{out: parquet.NewGenericWriter[any](w, parquet.NewSchema("schema", root),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("binnacle", "1", ""),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.PageBufferSize(pageBytes))}
}

// parquetRoot is a group of columns in their order; that of a parquet.Group is by name.
type parquetRoot struct {
	parquet.Group
	fields []parquet.Field
}

func (r parquetRoot) Fields() []parquet.Field { return r.fields }

type parquetField struct {
	parquet.Node
	name string
}

func (f parquetField) Name() string { return f.name }

// Value implements parquet.Field. Rows are not written as Go values.
func (f parquetField) Value(reflect.Value) reflect.Value { panic("no Go value has a column") }

// parquetNode returns how a column is stored. Instants are nearly equidistant, other values repeat.
func parquetNode(f arrow.Field) parquet.Node {
	var node parquet.Node
	switch f.Type.ID() {
	case arrow.TIMESTAMP:
		node = parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked)
	case arrow.BOOL:
		node = parquet.Leaf(parquet.BooleanType)
	case arrow.INT64:
		node = parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.RLEDictionary)
	case arrow.FLOAT64:
		node = parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.RLEDictionary)
	default:
		node = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	if f.Nullable {
		return parquet.Optional(node)
	}
	return parquet.Required(node)
}

// Write adds to the row group, or begins the next one where it is large enough.
func (f *parquetFile) Write(b arrow.RecordBatch) error {
	if f.rows > 0 && (f.rows+b.NumRows() > groupRows || f.bytes >= groupBytes) {
		if err := f.out.Flush(); err != nil {
			return fmt.Errorf("end a row group: %w", err)
		}
		f.rows, f.bytes = 0, 0
	}
	f.rows += b.NumRows()
	for i, c := range b.Columns() {
		f.bytes += c.Data().SizeInBytes()
		present := 0 // the definition level of a value
		if b.Schema().Field(i).Nullable {
			present = 1
		}
		f.values = f.values[:0]
		null := parquet.NullValue().Level(0, 0, i)
		for row := range c.Len() {
			if c.IsNull(row) {
				f.values = append(f.values, null)
			} else {
				f.values = append(f.values, parquetValue(c, row).Level(0, present, i))
			}
		}
		if _, err := f.out.ColumnWriters()[i].WriteRowValues(f.values); err != nil {
			return err
		}
	}
	return nil
}

func parquetValue(column arrow.Array, row int) parquet.Value {
	switch c := column.(type) {
	case *array.Timestamp:
		return parquet.Int64Value(int64(c.Value(row)))
	case *array.Boolean:
		return parquet.BooleanValue(c.Value(row))
	case *array.Int64:
		return parquet.Int64Value(c.Value(row))
	case *array.Float64:
		return parquet.DoubleValue(c.Value(row))
	}
	text := column.(*array.String).Value(row)
	return parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(text), len(text))) // it is copied when it is written
}

// Close ends the file.
func (f *parquetFile) Close() error { return f.out.Close() }

// compresses reports whether an answer of a type is worth compressing: what is compressed already is not.
func compresses(contentType string) bool {
	return !strings.HasPrefix(contentType, parquetType) && gzhttp.DefaultContentTypeFilter(contentType)
}
