package app_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/app"
	"binnacle/internal/catalog"
	"binnacle/internal/charges"
	"binnacle/internal/charges/ru"
	"binnacle/internal/cosmos"
	"binnacle/internal/heat/heatlog"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/settings"
	"binnacle/internal/tenant/access"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

var smallHours = flag.Int("smallfleet.hours", 1, "virtual hours of TestSmallFleetIsCheap, of which a third has panels")

// A hundred devices that report ten metrics a minute, with ten panels that refresh every minute for eight hours a day,
// cost at most 2,000,000 request units in 30 days on a serverless account, and background work at most half of that.
// All roles run as `binnacle serve` runs them, against the embedded account and broker, in a bubble with a clock of its
// own. What the hours of the test took is multiplied up to 30 days; request units are modelled.
func TestSmallFleetIsCheap(t *testing.T) {
	_, _, err := catalog.Encode(catalog.Page{}) // makes the process's encoder outside of the bubble: later tests use it
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		f := newSmallFleet(t)
		for range 20 { // what happens once in an account's life
			f.minute(t, false)
		}
		hours := *smallHours
		once, from := f.parts(t)
		began, before := time.Now(), f.charged(t)
		for m := range 60 * hours {
			f.minute(t, m >= 40*hours) // at rest first
		}
		const month = 30 * 24 * time.Hour
		total := (f.charged(t) - before) * float64(month) / float64(time.Since(began))
		f.stop()
		parts, to := f.parts(t)
		background := 0.0
		for _, k := range slices.SortedFunc(maps.Keys(parts), part.compare) {
			rus := (parts[k] - once[k]) * float64(month) / float64(to.Sub(from))
			t.Logf("%-8s in %-14s %9.0f RU", k.kind, k.in, rus)
			if k.kind != charges.Queries && k.kind != charges.Chunks {
				background += rus
			}
		}
		t.Logf("in 30 days, modelled, from %d hours: %.0f RU, $%.2f; background work %.0f", hours, total,
			total*ru.ServerlessPerMillion/1e6, background)
		require.Positive(t, f.answers)
		require.Less(t, total, 2e6)
		require.Less(t, background, 1e6)
	})
}

// smallFleet is an account, a broker and all roles.
type smallFleet struct {
	server  *emulator.Server
	writer  *kafkago.Writer
	client  *cosmos.Client // of the test
	asks    *http.Client
	stop    func()
	answers int
}

func newSmallFleet(t *testing.T) *smallFleet {
	f, wire := &smallFleet{}, &wires{}
	var err error
	f.server, err = emulator.Open(emulator.Config{InMemory: true, Capacity: "serverless"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.server.Close()) })
	account := cosmos.Config{Endpoint: f.server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: f.server.Transport(), Logger: slog.New(slog.DiscardHandler)}
	f.client, err = cosmos.New(account)
	require.NoError(t, err)
	t.Cleanup(f.client.Close)
	log, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:9092", Partitions: 4,
		Topics: []string{ops.Topic, ops.DeadLetters, ops.Topic + ".journal"}, Listen: wire.listen})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	transport := &kafkago.Transport{Dial: wire.dial}
	t.Cleanup(transport.CloseIdleConnections)
	f.writer = &kafkago.Writer{Addr: kafkago.TCP(log.Addr()), Topic: ops.Topic, RequiredAcks: kafkago.RequireAll,
		BatchSize: 100, Transport: transport}
	t.Cleanup(func() { require.NoError(t, f.writer.Close()) })

	var cfg app.ServeConfig
	settings.Defaults(&cfg.Ingest)
	settings.Defaults(&cfg.Query)
	settings.Defaults(&cfg.Rollups)
	cfg.Provision, cfg.Rollups.Rollups = true, true
	cfg.Balance = app.BalanceConfig{Balance: "advise", From: 18 * time.Hour, Every: 5 * time.Minute, Future: time.Hour}
	cfg.Policy = app.PolicyConfig{HotRUs: 4000, WarmRUs: 1000, ColdRUs: 400, RollupsRUs: 2000, Follow: true,
		ErasureRUs: 400, SweepRUs: 400}
	cfg.Ingest.Register, cfg.Ingest.Kafka.Brokers, cfg.Ingest.Kafka.Dial = true, []string{log.Addr()}, wire.dial
	cfg.Access.Proxies = []string{"127.0.0.1/32"}
	heads, err := wire.listen("tcp", "127.0.0.1:7072")
	require.NoError(t, err)
	api, err := wire.listen("tcp", "127.0.0.1:7070")
	require.NoError(t, err)
	f.stop, err = cfg.Serve(t.Context(), ops.Env{Command: "serve", Stdout: io.Discard,
		Logger: slog.New(slog.DiscardHandler)}, app.Served{Account: account, Heads: heads, API: onLoopback{api}})
	require.NoError(t, err)
	over := &http.Transport{DialContext: wire.dial}
	t.Cleanup(over.CloseIdleConnections)
	f.asks = &http.Client{Transport: over}
	return f
}

// onLoopback is a listener with clients on this machine.
type onLoopback struct{ net.Listener }

type fromLoopback struct{ net.Conn }

func (l onLoopback) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return fromLoopback{c}, err
}

func (fromLoopback) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// minute publishes a reading of each device, refreshes the panels, and lets the minute pass.
func (f *smallFleet) minute(t *testing.T, panels bool) {
	end := time.Now().Truncate(time.Minute).Add(time.Minute)
	var batch []kafkago.Message
	for d := range 100 {
		values := map[string]float64{}
		for m := range 10 {
			values[metricOf(m)] = math.Round(300+280*math.Sin(float64(end.Unix()*int64(m+1)+int64(d*31))/9000)) / 10
		}
		body, err := json.Marshal(map[string]any{"tenant": "acme", "device": deviceOf(d), "ts": time.Now().UnixMilli(),
			"values": values, "tags": map[string]any{"fleet": fmt.Sprint(d % 5)}})
		require.NoError(t, err)
		batch = append(batch, kafkago.Message{Key: []byte("acme/" + deviceOf(d)), Value: body})
	}
	require.NoError(t, f.writer.WriteMessages(context.Background(), batch...))
	time.Sleep(20 * time.Second)
	if panels {
		f.panels(t)
	}
	time.Sleep(time.Until(end))
}

// panels asks for ten panels of the last hour: six over the fleet, two devices, the latest values, label values.
func (f *smallFleet) panels(t *testing.T) {
	end := time.Now().Truncate(time.Minute)
	span := "&step=60&start=" + fmt.Sprint(end.Add(-time.Hour).Unix()) + "&end=" + fmt.Sprint(end.Unix())
	paths := []string{"/api/v1/latest?metric=metric_1", "/prometheus/api/v1/label/device/values"}
	for _, q := range []string{"avg(metric_1)", "max by (fleet) (metric_2)", "sum(rate(km_total[5m]))",
		"quantile(0.9, metric_3)", "avg(avg_over_time(metric_4[10m]))", "count(metric_5 > 10)",
		`metric_1{device="truck-0001"}`, `metric_2{device="truck-0050"}`} {
		paths = append(paths, "/prometheus/api/v1/query_range?query="+url.QueryEscape(q)+span)
	}
	for _, path := range paths {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:7070"+path, nil)
		require.NoError(t, err)
		req.Header.Set(access.TenantHeader, "acme")
		resp, err := f.asks.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
		f.answers++
	}
}

// charged is what the account has charged until now.
func (f *smallFleet) charged(t *testing.T) (rus float64) {
	r, w := httptest.NewRequest(http.MethodGet, "/_emulator/charges", nil), httptest.NewRecorder()
	r.RemoteAddr = ""
	f.server.ServeHTTP(w, r)
	var found emulator.Charges
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &found))
	for _, containers := range found.Months {
		for _, n := range containers {
			rus += n
		}
	}
	return rus
}

// part is a kind of work in a container.
type part struct {
	kind charges.Kind
	in   string
}

func (p part) compare(o part) int {
	return cmp.Or(cmp.Compare(p.kind, o.kind), cmp.Compare(p.in, o.in))
}

// parts is what all roles have counted and stored, by part, and up to when.
func (f *smallFleet) parts(t *testing.T) (map[part]float64, time.Time) {
	sum, err := heatlog.NewReader(f.client.Heat()).Charges(t.Context(), charges.MonthOf(time.Now()))
	require.NoError(t, err)
	out := map[part]float64{}
	for key, a := range sum.Rows {
		out[part{key.Kind, key.Container}] += a.RUs
	}
	return out, sum.Through
}
