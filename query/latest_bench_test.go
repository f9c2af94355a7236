//go:build unix

package query_test

import (
	"testing"
	"time"

	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/stretchr/testify/require"
)

// BenchmarkLatest asks for the newest value of a metric of ten, of each device that has a day of chunks.
func BenchmarkLatest(b *testing.B) {
	const devices = 100
	w, docs := fleetDay(b, devices)
	q, err := query.New(query.Config{Reader: docs, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Now: func() time.Time { return w.Now }, CacheBytes: -1})
	require.NoError(b, err)
	day := telemetry.DayOf(noon.UnixMilli())
	r := query.Request{Tenant: "acme", Metrics: []string{"metric_3"},
		Range: telemetry.Range{From: day.Start(), To: day.End()}}
	b.ReportAllocs()
	began := cpu(b)
	for b.Loop() {
		n := 0
		_, err := q.Latest(b.Context(), r, func(query.Last) error { n++; return nil })
		require.NoError(b, err)
		require.Equal(b, devices, n)
	}
	b.ReportMetric(float64(cpu(b)-began)/float64(b.N*devices*24)/1e3, "CPU-us/document")
}
