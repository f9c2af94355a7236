package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/querytest"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"
)

// openFile opens a file of Parquet.
func openFile(t *testing.T, body string) *parquet.File {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader([]byte(body)), int64(len(body)))
	require.NoError(t, err)
	return f
}

// Long texts end a row group before it has all its rows.
func TestParquetOfLongTexts(t *testing.T) {
	s := newServer(t, nil)
	records := make([]querytest.Record, 400)
	for i := range records {
		records[i] = record(int64(i), "m1", noon.Add(time.Duration(i-400)*time.Second), nil,
			field("msg", telemetry.TextValue(fmt.Sprintf("%060000d", i))), float("v", []float64{math.NaN(), 1}[min(i/9, 1)]))
	}
	s.world.Chunk(records...)
	s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 400})
	body := s.get(t, "/api/v1/readings?format=parquet").body
	require.Len(t, valuesOf(t, body), 800)
	require.Len(t, openFile(t, body).RowGroups(), 2, "24 MB")
	require.Equal(t, []bool{false, true}, requireBounds(t, body)["value"], "a NaN is in the first row group only")
}

// Whatever is among the values, the bounds of a row group hold all of them, or there are none.
func TestParquetBoundsHoldAllValues(t *testing.T) {
	const seed = 33
	r := rand.New(rand.NewPCG(seed, 1))
	numbers := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1, 2, -1.5, math.MaxFloat64,
		5e-324}
	texts := []string{"", "a", "\u007f", "\U0010ffff", strings.Repeat("z", 300), strings.Repeat("ÿ", 20), "\x00", "NaN"}
	t.Log("seed", seed)
	bounded := 0
	for range 30 {
		s := newServer(t, nil)
		some := numbers[r.IntN(len(numbers)):]
		some = some[:1+r.IntN(len(some))]
		records := make([]querytest.Record, 1+r.IntN(12))
		for i := range records {
			v := telemetry.FloatValue(some[r.IntN(len(some))])
			switch r.IntN(8) {
			case 0:
				v = telemetry.IntValue(math.MinInt64 + r.Int64N(3))
			case 1:
				v = telemetry.BoolValue(r.IntN(2) == 0)
			case 2:
				v = telemetry.TextValue(texts[r.IntN(len(texts))])
			}
			records[i] = record(int64(i), "m1", noon.Add(time.Duration(i-400)*time.Second), nil, field("v", v))
		}
		s.world.Chunk(records...)
		s.world.Heads.Set(store.PartitionHead{Stream: 1, Position: 400})
		for _, path := range []string{"readings?", "latest?", "aggregates?step=5s&",
			"aggregates?step=5s&aggregate=min,sum,last&"} {
			body := s.get(t, "/api/v1/"+path+"format=parquet").body
			for _, there := range requireBounds(t, body) {
				if there[0] {
					bounded++
				}
			}
		}
	}
	require.Greater(t, bounded, 500)
}

// requireBounds compares the bounds in a file with its values, and returns by column which row groups have any.
func requireBounds(t *testing.T, body string) map[string][]bool {
	t.Helper()
	f, there := openFile(t, body), map[string][]bool{}
	for g, group := range f.RowGroups() {
		for i, column := range group.ColumnChunks() {
			c := f.Metadata().RowGroups[g].Columns[i]
			require.Zero(t, c.ColumnIndexOffset)
			s, name := c.MetaData.Statistics, f.Schema().Fields()[i].Name()
			there[name] = append(there[name], s.MinValue != nil)
			require.Equal(t, s.MinValue != nil, s.MaxValue != nil)
			var least, greatest parquet.Value
			if s.MinValue != nil {
				least, greatest = column.Type().Kind().Value(s.MinValue), column.Type().Kind().Value(s.MaxValue)
			}
			nulls, values, pages := int64(0), make([]parquet.Value, 1000), column.Pages()
			for {
				page, err := pages.ReadPage()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				for from := page.Values(); ; {
					n, err := from.ReadValues(values)
					for _, v := range values[:n] {
						if v.IsNull() {
							nulls++
							continue
						}
						if s.MinValue == nil {
							continue
						}
						require.LessOrEqual(t, column.Type().Compare(least, v), 0, "%s: %v %v", name, least, v)
						require.GreaterOrEqual(t, column.Type().Compare(greatest, v), 0, "%s: %v %v", name, greatest, v)
						if v.Kind() == parquet.Double {
							require.False(t, math.IsNaN(v.Double()))
							require.True(t, least.Double() != 0 || math.Signbit(least.Double()))
							require.True(t, greatest.Double() != 0 || !math.Signbit(greatest.Double()))
						}
					}
					if err == io.EOF {
						break
					}
					require.NoError(t, err)
				}
			}
			require.Equal(t, nulls, s.NullCount, name)
		}
	}
	return there
}

// Each row group has its columns encoded for what they hold.
func TestParquetIsNotCompressedTwice(t *testing.T) {
	s := newServer(t, nil)
	s.flood(3000)
	r, err := s.do(t, "GET", "/api/v1/readings?format=parquet", map[string][]string{"X-Scope-OrgID": {"acme"},
		"Accept-Encoding": {"zstd, gzip"}})
	require.NoError(t, err)
	require.Empty(t, r.header.Get("Content-Encoding"))
	file := openFile(t, r.body).Metadata()
	require.Contains(t, file.CreatedBy, "binnacle")
	require.Contains(t, file.RowGroups[0].Columns[0].MetaData.Encoding, format.DeltaBinaryPacked)
	require.Equal(t, format.Zstd, file.RowGroups[0].Columns[0].MetaData.Codec)
}
