package httpapi

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/gzhttp"
)

const parquetType = "application/vnd.apache.parquet"

// A row group is held back until it is whole, so it ends with so many values, or bytes once they are compressed.
const (
	groupValues = 1 << 16
	groupBytes  = 4 << 20

	// parquetBytes is about what writing takes: a row group, and what its columns' writers hold.
	parquetBytes = 32 << 20
)

// parquetFile writes record batches as a file of Parquet, row group by row group.
type parquetFile struct{ *pqarrow.FileWriter }

// openParquet begins a file. What readers need to find its row groups comes last.
func openParquet(w *response, schema *arrow.Schema) (batches, error) {
	options := []parquet.WriterProperty{
		parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCompressionLevel(1),
		parquet.WithMaxRowGroupLength(groupValues), parquet.WithCreatedBy("binnacle"),
	}
	for _, f := range schema.Fields() {
		if f.Type.ID() == arrow.TIMESTAMP {
			options = append(options, parquet.WithDictionaryFor(f.Name, false),
				parquet.WithEncodingFor(f.Name, parquet.Encodings.DeltaBinaryPacked))
		}
	}
	out, err := pqarrow.NewFileWriter(schema, w, parquet.NewWriterProperties(options...),
		pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	return parquetFile{out}, err
}

// Write adds to the row group, or begins the next one where it is large enough.
func (f parquetFile) Write(b arrow.RecordBatch) error {
	if f.RowGroupTotalCompressedBytes() >= groupBytes {
		if err := f.NewBufferedRowGroupChecked(); err != nil {
			return fmt.Errorf("begin a row group: %w", err)
		}
	}
	return f.WriteBuffered(b)
}

// compresses reports whether an answer of a type is worth compressing: what is compressed already is not.
func compresses(contentType string) bool {
	return !strings.HasPrefix(contentType, parquetType) && gzhttp.DefaultContentTypeFilter(contentType)
}
