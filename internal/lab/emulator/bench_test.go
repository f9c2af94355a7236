package emulator_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"binnacle/internal/lab/emulator"
)

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCreate1KB creates items of 1 KB through azcosmos over the in-memory transport, with
// persistence. The processor time includes the SDK's own, about 15 us an operation.
func BenchmarkCreate1KB(b *testing.B) { benchmarkCreate(b, 900) }

// BenchmarkCreate32KB is the same with the size of a full chunk.
func BenchmarkCreate32KB(b *testing.B) { benchmarkCreate(b, 32<<10) }

func benchmarkCreate(b *testing.B, size int) {
	s := open(b, emulator.Config{DataDir: b.TempDir(), PhysicalPartitions: 5, Unlimited: true})
	co := create(b, client(b, s), hierarchical("chunks"), 400)
	creates(b, co, size)
}

// creates writes items of that size from several goroutines.
func creates(b *testing.B, co *azcosmos.ContainerClient, size int) {
	b.Helper()
	data := strings.Repeat("abcdefgh", size/8)
	var n atomic.Int64
	b.SetParallelism(4)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			shard := fmt.Sprint("s", i%16)
			body := fmt.Appendf(nil, `{"id":"%d","tenantShard":"%s","device":"d","from":%d,"to":%d,"data":"%s"}`,
				i, shard, i, i+10, data)
			if _, err := co.CreateItem(context.Background(), key(shard, "d"), body, nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	report(b, before)
}

func report(b *testing.B, before time.Duration) {
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkRead1KB reads items of 1 KB by their key.
func BenchmarkRead1KB(b *testing.B) {
	s := open(b, emulator.Config{DataDir: b.TempDir(), PhysicalPartitions: 5, Unlimited: true})
	co := create(b, client(b, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	const items = 1000
	for i := range items {
		body := encode(b, chunk{ID: fmt.Sprint(i), TenantShard: "s", Device: "d", Data: strings.Repeat("x", 900)})
		_, err := co.CreateItem(ctx, key("s", "d"), body, nil)
		require.NoError(b, err)
	}
	var n atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := co.ReadItem(ctx, key("s", "d"), fmt.Sprint(n.Add(1)%items), nil); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	report(b, before)
}

// BenchmarkOverlap asks one device of 1,000 chunks of 8 KB for the ten that overlap a range.
func BenchmarkOverlap(b *testing.B) {
	s := open(b, emulator.Config{DataDir: b.TempDir(), PhysicalPartitions: 5, Unlimited: true})
	co := create(b, client(b, s), hierarchical("chunks"), 400)
	ctx := context.Background()
	for i := range 1000 {
		body := encode(b, chunk{ID: fmt.Sprintf("%06d", i), TenantShard: "s", Device: "d", From: int64(i * 10),
			To: int64(i*10 + 9), Data: strings.Repeat("x", 8<<10)})
		_, err := co.CreateItem(ctx, key("s", "d"), body, nil)
		require.NoError(b, err)
	}
	params := []azcosmos.QueryParameter{{Name: "@s", Value: "s"}, {Name: "@d", Value: "d"}, {Name: "@from", Value: 5000},
		{Name: "@to", Value: 5100}}
	const text = `SELECT * FROM c WHERE c.tenantShard=@s AND c.device=@d AND c["from"] < @to AND c["to"] >= @from ORDER BY c["from"] ASC`
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	for b.Loop() {
		rows, _, _ := query(b, co, key("s", "d"), text, 0, params...)
		require.Len(b, rows, 10)
	}
	report(b, before)
}

// canned answers every request alike, to measure what the SDK costs by itself.
type canned struct{ inner *emulator.Transport }

func (c canned) Do(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return c.inner.Do(r)
	}
	h := http.Header{"X-Ms-Request-Charge": {"6.87"}, "X-Ms-Session-Token": {"0:1#1"}, "Etag": {`"x"`}}
	return &http.Response{StatusCode: http.StatusCreated, Status: "201 Created", Header: h, Body: http.NoBody,
		Request: r}, nil
}

// BenchmarkSDKAlone is BenchmarkCreate1KB without the emulator: what is left of that is the
// emulator's own work.
func BenchmarkSDKAlone(b *testing.B) {
	s := open(b, emulator.Config{})
	create(b, client(b, s), hierarchical("chunks"), 400)
	cred, err := azcosmos.NewKeyCredential(emulator.Key)
	require.NoError(b, err)
	opts := &azcosmos.ClientOptions{}
	opts.Transport = canned{s.Transport()}
	c, err := azcosmos.NewClientWithKey(s.Endpoint(), cred, opts)
	require.NoError(b, err)
	co, err := c.NewContainer("db", "chunks")
	require.NoError(b, err)
	creates(b, co, 900)
}
