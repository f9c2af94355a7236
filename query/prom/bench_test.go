//go:build unix

package prom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"syscall"
	"testing"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/store/storetest"
	"binnacle/internal/telemetry"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/prom"
	"binnacle/query/querytest"
	"binnacle/sharding"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

// ready is a store that has its documents at hand, by first-level key, in no order.
type ready map[string][][]byte

func (r ready) Scan(_ context.Context, s store.Scan, yield func([]byte) error) (u store.Usage, err error) {
	if u.Date = noon; s.Since > 0 {
		return u, nil // all of it is older
	}
	for _, doc := range r[s.Key.TenantShard] {
		u.Documents++
		if err := yield(doc); err != nil {
			return u, err
		}
	}
	return u, nil
}

// fleetDay is a day of devices with ten metrics every 10 s, an hour a chunk. Two of them are asked for: velocity, and
// odometer_total, which grows. Of two queriers the first keeps nothing, and the second what it has read.
func fleetDay(b *testing.B, devices int) (cold, warm *query.Querier) {
	w := querytest.New(b, noon)
	placement := w.Tenant("acme").Placement
	day := telemetry.DayOf(noon.UnixMilli())
	require.NoError(b, w.Directory.AskMonth(b.Context(), sharding.Container("", sharding.Month.Of(day)), ""))
	w.Heads.Set(store.PartitionHead{Stream: 1, Position: 1 << 20, Owner: 1})
	const kinds = 8 // of devices, by what they report
	var frames [kinds][24]chunk.Frame
	for k := range kinds {
		for hour := range 24 {
			var records []querytest.Record
			for i := range 360 {
				n := hour*360 + i
				r := record(int64(n), "truck", time.UnixMilli(day.Start()).Add(time.Duration(n)*10*time.Second), nil,
					float("odometer_total", float64(k*1000)+float64(n*(k+3)/4)/10), float("velocity", float64((n*7+k*31)%997)/10))
				for m := range 8 {
					r.Fields = append(r.Fields, float(fmt.Sprintf("other_%d", m), float64((n*(m+1)+k)%997)/10))
				}
				records = append(records, r)
			}
			frames[k][hour] = querytest.FrameOf(records)
		}
	}
	docs := make(ready)
	for d := range devices {
		device := fmt.Sprintf("truck-%04d", d)
		w.Catalog.AddPage("acme", storetest.Entry(device, map[string]string{"fleet": fmt.Sprint(d % 5), "site": "hall"},
			"odometer_total", "velocity"))
		for hour := range 24 {
			key := placement.Key(device, day, uint32(hour))
			h := chunk.Header{
				ID: chunk.ID{Day: day, Stream: 1, Number: uint32(hour)}, TenantShard: key.TenantShard, Device: device,
				Readings: 360, First: int64(hour * 360), Through: int64(hour*360 + 359), After: int64(hour*360 - 1),
			}
			doc, err := chunk.Encode(h, frames[d%kinds][hour])
			require.NoError(b, err)
			docs[key.TenantShard] = append(docs[key.TenantShard], doc)
		}
	}
	cfg := query.Config{Reader: docs, Heads: w.Heads, Directory: w.Directory, Catalog: w.Catalog, MemoryBytes: 1 << 30,
		TotalMemoryBytes: 2 << 30, CacheBytes: -1, Now: func() time.Time { return w.Now }}
	cold, err := query.New(cfg)
	require.NoError(b, err)
	cfg.CacheBytes = 1 << 30
	warm, err = query.New(cfg)
	require.NoError(b, err)
	return cold, warm
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkFleetDay asks panels over the whole fleet for a day in steps of five minutes, plainly and with pushdowns, in
// turns. Chunks are in memory: of a cold answer they are parsed and decoded, of a warm one they were before.
func BenchmarkFleetDay(b *testing.B) {
	const devices = 1000
	cold, warm := fleetDay(b, devices)
	engine := engineOf()
	start := time.UnixMilli(telemetry.DayOf(noon.UnixMilli()).Start())
	day := telemetry.Range{From: start.UnixMilli(), To: start.Add(24 * time.Hour).UnixMilli()}
	for _, state := range []struct {
		name string
		*query.Querier
	}{{"cold", cold}, {"warm", warm}} {
		readings := prom.Over(state.Querier, "acme")
		read := func() {
			n := 0
			_, err := state.Series(b.Context(), query.Request{Tenant: "acme", Metrics: []string{"velocity"}, Range: day},
				func(query.Curve) error { n++; return nil })
			require.NoError(b, err)
			require.Equal(b, devices, n)
		}
		read() // for the warm one to be warm, as below
		run(b, state.name+"/reading alone", read)
		for _, text := range []string{
			"avg by (fleet) (velocity)",
			"sum by (fleet) (rate(odometer_total[5m]))",
			"avg by (fleet) (avg_over_time(velocity[5m]))",
			"topk(5, max_over_time(velocity[1h]))",
		} {
			ask := func(e promql.QueryEngine) {
				asked, err := e.NewRangeQuery(b.Context(), readings, nil, text, start, start.Add(24*time.Hour), 5*time.Minute)
				require.NoError(b, err)
				defer asked.Close()
				res := asked.Exec(b.Context())
				require.NoError(b, res.Err)
				require.NotEmpty(b, res.Value, text, state.name)
			}
			pushdowns := prom.Pushdowns{QueryEngine: engine, Over: readings}
			ask(pushdowns)
			run(b, state.name+"/"+text+"/plain", func() { ask(engine) })
			run(b, state.name+"/"+text+"/pushdowns", func() { ask(pushdowns) })
			if state.Querier == warm {
				panel := panelOf(b, warm, text, start)
				panel()
				run(b, state.name+"/"+text+"/kept", panel)
			}
		}
	}
}

// panelOf asks the API for a panel.
func panelOf(b *testing.B, q *query.Querier, text string, start time.Time) func() {
	h, err := prom.New(prom.Config{Querier: q})
	require.NoError(b, err)
	form := url.Values{"query": {text}, "step": {"300"}, "start": {fmt.Sprint(start.Unix())},
		"end": {fmt.Sprint(start.Add(24 * time.Hour).Unix())}}
	return func() {
		r := httptest.NewRequest(http.MethodGet, "/prometheus/api/v1/query_range?"+form.Encode(), nil)
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set(access.TenantHeader, "acme")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(b, http.StatusOK, w.Code, w.Body)
	}
}

func run(b *testing.B, name string, ask func()) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		began := cpu(b)
		for b.Loop() {
			ask()
		}
		b.ReportMetric(float64(cpu(b)-began)/float64(b.N)/1e6, "CPU-ms")
	})
}
