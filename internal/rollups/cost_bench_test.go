package rollups_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// BenchmarkWriteRollups says what rollups of a day cost beside the chunks that they are made of: devices that report
// four metrics every ten seconds, all under one first-level key.
func BenchmarkWriteRollups(b *testing.B) {
	for _, c := range []struct{ devices, rows int }{{250, 4320}, {250, 360}, {500, 360}, {1000, 360}} {
		for _, families := range []string{"L", "LFSM"} {
			b.Run(fmt.Sprintf("devices=%d/rows=%d/families=%s", c.devices, c.rows, families), func(b *testing.B) {
				for range b.N {
					writeRollups(b, c.devices, c.rows, families)
				}
			})
		}
	}
}

func writeRollups(b *testing.B, devices, rows int, families string) {
	now := time.UnixMilli(day.End()).Add(time.Minute)
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, Now: func() time.Time { return now }})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Close()) }()
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(b, err)
	defer client.Close()
	require.NoError(b, client.EnsureBase(b.Context()))
	for _, name := range []string{"chunks-2026-11", "rollups-2026-11"} {
		require.NoError(b, client.Containers().Create(b.Context(), name, store.Throughput{RUs: 4000}))
	}
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", 1)})
	require.NoError(b, err)
	var written float64
	documents := 0
	store := func(device, number int, f chunk.Frame) {
		name := fmt.Sprintf("truck-%04d", device)
		id := chunk.ID{Day: day, Stream: 1, Number: uint32(number)}
		key := p.Key(name, day, id.Number)
		doc, err := chunk.Encode(chunk.Header{ID: id, TenantShard: key.TenantShard, Device: name, Readings: 1,
			First: int64(number), Through: int64(number), After: int64(number) - 1, TTL: 90 * 86400}, f)
		require.NoError(b, err)
		r, err := client.Chunks().Create(b.Context(), key, id.String(), doc)
		require.NoError(b, err)
		written += r.RUs
		documents++
	}
	values := 0
	for device := range devices {
		frames := dayOf(uint64(device), rows)
		for i, f := range frames {
			values += f.Values()
			store(device, i, f)
		}
	}
	now = now.Add(13 * time.Hour)
	w, err := rollups.New(rollups.Config{Chunks: client.Chunks(), Rollups: client.Rollups(), Families: families,
		Tenants: func() []tenant.Tenant { return []tenant.Tenant{{Name: "acme", Placement: p}} },
		Now:     func() time.Time { return now }, Hold: 12 * time.Hour,
		Sleep: func(context.Context, time.Duration) error { return nil }})
	require.NoError(b, err)
	b.ResetTimer()
	r, err := w.Round(b.Context(), w.TargetsOf(day)[0])
	require.NoError(b, err)
	b.StopTimer()
	b.ReportMetric(r.WriteRUs/written*100, "%write")
	b.ReportMetric(r.ReadRUs/written*100, "%read")
	b.ReportMetric(float64(r.Documents), "documents")
	b.ReportMetric(written/float64(values)*1e6, "chunkRU/Mvalue")
	late := dayOf(7, 8640)[0]
	late.Groups[0].Times = late.Groups[0].Times[4000:4001]
	for i := range late.Groups[0].Columns {
		c := &late.Groups[0].Columns[i]
		c.Bits = c.Bits[4000:4001]
	}
	now = now.Add(time.Minute)
	store(7, (8640+rows-1)/rows, late)
	now = now.Add(time.Hour)
	r, err = w.Round(b.Context(), w.TargetsOf(day)[0])
	require.NoError(b, err)
	require.Equal(b, 1, r.Corrected)
	b.ReportMetric(r.ReadRUs+r.WriteRUs, "RU/late")
	require.Equal(b, telemetry.DayOf(day.Start()), day)
}

// dayOf is a truck's day: a speed, a counter, a place and a state.
func dayOf(seed uint64, rows int) (out []chunk.Frame) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	v, odometer, latitude, status := 60.0, 1000.0, 47.0, 0
	var g chunk.Group
	var bits [4][]uint64
	for t := day.Start() + rnd.Int64N(10_000); t < day.End(); t += 10_000 {
		v = math.Max(0, math.Round((v+rnd.NormFloat64())*10)/10)
		odometer = math.Round((odometer+v/360)*100) / 100
		latitude = math.Round((latitude+rnd.NormFloat64()/1e4)*1e5) / 1e5
		if rnd.IntN(400) == 0 {
			status = rnd.IntN(4)
		}
		g.Times = append(g.Times, t)
		for i, x := range []float64{latitude, odometer, float64(status), v} {
			bits[i] = append(bits[i], math.Float64bits(x))
		}
	}
	for from := 0; from < len(g.Times); from += rows {
		to := min(from+rows, len(g.Times))
		part := chunk.Group{Times: slices.Clone(g.Times[from:to])}
		for i, m := range []string{"latitude", "odometer", "status", "velocity"} {
			part.Columns = append(part.Columns, chunk.Column{Metric: m, Kind: telemetry.Float,
				Bits: slices.Clone(bits[i][from:to])})
		}
		out = append(out, chunk.Frame{Groups: []chunk.Group{part}})
	}
	return out
}
