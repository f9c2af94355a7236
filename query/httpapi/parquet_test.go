package httpapi_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/stretchr/testify/require"
)

// tableOf opens a file of Parquet.
func tableOf(t *testing.T, body string) (r array.RecordReader, done func()) {
	t.Helper()
	f, err := file.NewParquetReader(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer f.Close()
	in, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 5000}, memory.NewGoAllocator())
	require.NoError(t, err)
	table, err := in.ReadTable(context.Background())
	require.NoError(t, err)
	all := array.NewTableReader(table, 0)
	return all, func() {
		all.Release()
		table.Release()
	}
}

// parquetLines is what a file of Parquet has, as arrowLines has it, and how many row groups it has.
func parquetLines(t *testing.T, body string) (lines [][]string, groups int) {
	t.Helper()
	r, done := tableOf(t, body)
	defer done()
	lines, _ = linesOf(t, r)
	f, err := file.NewParquetReader(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer f.Close()
	return lines, f.NumRowGroups()
}

// A file has what an Arrow stream has, each float in all its bits.
func TestParquetFiles(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for _, asked := range []string{"", "device=none&", "order=desc&metric=temp&"} {
		path := "/api/v1/readings?" + asked
		a := s.get(t, path+"format=parquet")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "application/vnd.apache.parquet", a.header.Get("Content-Type"))
		require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
		got, _ := parquetLines(t, a.body)
		want, _ := arrowLines(t, s.get(t, path+"format=arrow").body)
		require.Equal(t, want, got, path)
	}
	s = newServer(t, nil)
	s.flood(43_000)
	a := s.get(t, "/api/v1/readings?format=parquet&from=-2d")
	got, groups := parquetLines(t, a.body)
	require.Equal(t, 2, groups)
	want, _ := arrowLines(t, s.get(t, "/api/v1/readings?format=arrow&from=-2d").body)
	require.Equal(t, len(want), len(got))
	require.Equal(t, want, got)
}

// Each row group has its columns encoded for what they hold.
func TestParquetIsNotCompressedTwice(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	r, err := s.do(t, "GET", "/api/v1/readings?format=parquet", map[string][]string{"X-Scope-OrgID": {"acme"},
		"Accept-Encoding": {"zstd, gzip"}})
	require.NoError(t, err)
	require.Empty(t, r.header.Get("Content-Encoding"))
	f, err := file.NewParquetReader(bytes.NewReader([]byte(r.body)))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, "binnacle", f.MetaData().GetCreatedBy())
	times, err := f.MetaData().RowGroup(0).ColumnChunk(0)
	require.NoError(t, err)
	require.Contains(t, times.Encodings(), parquet.Encodings.DeltaBinaryPacked)
}
