package query_test

import (
	"fmt"
	"testing"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"

	"github.com/stretchr/testify/require"
)

// BenchmarkReadings merges a fleet's day of ten metrics, a reading every 10 s, four chunks a device, from memory.
func BenchmarkReadings(b *testing.B) {
	const rows, metrics = 8640, 10
	for _, devices := range []int{1, 10} {
		w := querytest.New(b, noon)
		for d := range devices {
			var records []querytest.Record
			for i := range rows {
				r := record(int64(i), fmt.Sprintf("truck-%02d",
					d), noon.Truncate(24*time.Hour).Add(time.Duration(i)*10*time.Second))
				r.Position.Partition = int32(d)
				for m := range metrics {
					r.Fields = append(r.Fields, float(fmt.Sprintf("metric_%d", m), float64((i*7+m)%1000)/10))
				}
				if records = append(records, r); len(records) == rows/4 {
					w.Chunk(records...)
					records = nil
				}
			}
		}
		w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1})
		q, err := query.New(query.Config{Reader: w.Store, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
			Now: func() time.Time { return w.Now }})
		require.NoError(b, err)
		day := telemetry.DayOf(noon.UnixMilli())
		for _, desc := range []bool{false, true} {
			b.Run(fmt.Sprintf("devices=%d/desc=%v", devices, desc), func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					_, err := q.Readings(b.Context(), query.Request{Tenant: "acme",
						Range: telemetry.Range{From: day.Start(), To: day.End()}, Descending: desc}, func(r query.Row) error {
						n += len(r.Values)
						return nil
					})
					require.NoError(b, err)
				}
				require.Equal(b, b.N*devices*rows*metrics, n)
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/value")
			})
		}
	}
}
