package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// discard is a client that takes everything.
type discard struct {
	header http.Header
	status int
	bytes  int64
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { d.bytes += int64(len(b)); return len(b), nil }

// BenchmarkFormats answers six hours of one device, a row a second with ten metrics, in each format.
func BenchmarkFormats(b *testing.B) {
	const rows, metrics = 6 * 3600, 10
	w := querytest.New(b, noon)
	var records []querytest.Record
	for i := range rows {
		r := record(int64(i), "m1", noon.Add(time.Duration(i-rows)*time.Second), nil)
		for m := range metrics {
			r.Fields = append(r.Fields, float(fmt.Sprintf("metric_%d", m), float64((i*7+m)%1000)/10))
		}
		if records = append(records, r); len(records) == 3600 {
			w.Chunk(records...)
			records = nil
		}
	}
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1})
	now := func() time.Time { return w.Now }
	q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Now: now})
	require.NoError(b, err)
	h, err := httpapi.New(httpapi.Config{Querier: q, Now: now})
	require.NoError(b, err)
	for _, format := range []string{"format=json&limit=100000", "format=ndjson", "format=csv", "format=csv&layout=long",
		"format=parquet"} {
		b.Run(format, func(b *testing.B) {
			var out discard
			for b.Loop() {
				out = discard{header: http.Header{}, status: 200}
				r := httptest.NewRequest(http.MethodGet, "/api/v1/readings?device=m1&from=-1d&"+format, nil)
				r.RemoteAddr = "127.0.0.1:1"
				r.Header.Set(httpapi.TenantHeader, "acme")
				h.ServeHTTP(&out, r)
			}
			require.Equal(b, 200, out.status)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows*metrics), "ns/value")
			b.ReportMetric(float64(out.bytes)/(rows*metrics), "B/value")
		})
	}
}
