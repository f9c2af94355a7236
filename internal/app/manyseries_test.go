//go:build unix

package app_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/admit"
	"binnacle/ingest/decode"
	"binnacle/ingest/worker"
	"binnacle/internal/headhttp"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"

	"github.com/stretchr/testify/require"
)

var seriesDevices = flag.Int("series.devices", 300, "devices of ten metrics in TestManySeries")

// TestManySeries asks for lists and panels of all series of a tenant, which are in an ingester's memory: each is an
// answer, or a refusal that names the bound. With -series.devices 100000 they are a million, and -v prints what each
// takes.
func TestManySeries(t *testing.T) {
	p := newPanels(t, *seriesDevices, 1, plain())
	now := time.UnixMilli(p.day.Start()).Add(12 * time.Hour)
	clock := func() time.Time { return now }
	p.now = now
	l := ingest.NewLocal(ingest.Config{Config: worker.Config{Hold: 24 * time.Hour}, MemoryBytes: 8 << 30, Now: clock},
		ingest.Stores{Chunks: p.client.Chunks(), Catalog: p.client.Catalog(), Directory: p.directory},
		worker.Assignment{Stream: 1, Owner: 1})
	offset := int64(0)
	for i := range 6 {
		at := now.Add(time.Duration(i-6) * 10 * time.Second).UnixMilli()
		for d := range p.devices {
			r := telemetry.Reading{Tenant: "acme", Device: deviceOf(d), Time: at}
			for m, name := range p.names {
				value := telemetry.FloatValue(p.at(m, d%kinds, at))
				r.Fields = append(r.Fields, telemetry.Field{Metric: name, Value: value})
			}
			rec := admit.Record{Offset: offset, Time: at, Value: decode.AppendJSON(nil, r)}
			require.NoError(t, l.Take(t.Context(), rec))
			offset++
		}
	}
	heads := httptest.NewServer(headhttp.Handler(headhttp.HandlerConfig{Heads: tail{Local: l}}))
	defer heads.Close()
	targets := func(context.Context) ([]string, error) { return []string{heads.URL}, nil }
	q, err := query.New(query.Config{Reader: p.client.Chunks(), Directory: p.directory, Catalog: p.client.Catalog(),
		Now: clock, Heads: headhttp.NewClient(headhttp.ClientConfig{Targets: targets})})
	require.NoError(t, err)
	api, err := prom.New(prom.Config{Querier: q, Now: clock})
	require.NoError(t, err)
	serving := httptest.NewServer(api)
	defer serving.Close()

	ask := func(path string, parameters ...string) (status int, body string) {
		values := url.Values{}
		for i := 0; i < len(parameters); i += 2 {
			values.Add(parameters[i], parameters[i+1])
		}
		target := serving.URL + prom.Prefix + "/api/v1/" + path + "?" + values.Encode()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		require.NoError(t, err)
		r.Header.Set(access.TenantHeader, "acme")
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	end := strconv.FormatInt(now.Unix(), 10)
	start := strconv.FormatInt(now.Add(-15*time.Minute).Unix(), 10)
	for _, c := range [][]string{
		{"query", "query", `count({__name__!=""})`, "time", end},
		{"query", "query", `count by (__name__) ({__name__!=""})`, "time", end},
		{"query_range", "query", `count({__name__!=""})`, "start", start, "end", end, "step", "15"},
		{"query", "query", `topk(5, metric_1)`, "time", end},
		{"query_range", "query", `topk(5, metric_1)`, "start", start, "end", end, "step", "15"},
		{"query_range", "query", `avg by (fleet) (metric_1)`, "start", start, "end", end, "step", "15"},
		{"query_range", "query", `metric_1`, "start", start, "end", end, "step", "15"},
		{"query", "query", `metric_1`, "time", end},
		{"series", "match[]", `{__name__!=""}`, "start", start, "end", end},
		{"series", "match[]", `{__name__!=""}`, "start", start, "end", end, "limit", "1000"},
		{"series", "match[]", `metric_1`, "start", start, "end", end},
		{"label/device/values", "start", start, "end", end},
		{"label/__name__/values", "start", start, "end", end},
		{"label/fleet/values", "start", start, "end", end},
		{"labels", "start", start, "end", end},
	} {
		runtime.GC()
		peak := watchHeap()
		began, used := time.Now(), usedProcessor(t)
		status, body := ask(c[0], c[1:]...)
		cpu := usedProcessor(t) - used
		wall := time.Since(began)
		what := strings.Join(c[:min(3, len(c))], " ")
		t.Logf("%s: %d, %d CPU-ms, %d ms, %d MB more at most, %d bytes: %.100s", what, status, cpu.Milliseconds(),
			wall.Milliseconds(), peak()>>20, len(body), body)
		if status != http.StatusOK {
			require.Equal(t, http.StatusUnprocessableEntity, status, body)
			require.Contains(t, body, "memory that a query may use", "a refusal names its bound")
		}
	}
}

// watchHeap watches how much memory is in use, until the returned function returns the most of it beyond what it was.
func watchHeap() func() uint64 {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, done, ended := inUse(), uint64(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most = max(most, inUse())
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return most - min(most, before)
	}
}

func usedProcessor(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
