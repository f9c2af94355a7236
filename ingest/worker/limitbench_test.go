//go:build unix

package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/decode"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// within are limits of everything that nobody passes.
var within = tenant.IngestLimits{
	Readings: 1e9, Values: 1e9, DeviceReadings: 1e6, DeviceValues: 1e6, Burst: 60, Devices: 1e6, NewDevices: 1e6,
	Series: 1000, Payload: 1 << 20, Labels: 100,
}

// BenchmarkLimits has the messages of a thousand trucks taken without limits, with each kind of them, none of which is
// passed, and with some that are: what becomes of readings then takes a part of what taking them does. All take their
// turns with a thousand messages each, and what is reported is the median of what such turns take of CPU, by that of
// the turn without limits beside it. So neither the machine's other work nor its state counts.
func BenchmarkLimits(b *testing.B) {
	const turn, turns = 1000, 150
	cases := []struct {
		name   string
		limits tenant.IngestLimits
	}{
		{"none", tenant.IngestLimits{}},
		{"rates", tenant.IngestLimits{Readings: 1e9, Values: 1e9, Burst: 60}},
		{"rates-of-devices", tenant.IngestLimits{DeviceReadings: 1e6, DeviceValues: 1e6, Burst: 60}},
		{"series", tenant.IngestLimits{Series: 1000}},
		{"all", within},
		{"set-aside", tenant.IngestLimits{Readings: 1e-6, Burst: 1}},
		{"refused", tenant.IngestLimits{Readings: 1e-6, Burst: 1, OnExcess: tenant.Refuse}},
		{"decode", tenant.IngestLimits{}},
	}
	ctx, log, decoder := context.Background(), trucks(1000, turn*turns), decode.New(decode.Options{})
	ratios := make([][]float64, len(cases))
	for b.Loop() {
		workers, worlds := make([]*ingest.Local, len(cases)), make([]*world, len(cases))
		for i, c := range cases {
			worlds[i] = newWorld(b, nil)
			worlds[i].now = time.UnixMilli(start).Add(time.Minute)
			_, workers[i] = worlds[i].alone(func(cfg *ingest.Config) {
				cfg.Hold, cfg.CatalogEvery, cfg.CommitEvery = 0, 6*time.Hour, time.Second
				cfg.MemoryBytes, cfg.Limits, cfg.HeldFor = 4<<30, c.limits, 1e6*time.Hour
			})
		}
		used := make([]float64, len(cases))
		for n := range turns {
			records := log[n*turn : (n+1)*turn]
			for k := range cases {
				i := (k + n) % len(cases)
				from := processTime(b)
				for _, r := range records {
					if cases[i].name == "decode" {
						decoder.Decode(decode.Record{Value: r.Value, Timestamp: r.Time})
						continue
					}
					worlds[i].now = time.UnixMilli(r.Time)
					require.NoError(b, workers[i].Take(ctx, r))
				}
				used[i] = float64(processTime(b) - from)
				require.NoError(b, workers[i].Step(ctx))
			}
			for i := range cases {
				ratios[i] = append(ratios[i], used[i]/used[0])
			}
		}
	}
	for i, c := range cases[1:] {
		slices.Sort(ratios[i+1])
		b.ReportMetric(ratios[i+1][len(ratios[i+1])/2], c.name+"/none")
	}
}
