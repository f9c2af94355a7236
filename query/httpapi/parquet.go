package httpapi

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/klauspost/compress/gzhttp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
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

	// boundBytes is the longest text that stands in the footer as the least or greatest of a row group.
	boundBytes = 256
)

// parquetFile writes record batches as a file of Parquet, row group by row group.
type parquetFile struct {
	out    *parquet.GenericWriter[any]
	body   *parquetBody
	rows   int64  // of the row group
	bytes  uint64 // of the row group
	values []parquet.Value
	nan    []bool   // which columns of the row group have one
	nans   [][]bool // the same of the row groups before it
}

// openParquet begins a file. What readers need to find its row groups comes last.
func openParquet(w *response, schema *arrow.Schema) *parquetFile {
	root := parquetRoot{Group: parquet.Group{}}
	for _, f := range schema.Fields() {
		node := parquetNode(f)
		root.Group[f.Name] = node
		root.fields = append(root.fields, parquetField{node, f.Name})
	}
	f := &parquetFile{body: &parquetBody{Writer: w, end: math.MaxInt64}, nan: make([]bool, len(root.fields))}
	f.out = parquet.NewGenericWriter[any](f.body, parquet.NewSchema("schema", root),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("binnacle", "1", ""),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.PageBufferSize(pageBytes))
	return f
}

// parquetBody writes what comes before the footer.
type parquetBody struct {
	io.Writer
	at, end int64
}

// Write drops what is behind the body.
func (b *parquetBody) Write(p []byte) (int, error) {
	n, err := b.Writer.Write(p[:min(int64(len(p)), b.end-b.at)])
	if b.at += int64(n); err != nil {
		return n, err
	}
	return len(p), nil
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
		if err := f.endGroup(); err != nil {
			return err
		}
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
				v := parquetValue(c, row)
				f.nan[i] = f.nan[i] || v.Kind() == parquet.Double && math.IsNaN(v.Double())
				f.values = append(f.values, v.Level(0, present, i))
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

// endGroup ends the row group.
func (f *parquetFile) endGroup() error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("end a row group: %w", err)
	}
	f.nans = append(f.nans, slices.Clone(f.nan))
	clear(f.nan)
	f.rows, f.bytes = 0, 0
	return nil
}

// Close ends the file with a footer that is not the library's: that has bounds of columns with a NaN, which a reader
// that looks for numbers would believe. It has no index of pages, either, for the same reason.
func (f *parquetFile) Close() error {
	if f.rows > 0 {
		if err := f.endGroup(); err != nil {
			return err
		}
	}
	f.body.end = max(f.out.File().Size(), int64(len(parquetMagic))) // some of it may wait in the library's buffer
	if err := f.out.Close(); err != nil {
		return err
	}
	meta := f.out.File().Metadata()
	for g := range meta.RowGroups {
		for i := range meta.RowGroups[g].Columns {
			c := &meta.RowGroups[g].Columns[i]
			c.ColumnIndexOffset, c.ColumnIndexLength, c.OffsetIndexOffset, c.OffsetIndexLength = 0, 0, 0, 0
			boundColumn(&c.MetaData, f.nans[g][i])
		}
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		return fmt.Errorf("encode the footer: %w", err)
	}
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	_, err = f.body.Writer.Write(append(footer, parquetMagic...))
	return err
}

const parquetMagic = "PAR1"

// boundColumn makes the least and greatest value of a column what the specification allows: none where a NaN is among
// the values, a zero with the sign that includes the other one. Long texts have none.
func boundColumn(c *format.ColumnMetaData, hasNaN bool) {
	s := &c.Statistics
	if c.Type == format.Double && isZero(s.MinValue) {
		s.MinValue = binary.LittleEndian.AppendUint64(nil, math.Float64bits(math.Copysign(0, -1)))
	}
	if c.Type == format.Double && isZero(s.MaxValue) {
		s.MaxValue = make([]byte, 8)
	}
	if hasNaN || max(len(s.MinValue), len(s.MaxValue)) > boundBytes {
		s.MinValue, s.MaxValue = nil, nil
	}
}

// isZero reports whether a float64 is a zero of either sign.
func isZero(value []byte) bool {
	return len(value) == 8 && binary.LittleEndian.Uint64(value)<<1 == 0
}

// compresses reports whether an answer of a type is worth compressing: what is compressed already is not.
func compresses(contentType string) bool {
	return !strings.HasPrefix(contentType, parquetType) && gzhttp.DefaultContentTypeFilter(contentType)
}
