package rollups_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/rollups"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

const (
	day    = telemetry.Day(20777) // 2026-11-20
	margin = 12 * time.Second
)

// world is a tenant's chunks of a day, and a store of rollups. The box has makers that die, replicas that lag and
// clocks that differ.
type world struct {
	t       *testing.T
	now     time.Time
	chunks  *storetest.Memory
	rollups *storetest.Rollups
	tenant  tenant.Tenant
	chains  map[string]uint32
	names   int // names given to batches
	ttl     int // of chunks that are put, in seconds; 0: none
}

func newWorld(t *testing.T, at time.Duration) *world {
	w := &world{t: t, now: time.UnixMilli(day.Start()).Add(at), chains: make(map[string]uint32)}
	w.chunks = storetest.NewMemory(t, "chunks-2026-11")
	w.rollups = storetest.NewRollups(t, "rollups-2026-11")
	w.chunks.Now = func() time.Time { return w.now }
	w.rollups.Now = w.chunks.Now
	p, err := sharding.NewPlacement("acme", []sharding.Epoch{sharding.FirstEpoch("acme", 2)})
	require.NoError(t, err)
	w.tenant = tenant.Tenant{Name: "acme", Placement: p}
	return w
}

// writer returns a writer of the world's rollups, with the fields that change sets.
func (w *world) writer(change func(*rollups.Config)) *rollups.Writer {
	w.t.Helper()
	c := rollups.Config{
		Chunks: w.chunks, Rollups: w.rollups, Tenants: func() []tenant.Tenant { return []tenant.Tenant{w.tenant} },
		Now: func() time.Time { return w.now }, Margin: margin, Hold: 12 * time.Hour, Days: 1,
		Name:  func() string { w.names++; return fmt.Sprintf("b%d", w.names) },
		Sleep: func(context.Context, time.Duration) error { return nil },
	}
	change(&c)
	writer, err := rollups.New(c)
	require.NoError(w.t, err)
	return writer
}

// put stores a chunk of a device, the next one of its chain.
func (w *world) put(device string, groups ...chunk.Group) {
	w.t.Helper()
	n := w.chains[device]
	w.chains[device]++
	id := chunk.ID{Day: day, Stream: 1, Number: n}
	key := w.tenant.Placement.Key(device, day, n)
	h := chunk.Header{ID: id, TenantShard: key.TenantShard, Device: device, Readings: 1, First: int64(n) * 10,
		Through: int64(n)*10 + 9, After: int64(n)*10 - 1, Cut: w.now.UnixMilli(), TTL: w.ttl}
	doc, err := chunk.Encode(h, chunk.Frame{Groups: groups})
	require.NoError(w.t, err)
	_, err = w.chunks.Create(w.t.Context(), key, id.String(), doc)
	require.NoError(w.t, err)
}

// fleet stores a chunk of each metric for each of some devices.
func (w *world) fleet(devices, rows int, metrics ...string) {
	for i := range devices {
		for _, metric := range metrics {
			w.put(fmt.Sprint("m", i+1), countersWithResets(metric, "", rows))
		}
	}
}

// documents counts the documents of the day under a second level of a target's key.
func (w *world) documents(target rollups.Target, second string) int {
	usage, err := w.rollups.ScanRollups(w.t.Context(), store.RollupScan{
		Key:   store.RollupKey{Container: "rollups-2026-11", TenantShard: target.TenantShard, Name: second},
		Range: telemetry.Range{From: day.Start(), To: day.End() + 1}}, func([]byte) error { return nil })
	require.NoError(w.t, err)
	return usage.Documents
}

// countersWithResets is a series that resets from minute to minute, n times.
func countersWithResets(metric, label string, n int) chunk.Group {
	g := chunk.Group{Columns: []chunk.Column{{Metric: metric, Kind: telemetry.Int}}}
	if label != "" {
		g.Labels = telemetry.Labels{{Name: "cell", Value: label}}
	}
	for i := range n {
		g.Times = append(g.Times, day.Start()+int64(i)*60_000+30_000)
		g.Columns[0].Bits = append(g.Columns[0].Bits, uint64(n-i))
	}
	return g
}
