//go:build unix

package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/control/controltest"
	"binnacle/internal/fleet"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// trucks are n messages of ten metrics, from a fleet that reports once a second.
func trucks(fleetSize, n int) []worker.Record {
	from := time.UnixMilli(start).Add(time.Minute)
	all := make([]*fleet.Truck, fleetSize)
	for i := range all {
		all[i] = fleet.NewTruck(1, i, from)
	}
	log := make([]worker.Record, n)
	for i := range log {
		truck, at := all[i%fleetSize], from.Add(time.Duration(i/fleetSize)*time.Second)
		r := telemetry.Reading{Tenant: "acme", Device: truck.ID(), Time: at.UnixMilli(), Fields: truck.Next(at),
			Tags: truck.Tags()}
		log[i] = worker.Record{Offset: int64(i), Time: at.UnixMilli(), Value: decode.AppendJSON(nil, r)}
	}
	return log
}

// BenchmarkWorker takes a million messages of a thousand trucks: feeding alone, and with cutting and encoding into a
// store that keeps nothing.
func BenchmarkWorker(b *testing.B) {
	const messages, valuesEach = 1_000_000, 10
	log := trucks(1000, messages)
	for _, cut := range []bool{false, true} {
		b.Run(fmt.Sprintf("cut=%v", cut), func(b *testing.B) {
			ctx, from := context.Background(), processTime(b)
			for b.Loop() {
				now := time.UnixMilli(start).Add(time.Minute)
				dir := control.NewDirectory(control.DirectoryConfig{Documents: controltest.NewDocuments(b),
					Now: func() time.Time { return now }})
				_, err := dir.Refresh(ctx)
				require.NoError(b, err)
				kept := &ingesttest.Discard{}
				l := ingest.NewLocal(ingest.Config{
					Config: worker.Config{Register: true}, Now: func() time.Time { return now }, MemoryBytes: 4 << 30,
					Logger: slog.New(slog.DiscardHandler),
				}, ingest.Stores{Chunks: kept, Directory: dir, Catalog: controltest.NewCatalog(b),
					Streams: control.NewStreams(controltest.NewDocuments(b))},
					worker.Assignment{Stream: 1})
				for i, r := range log {
					now = time.UnixMilli(r.Time)
					if err := l.Take(ctx, r); err != nil {
						b.Fatal(err)
					}
					if cut && i%256 == 0 {
						if err := l.Step(ctx); err != nil {
							b.Fatal(err)
						}
					}
				}
				if cut {
					require.NoError(b, l.Finish(ctx))
				}
			}
			b.ReportMetric(float64(processTime(b)-from)/float64(b.N)/messages/valuesEach, "CPU-ns/value")
		})
	}
}
