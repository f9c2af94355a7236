package binning_test

import (
	"testing"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// BenchmarkCut makes a chunk of 4,320 readings of a truck: of rows as they were taken, and of blocks of 64, which are
// made, opened and put together again.
func BenchmarkCut(b *testing.B) {
	start := time.Date(2026, 11, 20, 1, 0, 0, 0, time.UTC)
	truck := fleet.NewTruck(7, 1, start)
	var rows binning.Rows
	for i := range 4320 {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		rows.Append(int64(i*100), telemetry.Reading{Time: at.UnixMilli(), Fields: truck.Next(at)})
	}
	header := chunk.Header{
		ID: chunk.ID{Day: telemetry.DayOf(start.UnixMilli()), Stream: 1}, TenantShard: "acme~cg", Device: "truck",
		Through: 432_000, After: -1,
	}
	encode := func(b *testing.B, f chunk.Frame) {
		if _, err := chunk.Encode(header, f); err != nil {
			b.Fatal(err)
		}
	}
	made := func(b *testing.B) (schemas, blocks [][]byte) {
		for from := 0; from < rows.Readings(); from += 64 {
			run := rows.Run(from, min(from+64, rows.Readings()), nil)
			schemas = append(schemas, chunk.AppendSchema(nil, &run))
			data, err := chunk.AppendRows(nil, &run)
			if err != nil {
				b.Fatal(err)
			}
			blocks = append(blocks, data)
		}
		return schemas, blocks
	}
	schemas, blocks := made(b)
	opened := func(b *testing.B) (runs []chunk.Run) {
		s, err := chunk.ParseSchema(schemas[0])
		for _, data := range blocks {
			var run chunk.Run
			if err == nil {
				run, err = s.Rows(data, nil)
			}
			if err != nil {
				b.Fatal(err)
			}
			runs = append(runs, run)
		}
		return runs
	}
	require.Equal(b, rows.Frame(binning.All, nil), binning.FrameOf(opened(b)))
	size := 0
	for _, data := range blocks {
		size += len(data)
	}
	b.Logf("rows take %.1f B a value in memory, blocks %.2f", float64(rows.Bytes())/float64(rows.Values()),
		float64(size)/float64(rows.Values()))
	for name, step := range map[string]func(b *testing.B){
		"rows to frame":   func(*testing.B) { rows.Frame(binning.All, nil) },
		"rows to blocks":  func(b *testing.B) { made(b) },
		"blocks to frame": func(b *testing.B) { binning.FrameOf(opened(b)) },
		"frame to chunk":  func(b *testing.B) { encode(b, rows.Frame(binning.All, nil)) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				step(b)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows.Values()), "ns/value")
		})
	}
}
