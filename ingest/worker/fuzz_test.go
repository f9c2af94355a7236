package worker_test

import (
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/ingesttest"

	"github.com/stretchr/testify/require"
)

// Whatever a record holds, the worker takes it or refuses it, stores what it took, and goes on.
func FuzzWorker(f *testing.F) {
	for _, r := range logOf(1, 40) {
		f.Add(r.Value, "")
	}
	f.Add([]byte("m,d=d0,t=x a=1,b=2i,c=\"text\",e=t 1795183200123000000\nm,d=d1 a=NaN"), "text/plain; format=influx")
	f.Add([]byte(`[{"tenant":"acme","device":"d","ts":"2026-11-20T14:00:00Z","values":{"a":"\u00e9","b":1e300,"c":-0,"d":{"float":"NaN"}},"labels":{"x":""},"tags":{"t":"\u0000"}}]`), "application/json")
	f.Fuzz(func(t *testing.T, value []byte, contentType string) {
		w := newWorld(t, nil)
		for _, r := range decode.New(decode.Options{Tenant: "acme",
			Lines: decode.Lines{DeviceTag: "d"}}).Decode(decode.Record{Value: value, ContentType: contentType,
			Timestamp: start}).Readings {
			w.Chunks.CreateContainer("chunks-" + monthOf(r.Time))
		}
		l, ctx := w.worker(func(c *ingest.Config) {
			c.Decode = decode.Options{Tenant: "acme",
				Lines: decode.Lines{DeviceTag: "d"}}
		}), ingesttest.Deadline(t)
		record := admit.Record{Time: start, Value: value, Headers: []admit.Header{{Key: "content-type",
			Value: []byte(contentType)}}}
		require.NoError(t, l.Take(ctx, record))
		require.NoError(t, l.Take(ctx, one(1, "last")))
		require.NoError(t, l.Finish(ctx))
		require.EqualValues(t, 2, l.Floor())
		require.NotEmpty(t, w.Stored())
		w.CheckChains()
		w.now = w.now.Add(time.Minute)
		require.NoError(t, l.Step(ctx))
		require.Zero(t, heldRows(t, l))
	})
}

func monthOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01") }
