//go:build unix

package app_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/headhttp"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query"

	"github.com/stretchr/testify/require"
)

// tail is the heads of one worker.
type tail struct {
	nobody
	*ingest.Local
}

func (h tail) Heads(_ context.Context, r store.HeadRequest) ([]store.PartitionHead, error) {
	return []store.PartitionHead{h.HeadRead(r)}, nil
}

// metered counts the bytes of answers.
type metered struct {
	http.RoundTripper
	bytes *int
}

func (m metered) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = meteredBody{resp.Body, m.bytes}
	}
	return resp, err
}

type meteredBody struct {
	io.ReadCloser
	bytes *int
}

func (b meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	*b.bytes += n
	return n, err
}

// BenchmarkTail asks an ingester over HTTP, in the same process, for one metric of ten. The ingester holds twelve hours
// of 1,000 devices that report every ten seconds. Between two questions each device reports three times.
func BenchmarkTail(b *testing.B) {
	const devices, every = 1000, 10 * time.Second
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	now := day
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
	_, err = directory.Register(b.Context(), "acme")
	require.NoError(b, err)
	l := ingest.NewLocal(ingest.Config{Config: worker.Config{Hold: 24 * time.Hour}, MemoryBytes: 4 << 30, Now: clock},
		ingest.Stores{Chunks: client.Chunks(), Catalog: client.Catalog(), Directory: directory},
		worker.Assignment{Stream: 1, Owner: 1})
	trucks := make([]*fleet.Truck, devices)
	for i := range trucks {
		trucks[i] = fleet.NewTruck(1, i, day)
	}
	offset, rows := int64(0), 0
	report := func(until time.Time) {
		for ; now.Before(until); now = now.Add(every) {
			for _, truck := range trucks {
				r := telemetry.Reading{Tenant: "acme", Device: truck.ID(), Time: now.UnixMilli(), Fields: truck.Next(now)}
				rec := admit.Record{Offset: offset, Time: r.Time, Value: decode.AppendJSON(nil, r)}
				require.NoError(b, l.Take(b.Context(), rec))
				offset++
			}
			rows += devices
		}
	}
	report(day.Add(12 * time.Hour))
	serving := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{Heads: tail{Local: l}}))
	defer serving.Close()
	targets := func(context.Context) ([]string, error) { return []string{serving.URL}, nil }
	wire := 0
	for _, c := range []struct {
		name  string
		cache int64
	}{{"all", -1}, {"what is new", 1 << 30}} {
		q, err := query.New(query.Config{Reader: client.Chunks(), Directory: directory, Catalog: client.Catalog(), Now: clock,
			Heads: headhttp.NewClient(headhttp.ClientConfig{Targets: targets,
				HTTP: &http.Client{Transport: metered{http.DefaultTransport, &wire}}}), CacheBytes: c.cache})
		require.NoError(b, err)
		ask := func() {
			values := 0
			_, err := q.Series(b.Context(), query.Request{Tenant: "acme", Metrics: []string{"velocity"},
				Range: telemetry.Range{From: day.UnixMilli(), To: day.Add(24 * time.Hour).UnixMilli()}},
				func(c query.Curve) error {
					for i := range c.Stretches {
						values += len(c.Stretches[i].Times)
					}
					return nil
				})
			require.NoError(b, err)
			require.Equal(b, rows, values)
		}
		ask()
		b.Run(c.name, func(b *testing.B) {
			used := time.Duration(0)
			wire = 0
			for b.Loop() {
				report(now.Add(3 * every))
				began := processorTime(b)
				ask()
				used += processorTime(b) - began
			}
			b.ReportMetric(float64(used)/float64(b.N)/1e6, "CPU-ms")
			b.ReportMetric(float64(wire)/float64(b.N)/1e3, "KB")
		})
	}
}
