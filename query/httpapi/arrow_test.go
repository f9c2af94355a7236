package httpapi_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/require"
)

// arrowLines is the values of an Arrow stream as layout=long of CSV has them, and how many batches it has.
func arrowLines(t *testing.T, body string) (lines [][]string, batches int) {
	t.Helper()
	r, err := ipc.NewReader(strings.NewReader(body))
	require.NoError(t, err)
	defer r.Release()
	return linesOf(t, r)
}

// linesOf reads record batches.
func linesOf(t *testing.T, r array.RecordReader) (lines [][]string, batches int) {
	t.Helper()
	for r.Next() {
		batches++
		b := r.RecordBatch()
		text := func(column, i int) string {
			c := b.Column(column).(*array.String)
			if c.IsNull(i) {
				return ""
			}
			return c.Value(i)
		}
		for i := range int(b.NumRows()) {
			number, integer := b.Column(4).(*array.Float64), b.Column(5).(*array.Int64)
			truth := b.Column(6).(*array.Boolean)
			value := text(7, i)
			switch {
			case integer.IsValid(i):
				require.InDelta(t, float64(integer.Value(i)), number.Value(i), 0)
				value = strconv.FormatInt(integer.Value(i), 10)
			case truth.IsValid(i):
				require.Equal(t, truth.Value(i), number.Value(i) == 1)
				value = strconv.FormatBool(truth.Value(i))
			case number.IsValid(i):
				value = fmt.Sprint(math.Float64bits(number.Value(i)))
			default:
				require.True(t, b.Column(7).IsValid(i))
			}
			at := time.UnixMilli(int64(b.Column(0).(*array.Timestamp).Value(i))).UTC().Format("2006-01-02T15:04:05.000Z")
			lines = append(lines, []string{at, text(1, i), text(2, i), text(3, i), value})
		}
	}
	require.NoError(t, r.Err())
	return lines, batches
}

// A stream has what CSV has, each float in all its bits.
func TestArrowStreams(t *testing.T) {
	s := newServer(t, nil)
	s.fill()
	want := func(path string) (lines [][]string) {
		all, err := csv.NewReader(strings.NewReader(s.get(t, path+"&format=csv&layout=long").body)).ReadAll()
		require.NoError(t, err)
		for _, line := range all[1:] {
			if f, err := strconv.ParseFloat(line[4], 64); err == nil && line[3] != "n" {
				line[4] = fmt.Sprint(math.Float64bits(f))
			}
			lines = append(lines, line)
		}
		return lines
	}
	a := s.get(t, "/api/v1/readings?format=arrow")
	require.Equal(t, 200, a.status)
	require.Equal(t, "application/vnd.apache.arrow.stream", a.header.Get("Content-Type"))
	require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
	got, batches := arrowLines(t, a.body)
	require.Equal(t, 1, batches)
	require.Equal(t, want("/api/v1/readings?"), got)
	none, batches := arrowLines(t, s.get(t, "/api/v1/readings?format=arrow&device=none").body)
	require.Empty(t, none)
	require.Zero(t, batches, "a stream of no batches is one")

	s = newServer(t, nil)
	s.flood(9000)
	got, batches = arrowLines(t, s.get(t, "/api/v1/readings?format=arrow&from=-3h&order=desc").body)
	require.Equal(t, 3, batches)
	require.Equal(t, want("/api/v1/readings?from=-3h&order=desc"), got)
}

// cellsOf is an Arrow stream or a file of Parquet as CSV has the same answer, floats as CSV prints them.
func cellsOf(t *testing.T, r array.RecordReader) (lines [][]string) {
	t.Helper()
	head := make([]string, 0, r.Schema().NumFields())
	for _, f := range r.Schema().Fields() {
		head = append(head, f.Name)
	}
	lines = append(lines, head)
	for r.Next() {
		b := r.RecordBatch()
		for i := range int(b.NumRows()) {
			line := make([]string, b.NumCols())
			for c, column := range b.Columns() {
				if column.IsNull(i) {
					continue
				}
				switch column := column.(type) {
				case *array.Timestamp:
					line[c] = time.UnixMilli(int64(column.Value(i))).UTC().Format("2006-01-02T15:04:05.000Z")
				case *array.Float64:
					line[c] = strconv.FormatFloat(column.Value(i), 'g', -1, 64)
				default:
					line[c] = column.ValueStr(i)
				}
			}
			lines = append(lines, line)
		}
	}
	require.NoError(t, r.Err())
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
		a := s.get(t, path+"&format=arrow")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "application/vnd.apache.arrow.stream", a.header.Get("Content-Type"))
		require.Equal(t, "true", a.trailer.Get("Binnacle-Complete"))
		r, err := ipc.NewReader(strings.NewReader(a.body))
		require.NoError(t, err)
		defer r.Release()
		lines := cellsOf(t, r)
		file := s.get(t, path+"&format=parquet")
		require.Equal(t, "application/vnd.apache.parquet", file.header.Get("Content-Type"))
		stored, done := tableOf(t, file.body)
		defer done()
		require.Equal(t, lines, cellsOf(t, stored), path)
		return lines
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
	require.Equal(t, 400, s.get(t, "/api/v1/diff?since=-1d&format=arrow").status)
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
