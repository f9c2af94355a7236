//go:build unix

package query_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// ready is a store that has its documents at hand, by first-level key, in no order.
type ready map[string][][]byte

func (r ready) Scan(_ context.Context, s store.Scan, yield func([]byte) error) (u store.Usage, err error) {
	for _, doc := range r[s.Key.TenantShard] {
		u.Documents++
		if err := yield(doc); err != nil {
			return u, err
		}
	}
	return u, nil
}

// fleetDay is a day of devices with ten metrics every 10 s, an hour a chunk.
func fleetDay(b *testing.B, devices int) (*querytest.World, ready) {
	w := querytest.New(b, noon)
	placement := w.Tenant("acme").Placement
	day := telemetry.DayOf(noon.UnixMilli())
	require.NoError(b, w.Directory.AskMonth(b.Context(), sharding.Container("", sharding.Month.Of(day)), ""))
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1})
	docs := make(ready)
	for d := range devices {
		device := fmt.Sprintf("truck-%04d", d)
		for hour := range 24 {
			var records []querytest.Record
			for i := range 360 {
				n := hour*360 + i
				r := record(int64(n), device, time.UnixMilli(day.Start()).Add(time.Duration(n)*10*time.Second))
				for m := range 10 {
					r.Fields = append(r.Fields, float(fmt.Sprintf("metric_%d", m), float64((n*(m+1)+d)%997)/10))
				}
				records = append(records, r)
			}
			key := placement.Key(device, day, uint32(hour))
			h := chunk.Header{
				ID: chunk.ID{Day: day, Stream: 1, Number: uint32(hour)}, TenantShard: key.TenantShard, Device: device,
				Readings: 360, First: int64(hour * 360), Through: int64(hour*360 + 359), After: int64(hour*360 - 1),
			}
			doc, err := chunk.Encode(h, querytest.FrameOf(records))
			require.NoError(b, err)
			docs[key.TenantShard] = append(docs[key.TenantShard], doc)
		}
	}
	return w, docs
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFleetDay asks one metric of ten of all devices for a day: rows, series, and statistics by the hour and the
// day.
func BenchmarkFleetDay(b *testing.B) {
	const devices = 100
	w, docs := fleetDay(b, devices)
	q, err := query.New(query.Config{Reader: docs, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog,
		Now: func() time.Time { return w.Now }})
	require.NoError(b, err)
	day := telemetry.DayOf(noon.UnixMilli())
	r := query.Request{Tenant: "acme", Metrics: []string{"metric_3"},
		Range: telemetry.Range{From: day.Start(), To: day.End()}}
	for _, shape := range []struct {
		name string
		ask  func(*testing.B)
	}{
		{"rows", func(b *testing.B) {
			n := 0
			_, err := q.Readings(b.Context(), r, func(query.Row) error { n++; return nil })
			require.NoError(b, err)
			require.Equal(b, devices*8640, n)
		}},
		{"series", func(b *testing.B) {
			n := 0
			_, err := q.Series(b.Context(), r, func(c query.Curve) error {
				for i := range c.Stretches {
					n += len(c.Stretches[i].Times)
				}
				return nil
			})
			require.NoError(b, err)
			require.Equal(b, devices*8640, n)
		}},
		{"statistics/hour", func(b *testing.B) { statistics(b, q, r, time.Hour, devices*24) }},
		{"statistics/90m", func(b *testing.B) { statistics(b, q, r, 90*time.Minute, devices*16) }},
	} {
		b.Run(shape.name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpu(b)
			for b.Loop() {
				shape.ask(b)
			}
			took := float64(cpu(b)-began) / float64(b.N)
			b.ReportMetric(took/float64(devices*24)/1e3, "CPU-us/document")
			b.ReportMetric(took/float64(devices*8640), "CPU-ns/row")
		})
	}
}

func statistics(b *testing.B, q *query.Querier, r query.Request, step time.Duration, want int) {
	n := 0
	_, err := q.Statistics(b.Context(), r, step, func(query.Statistic) error { n++; return nil })
	require.NoError(b, err)
	require.Equal(b, want, n)
}
