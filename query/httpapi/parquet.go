package httpapi

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unsafe"

	"github.com/klauspost/compress/gzhttp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	parquetFormat = "parquet"
	parquetType   = "application/vnd.apache.parquet"
)

const (
	// pendingRows and pendingBytes are how many rows and bytes of texts writers of columns take at once.
	pendingRows  = 8192
	pendingBytes = 1 << 20

	// groupRows and groupBytes, before they are compressed, end a row group: it is held back until it is whole.
	groupRows  = 1 << 16
	groupBytes = 16 << 20

	// parquetBytes is about what writing takes: a row group, and what its columns' writers hold.
	parquetBytes = 32 << 20

	// pageBytes is the size of a page of a column before it is compressed.
	pageBytes = 1 << 20

	// dictionaryBytes is the size of a column's dictionary from which on its values are written as they are.
	dictionaryBytes = 1 << 20

	// boundBytes is the longest text that the footer lists as the least or greatest of a row group.
	boundBytes = 256
)

// parquetFile writes a file of Parquet, row group by row group. A row is a value appended to each column, followed by a
// call of endRow. It is owned by one goroutine.
type parquetFile struct {
	w    *response
	out  *parquet.GenericWriter[any]
	body *parquetBody

	pending      [][]parquet.Value // values by column that are not handed to the column writers yet
	rows         int               // pending
	bytes        int               // bytes of pending texts
	groupedRows  int               // rows of the row group that are not pending
	groupedBytes int
	nan          []bool   // which columns of the row group have one
	nans         [][]bool // the same of the row groups before it
}

// newParquetFile returns a file that is written to w. What readers need to find its row groups comes last.
func newParquetFile(w *response, columns []column) *parquetFile {
	root := parquetRoot{Group: parquet.Group{}}
	for _, c := range columns {
		root.Group[c.name] = c
		root.fields = append(root.fields, c)
	}
	f := &parquetFile{w: w, body: &parquetBody{Writer: w, end: math.MaxInt64},
		pending: make([][]parquet.Value, len(columns)), nan: make([]bool, len(columns))}
	f.out = parquet.NewGenericWriter[any](f.body, parquet.NewSchema("schema", root),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("binnacle", "1", ""),
		parquet.DictionaryMaxBytes(dictionaryBytes), parquet.PageBufferSize(pageBytes))
	return f
}

// begin answers with the kind of content. Nothing of the content is written before many rows are there, or the end.
func (f *parquetFile) begin() { f.w.begin(parquetType, trailers...) }

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

// cell appends a value to the column at i, or null.
func (f *parquetFile) cell(i int, v parquet.Value, there bool) {
	level := 0 // definition level: 1 for a value of a column that may be null
	if !there {
		v = parquet.NullValue()
	} else if f.out.Schema().Fields()[i].Optional() {
		level = 1
	}
	f.pending[i] = append(f.pending[i], v.Level(0, level, i))
}

func (f *parquetFile) time(i int, ms int64) { f.cell(i, parquet.Int64Value(ms), true) }

// text appends a text to the column at i as valid UTF-8, which readers require, or null.
func (f *parquetFile) text(i int, s string, there bool) {
	s = strings.ToValidUTF8(s, "\uFFFD")
	f.bytes += len(s)
	f.cell(i, parquet.ByteArrayValue(unsafe.Slice(unsafe.StringData(s), len(s))), there) // writers of columns copy it
}

// number appends a number to the column at i, or null.
func (f *parquetFile) number(i int, v float64, there bool) {
	f.nan[i] = f.nan[i] || there && math.IsNaN(v)
	f.cell(i, parquet.DoubleValue(v), there)
}

// integer appends an integer to the column at i, or null.
func (f *parquetFile) integer(i int, v int64, there bool) { f.cell(i, parquet.Int64Value(v), there) }

// bool appends a bool to the column at i, or null.
func (f *parquetFile) bool(i int, v, there bool) { f.cell(i, parquet.BooleanValue(v), there) }

func (f *parquetFile) endRow() error {
	if f.rows++; f.rows == pendingRows || f.bytes >= pendingBytes {
		return f.flush()
	}
	return nil
}

// flush hands the pending rows to the writers of columns, and ends the row group where it is large enough.
func (f *parquetFile) flush() error {
	if f.rows == 0 {
		return nil // a writer of a column takes the address of the first value
	}
	for i, values := range f.pending {
		if _, err := f.out.ColumnWriters()[i].WriteRowValues(values); err != nil {
			return fmt.Errorf("write the column %s: %w", f.out.Schema().Fields()[i].Name(), err)
		}
		clear(values)
		f.pending[i] = values[:0]
	}
	f.groupedRows += f.rows
	f.groupedBytes += f.bytes + 8*f.rows*len(f.pending)
	if f.rows, f.bytes = 0, 0; f.groupedRows+pendingRows > groupRows || f.groupedBytes >= groupBytes {
		return f.endGroup()
	}
	return nil
}

func (f *parquetFile) endGroup() error {
	if err := f.out.Flush(); err != nil {
		return fmt.Errorf("end a row group: %w", err)
	}
	f.nans = append(f.nans, slices.Clone(f.nan))
	clear(f.nan)
	f.groupedRows, f.groupedBytes = 0, 0
	return nil
}

// end writes what is pending, and ends the file with a footer that is not the library's: that has bounds of columns
// with a NaN, which a reader that looks for numbers would believe. It has no index of pages, for the same reason.
func (f *parquetFile) end() error {
	if err := f.flush(); err != nil {
		return err
	}
	if f.groupedRows > 0 {
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
