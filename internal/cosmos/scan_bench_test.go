//go:build unix

package cosmos_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/sharding"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/stretchr/testify/require"
)

// tape answers a request that was answered before as it was then: what is left is what the client costs.
type tape struct {
	policy.Transporter

	mu      sync.Mutex // guards below
	answers map[string]*taped
}

type taped struct {
	http.Response
	body []byte
}

func (t *tape) Do(r *http.Request) (*http.Response, error) {
	var asked []byte
	if r.Body != nil {
		asked, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(asked))
	}
	at := r.Method + " " + r.URL.String() + " " + r.Header.Get("x-ms-continuation") + " " + string(asked)
	t.mu.Lock()
	a := t.answers[at]
	t.mu.Unlock()
	if a == nil {
		resp, err := t.Transporter.Do(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		a = &taped{*resp, body}
		t.mu.Lock()
		t.answers[at] = a
		t.mu.Unlock()
	}
	resp := a.Response
	resp.Header, resp.Request = a.Header.Clone(), r
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	return &resp, nil
}

// chunkOf is an hour of a device with ten metrics every 10 s.
func chunkOf(b *testing.B, key sharding.Key, hour uint32) (string, []byte) {
	day := telemetry.Day(20777)
	g := chunk.Group{}
	for i := range 360 {
		g.Times = append(g.Times, day.Start()+int64(hour)*3_600_000+int64(i)*10_000)
	}
	for m := range 10 {
		c := chunk.Column{Metric: fmt.Sprintf("metric_%d", m), Kind: telemetry.Float}
		for i := range 360 {
			n := int(hour)*360 + i
			c.Bits = append(c.Bits, telemetry.FloatValue(float64(200+(n*n*(m+1)+n*len(key.Device))%997%64)/10).Bits())
		}
		g.Columns = append(g.Columns, c)
	}
	h := chunk.Header{ID: chunk.ID{Day: day, Stream: 1, Number: hour}, TenantShard: key.TenantShard, Device: key.Device,
		Readings: 360, First: int64(hour) * 360, Through: int64(hour)*360 + 359, After: int64(hour)*360 - 1}
	doc, err := chunk.Encode(h, chunk.Frame{Groups: []chunk.Group{g}})
	require.NoError(b, err)
	return h.ID.String(), doc
}

// BenchmarkScan reads a day of a fleet, an hour a chunk, by the first level of its key: from the emulator in the same
// process, which works for its answers, and from answers that are at hand.
func BenchmarkScan(b *testing.B) {
	const devices = 100
	server, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(b, err)
	defer func() { require.NoError(b, server.Close()) }()
	for _, from := range []struct {
		name      string
		transport policy.Transporter
	}{
		{"emulator", server.Transport()}, {"taped", &tape{Transporter: server.Transport(), answers: map[string]*taped{}}},
	} {
		c, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
			Transport: from.transport})
		require.NoError(b, err)
		container := "chunks-2026-11-" + from.name
		require.NoError(b, c.EnsureBase(b.Context()))
		require.NoError(b, c.Containers().Create(b.Context(), container, small))
		size := 0
		for d := range devices {
			k := sharding.Key{Container: container, TenantShard: "acme~4r", Device: fmt.Sprintf("truck-%04d", d)}
			for hour := range uint32(24) {
				id, doc := chunkOf(b, k, hour)
				_, err := c.Chunks().Create(b.Context(), k, id, doc)
				require.NoError(b, err)
				size += len(doc)
			}
		}
		scan := store.Scan{Key: sharding.Key{Container: container, TenantShard: "acme~4r"},
			Range: telemetry.Range{To: telemetry.MaxMillis}}
		b.Run(from.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			began := processorTime(b)
			for b.Loop() {
				usage, err := c.Chunks().Scan(b.Context(), scan, func([]byte) error { return nil })
				require.NoError(b, err)
				require.Equal(b, devices*24, usage.Documents)
			}
			b.ReportMetric(float64(size)/(devices*24), "B/document")
			b.ReportMetric(float64(processorTime(b)-began)/float64(b.N*devices*24)/1e3, "CPU-us/document")
		})
		c.Close()
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
