package headhttp_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"binnacle/binning/chunk"
	"binnacle/internal/headhttp"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"

	"github.com/stretchr/testify/require"
)

// BenchmarkHeads sends the heads of 1,000 devices, an hour of ten metrics at 10 s, over loopback.
func BenchmarkHeads(b *testing.B) {
	p := &process{heads: make([]store.PartitionHead, 1), rows: map[int][]store.HeadRows{}}
	values := 0
	for d := range 1000 {
		g := chunk.Group{}
		for i := range 360 {
			g.Times = append(g.Times, 1_795_183_200_000+int64(i)*10_000+int64(d))
		}
		for m := range 10 {
			c := chunk.Column{Metric: fmt.Sprintf("metric_%d", m), Kind: telemetry.Float}
			for i := range g.Times {
				c.Bits = append(c.Bits, telemetry.FloatValue(float64((i*7+d*m)%1000)/10).Bits())
			}
			values += len(c.Bits)
			g.Columns = append(g.Columns, c)
		}
		p.rows[0] = append(p.rows[0], store.HeadRows{Device: fmt.Sprintf("truck-%04d", d),
			Frame: chunk.Frame{Groups: []chunk.Group{g}}})
	}
	server := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{Heads: p}))
	defer server.Close()
	c := client("", server.URL)
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		heads, err := c.Heads(ctx, store.HeadRequest{Tenant: "acme", Range: telemetry.Range{To: 1}})
		require.NoError(b, err)
		rows, err := all(heads)
		require.NoError(b, err)
		require.Len(b, rows[0], 1000)
		cancel()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(values), "ns/value")
}
