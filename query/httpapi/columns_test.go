package httpapi_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// columnsOf is what a file of Parquet has, row by row, and the names of its columns.
func columnsOf(t *testing.T, body string) (names []string, rows []parquet.Row) {
	t.Helper()
	f := openFile(t, body)
	for _, c := range f.Schema().Fields() {
		names = append(names, c.Name())
		switch of := c.Type().LogicalType(); c.Type().Kind() {
		case parquet.ByteArray:
			require.Equal(t, "STRING", of.String())
		case parquet.Int64:
			want := "INT(64,true)"
			if slices.Contains([]string{"time", "start", "end"}, c.Name()) {
				want = "TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS)"
			}
			require.Equal(t, want, of.String())
		}
	}
	all, buf := parquet.NewReader(f), make([]parquet.Row, 1000)
	for {
		n, err := all.ReadRows(buf)
		for _, row := range buf[:n] {
			rows = append(rows, row.Clone())
		}
		if err == io.EOF {
			return names, rows
		}
		require.NoError(t, err)
	}
}

// valuesOf is the values of a file of Parquet as layout=long of CSV has them, floats as their bits.
func valuesOf(t *testing.T, body string) (lines [][]string) {
	t.Helper()
	_, rows := columnsOf(t, body)
	for _, row := range rows {
		number, integer, truth := row[4], row[5], row[6]
		value := text(row[7])
		switch {
		case !integer.IsNull():
			require.InDelta(t, float64(integer.Int64()), number.Double(), 0)
			value = text(integer)
		case !truth.IsNull():
			require.Equal(t, truth.Boolean(), number.Double() == 1)
			value = text(truth)
		case !number.IsNull():
			value = fmt.Sprint(math.Float64bits(number.Double()))
		default:
			require.False(t, row[7].IsNull())
		}
		lines = append(lines, []string{instant(row[0]), text(row[1]), text(row[2]), text(row[3]), value})
	}
	return lines
}

// text is a value as CSV has it, empty for null.
func text(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	}
	return v.String()
}

func instant(v parquet.Value) string {
	return time.UnixMilli(v.Int64()).UTC().Format("2006-01-02T15:04:05.000Z")
}

// longCSV is the values of an answer as layout=long of CSV has them, floats as their bits.
func (s *server) longCSV(t *testing.T, path string) (lines [][]string) {
	all, err := csv.NewReader(strings.NewReader(s.get(t, path+"format=csv&layout=long").body)).ReadAll()
	require.NoError(t, err)
	for _, line := range all[1:] {
		if f, err := strconv.ParseFloat(line[4], 64); err == nil && line[3] != "n" {
			line[4] = fmt.Sprint(math.Float64bits(f))
		}
		lines = append(lines, line)
	}
	return lines
}

// A file has what CSV has, each float in all its bits.
func TestParquetFiles(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	for _, asked := range []string{"", "device=none&", "order=desc&metric=temp&"} {
		path := "/api/v1/readings?" + asked
		a := s.get(t, path+"format=parquet")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "application/vnd.apache.parquet", a.header.Get("Content-Type"))
		require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
		require.Equal(t, s.longCSV(t, path), valuesOf(t, a.body), path)
	}
	s = newServer(t, nil)
	s.flood(43_000)
	a := s.get(t, "/api/v1/readings?format=parquet&from=-2d&order=desc")
	require.Len(t, openFile(t, a.body).RowGroups(), 2)
	require.Equal(t, s.longCSV(t, "/api/v1/readings?from=-2d&order=desc&"), valuesOf(t, a.body))
	refused := s.get(t, "/api/v1/readings?format=arrow")
	require.Equal(t, 400, refused.status)
	require.Contains(t, refused.body, "json, ndjson, csv, parquet")
}

// cellsOf is a file of Parquet as CSV has the same answer, floats as CSV prints them.
func cellsOf(t *testing.T, body string) (lines [][]string) {
	t.Helper()
	names, rows := columnsOf(t, body)
	lines = append(lines, names)
	for _, row := range rows {
		line := make([]string, len(row))
		for i, v := range row {
			if line[i] = text(v); slices.Contains([]string{"time", "start", "end"}, names[i]) {
				line[i] = instant(v)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// Lists come in columns, too, and have what CSV has.
func TestListsInColumns(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	asCSV := func(path string) [][]string {
		all, err := csv.NewReader(strings.NewReader(s.get(t, path+"&format=csv").body)).ReadAll()
		require.NoError(t, err)
		require.Greater(t, len(all), 2, path)
		return all
	}
	inColumns := func(path string) [][]string {
		a := s.get(t, path+"&format=parquet")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "application/vnd.apache.parquet", a.header.Get("Content-Type"))
		require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
		return cellsOf(t, a.body)
	}

	for _, path := range []string{
		"/api/v1/aggregates?aggregate=count,avg,p50,stddev",
		"/api/v1/aggregates?step=10m&fill=null&by=device,label:axis,tag:fleet",
		"/api/v1/aggregates?tz=Europe/Berlin&step=1d&limit=2",
	} {
		require.Equal(t, asCSV(path), inColumns(path), path)
	}
	require.Equal(t, [][]string{strings.Split("start,end,device,label:axis,metric,avg", ",")},
		inColumns("/api/v1/aggregates?by=device,label:axis&aggregate=avg&device=none"), "the columns stand without a row")

	// A value's column in CSV is one of four here.
	got, want := inColumns("/api/v1/latest?"), asCSV("/api/v1/latest?")
	require.Len(t, got, len(want))
	for i, line := range want[1:] {
		row := got[i+1]
		require.Equal(t, line[:4], row[:4])
		require.Equal(t, line[4], firstOf(row[5], row[6], row[7], row[4]), "%q", row)
	}
	got, want = inColumns("/api/v1/aggregates?"), asCSV("/api/v1/aggregates?")
	require.Equal(t, want[0], got[0])
	require.Len(t, got, len(want))
	seen := map[string]bool{}
	for i, line := range want[1:] {
		row := got[i+1]
		require.Equal(t, line[:6], row[:6])
		require.Equal(t, line[12:], row[12:15])
		seen[line[4]] = true
		for c := 6; c < 12; c++ {
			cell := map[string]string{"true": "1", "false": "0"}[line[c]]
			want, err := strconv.ParseFloat(firstOf(cell, line[c], "0"), 64)
			require.NoError(t, err)
			got, err := strconv.ParseFloat(firstOf(row[c], "0"), 64)
			require.NoError(t, err)
			require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%q %q", line, row)
			require.Equal(t, line[c] == "", row[c] == "")
		}
	}
	require.Subset(t, seen, map[string]bool{"float": true, "int": true, "bool": true, "text": true})
	require.Equal(t, 400, s.get(t, "/api/v1/diff?since=-1d&format=parquet").status)
}

// firstOf is the first text that is not empty.
func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}
