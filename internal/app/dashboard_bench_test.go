//go:build unix

package app_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant"
	"binnacle/query"
	"binnacle/sharding"

	"github.com/stretchr/testify/require"
)

// knowStream stores the stream that heads of tests read: a querier reads the snapshot again for one that it lacks.
func knowStream(t testing.TB, d store.Documents) {
	_, err := stream.NewStreams(d).Find(t.Context(), "c", "telemetry", 1)
	require.NoError(t, err)
}

// nobody is ingesters that hold nothing, since all that they have read is stored.
type nobody struct{}

func (nobody) Heads(_ context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	head := store.PartitionHead{Stream: 1, Position: 1 << 40, Owner: 1, Rows: func(func(store.HeadRows, error) bool) {}}
	if r.Stored {
		head.Stored = &store.HeadStored{Count: 1, Exact: 1, Above: r.KnownStored(1)}
	}
	return []store.PartitionHead{head}, nil
}

func (nobody) CatalogUpdates(context.Context, string) (store.HeadUpdates, error) {
	return store.HeadUpdates{}, nil
}

func (nobody) Devices(context.Context, store.ListRequest) ([]store.HeadDevice, error) {
	return nil, nil
}

// BenchmarkDashboard asks one metric of ten of a fleet's last day, through azcosmos from the embedded Cosmos DB in the
// same process, without what earlier queries have read and with it.
func BenchmarkDashboard(b *testing.B) {
	const devices = 100
	day := telemetry.Day(20777)
	now := time.UnixMilli(day.End())
	clock := func() time.Time { return now }
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true, Now: clock})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Close()) }()
	client, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport()})
	require.NoError(b, err)
	defer client.Close()
	require.NoError(b, client.EnsureBase(b.Context()))
	knowStream(b, client.Documents())
	directory := control.NewDirectory(control.DirectoryConfig{Documents: client.Documents(), Now: clock})
	view, err := directory.Register(b.Context(), "acme")
	require.NoError(b, err)
	container := sharding.Container("", sharding.Month.Of(day))
	require.NoError(b, client.Containers().Create(b.Context(), container, store.Throughput{RUs: 400}))
	require.NoError(b, directory.AskMonth(b.Context(), container, ""))
	tenant, _ := view.Tenant("acme")
	for d := range devices {
		for hour := range uint32(24) {
			create(b, client, tenant, fmt.Sprintf("truck-%04d", d), day, hour)
		}
	}
	now = now.Add(time.Hour)
	for _, cache := range []int64{-1, 256 << 20} {
		q, err := query.New(query.Config{Reader: client.Chunks(), Heads: nobody{}, Directory: directory,
			Catalog: client.Catalog(), Now: clock, CacheBytes: cache})
		require.NoError(b, err)
		ask := func() query.Result {
			values := 0
			res, err := q.Series(b.Context(), query.Request{Tenant: "acme", Metrics: []string{"metric_3"},
				Range: telemetry.Range{From: day.Start(), To: day.End()}}, func(c query.Curve) error {
				for i := range c.Stretches {
					values += len(c.Stretches[i].Times)
				}
				return nil
			})
			require.NoError(b, err)
			require.Equal(b, devices*8640, values)
			return res
		}
		ask()
		b.Run(fmt.Sprintf("cached=%v", cache > 0), func(b *testing.B) {
			b.ReportAllocs()
			began := processorTime(b)
			var res query.Result
			for b.Loop() {
				res = ask()
			}
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N*devices*24)/1e3, "CPU-us/document")
			b.ReportMetric(res.Stats.RequestUnits, "RU/op")
		})
	}
}

// create stores an hour of a device with ten metrics every 10 s.
func create(b *testing.B, client *cosmos.Client, tenant tenant.Tenant, device string, day telemetry.Day, hour uint32) {
	key := tenant.Placement.Key(device, day, hour)
	g := chunk.Group{}
	for i := range 360 {
		g.Times = append(g.Times, day.Start()+int64(hour)*3_600_000+int64(i)*10_000)
	}
	for m := range 10 {
		c := chunk.Column{Metric: fmt.Sprintf("metric_%d", m), Kind: telemetry.Float}
		for i := range 360 {
			n := int(hour)*360 + i
			c.Bits = append(c.Bits, telemetry.FloatValue(float64(200+n*n*(m+1)%997%64)/10).Bits())
		}
		g.Columns = append(g.Columns, c)
	}
	h := chunk.Header{ID: chunk.ID{Day: day, Stream: 1, Number: hour}, TenantShard: key.TenantShard, Device: device,
		Readings: 360, First: int64(hour) * 360, Through: int64(hour)*360 + 359, After: int64(hour)*360 - 1}
	doc, err := chunk.Encode(h, chunk.Frame{Groups: []chunk.Group{g}})
	require.NoError(b, err)
	_, err = client.Chunks().Create(b.Context(), key, h.ID.String(), doc)
	require.NoError(b, err)
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
