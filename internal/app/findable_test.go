package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/ingest"
	"binnacle/ingest/worker"
	"binnacle/internal/control"
	"binnacle/internal/cosmos"
	"binnacle/internal/headhttp"
	"binnacle/internal/kafka"
	"binnacle/internal/lab/broker"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/ops"
	"binnacle/internal/store"
	"binnacle/internal/stream"
	"binnacle/internal/tenant/access"
	"binnacle/query"
	"binnacle/query/httpapi"
	"binnacle/query/prom"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
)

// findableWithin is how soon after its first record was acknowledged a device is in all lists, on every querier.
const findableWithin = 2 * time.Second

// A device that was never seen is found by whoever is asked, in the ingester's process or in another one, within two
// seconds of the acknowledgement of its first record, and from then on: by the news of heads first, then by the
// catalog, also when the ingester has gone. Everything runs with its defaults, but for the journal, in a bubble: its
// clock stands still while anything computes, so that it shows what is waited for, polls and pauses, and nothing else.
func TestNewDevicesAreFindable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(12 * time.Hour) // midnight is where a bubble begins
		f := newFindable(t)
		f.publish("known", "East")
		f.soon("known", "East", 5*time.Second)
		var took []time.Duration
		for i, pause := range []time.Duration{0, 0, 3 * time.Second, time.Second, 11 * time.Second, time.Hour} {
			time.Sleep(pause) // the last one told the catalog at once, or waits for others, or was told long ago
			device, fleet := fmt.Sprintf("new-%d", i), fmt.Sprintf("fleet-%d", i)
			f.publish(device, fleet)
			took = append(took, f.soon(device, fleet, findableWithin))
		}
		t.Logf("found after %v of waits", took)
		pages := f.pages()
		for range 60 { // heads let go of what the catalog has
			time.Sleep(time.Second)
			f.require("new-5", "fleet-5")
		}
		require.Greater(t, f.pages(), pages)
		require.Empty(t, f.news().Devices)
		f.stop()
		time.Sleep(time.Hour)
		for i := range 6 {
			f.require(fmt.Sprintf("new-%d", i), fmt.Sprintf("fleet-%d", i))
		}
	})
}

// findable is a broker, a store, an ingester, and two queriers: one beside the ingester, and one that knows of it by
// HTTP alone.
type findable struct {
	t        *testing.T
	writer   *kafkago.Writer
	in       *ingest.Ingester
	client   *cosmos.Client
	queriers map[string]http.Handler
	stop     func() // the ingester and its heads
}

func newFindable(t *testing.T) *findable {
	f := &findable{t: t, queriers: make(map[string]http.Handler)}
	var wire wires
	emulated, err := emulator.Open(emulator.Config{InMemory: true, Unlimited: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, emulated.Close()) })
	embedded, err := broker.Open(broker.Config{DataDir: t.TempDir(), Addr: "127.0.0.1:9092", Partitions: 2,
		Topics: []string{ops.Topic, ops.DeadLetters}, Listen: wire.listen})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, embedded.Close()) })
	account := func() *cosmos.Client {
		c, err := cosmos.New(cosmos.Config{Endpoint: emulated.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
			Transport: emulated.Transport()})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	f.client = account()
	require.NoError(t, f.client.EnsureBase(t.Context()))
	cluster := func() *kafka.Client {
		c, err := kafka.New(kafka.Config{Brokers: []string{embedded.Addr()}, Dial: wire.dial})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	transport := &kafkago.Transport{Dial: wire.dial}
	t.Cleanup(transport.CloseIdleConnections)
	f.writer = &kafkago.Writer{Addr: kafkago.TCP(embedded.Addr()), Topic: ops.Topic, RequiredAcks: kafkago.RequireAll,
		BatchSize: 1, Transport: transport}
	t.Cleanup(func() { require.NoError(t, f.writer.Close()) })

	dir, of := f.directory(f.client), cluster()
	f.in, err = ingest.New(ingest.Config{Config: worker.Config{Topic: ops.Topic, Register: true}, Kafka: of,
		DeadLetters: ops.DeadLetters, UseJournal: "off", Logger: slog.New(slog.DiscardHandler)}, ingest.Stores{
		Chunks: f.client.Chunks(), Directory: directory{dir, f.client.Containers()}, Catalog: f.client.Catalog(),
		Streams:     stream.NewStreams(f.client.Documents()),
		DeadLetters: ingest.NewTopicDeadLetterWriter(of.Topic(ops.DeadLetters)),
	})
	require.NoError(t, err)
	heads, err := wire.listen("tcp", "127.0.0.1:7072")
	require.NoError(t, err)
	server := &http.Server{Handler: headhttp.Handler(headhttp.HandlerConfig{Heads: f.in,
		Logger: slog.New(slog.DiscardHandler)})}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { require.NoError(t, f.in.Run(ctx)) })
	running.Go(func() { require.ErrorIs(t, server.Serve(heads), http.ErrServerClosed) })
	f.stop = sync.OnceFunc(func() {
		require.NoError(t, server.Close())
		cancel()
		running.Wait()
	})
	t.Cleanup(f.stop)

	f.querier("beside the ingester", f.client, dir, f.in, of)
	over := &http.Transport{DialContext: wire.dial}
	t.Cleanup(over.CloseIdleConnections)
	apart := account()
	f.querier("apart", apart, f.directory(apart),
		headhttp.NewClient(headhttp.ClientConfig{HTTP: &http.Client{Transport: over},
			Targets: func(context.Context) ([]string, error) { return []string{"http://127.0.0.1:7072"}, nil }}), cluster())
	return f
}

// directory is one that is read again now and then, until the test ends.
func (f *findable) directory(account *cosmos.Client) *control.Directory {
	dir := control.NewDirectory(control.DirectoryConfig{Documents: account.Documents()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- dir.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		require.NoError(f.t, <-done)
	})
	return dir
}

func (f *findable) querier(name string, account *cosmos.Client, dir *control.Directory, heads store.Heads,
	cluster *kafka.Client) {
	q, err := query.New(query.Config{Reader: account.Chunks(), Heads: heads, Log: cluster.Topic(ops.Topic),
		Directory: dir, Catalog: account.Catalog(), Rollups: account.Rollups()})
	require.NoError(f.t, err)
	native, err := httpapi.New(httpapi.Config{Querier: q})
	require.NoError(f.t, err)
	promql, err := prom.New(prom.Config{Querier: q})
	require.NoError(f.t, err)
	mux := http.NewServeMux()
	mux.Handle("/", native)
	mux.Handle(prom.Prefix+"/", promql)
	f.queriers[name] = mux
}

// publish returns when a reading of a device is acknowledged.
func (f *findable) publish(device, fleet string) {
	body, err := json.Marshal(map[string]any{"tenant": "acme", "device": device, "ts": time.Now().UnixMilli(),
		"values": map[string]any{"of_" + device: 1}, "tags": map[string]any{"fleet": fleet, "is_" + device: "so"}})
	require.NoError(f.t, err)
	m := kafkago.Message{Key: []byte("acme/" + device), Value: body}
	require.NoError(f.t, f.writer.WriteMessages(f.t.Context(), m))
}

// soon returns how long it takes until everybody finds a device, however it is asked for.
func (f *findable) soon(device, fleet string, within time.Duration) time.Duration {
	began := time.Now()
	for {
		synctest.Wait()
		lacking := f.lacking(device, fleet)
		took := time.Since(began)
		require.LessOrEqual(f.t, took, within, "%s is not found by %v", device, lacking)
		if len(lacking) == 0 {
			return took
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (f *findable) require(device, fleet string) {
	f.t.Helper()
	require.Empty(f.t, f.lacking(device, fleet), "who finds nothing of %s", device)
}

// lacking is which questions, asked of whom, do not find a device.
func (f *findable) lacking(device, fleet string) (out []string) {
	for name, path := range map[string]string{
		"devices":         "/api/v1/devices?limit=1000",
		"a prefix":        "/api/v1/devices?prefix=" + device,
		"a tag":           "/api/v1/devices?match=" + url.QueryEscape("fleet="+fleet),
		"metrics":         "/api/v1/metrics?prefix=of_" + device,
		"label names":     "/prometheus/api/v1/labels",
		"label values":    "/prometheus/api/v1/label/device/values",
		"values of a tag": "/prometheus/api/v1/label/fleet/values",
		"metric names":    "/prometheus/api/v1/label/__name__/values",
		"matched values":  "/prometheus/api/v1/label/device/values?match[]=" + url.QueryEscape(`{fleet=~"`+fleet+`"}`),
		"series":          "/prometheus/api/v1/series?match[]=" + url.QueryEscape(`{fleet="`+fleet+`"}`),
		"a query": "/prometheus/api/v1/query?query=" +
			url.QueryEscape(`last_over_time({"of_`+device+`",fleet="`+fleet+`"}[1d])`),
	} {
		want := `"` + device + `"`
		switch name {
		case "values of a tag":
			want = `"` + fleet + `"`
		case "label names":
			want = `"is_` + device + `"`
		case "metrics", "metric names":
			want = `"of_` + device + `"`
		}
		for who, q := range f.queriers {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set(access.TenantHeader, "acme")
			w := httptest.NewRecorder()
			q.ServeHTTP(w, r)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				out = append(out, fmt.Sprintf("%s, %s: %d %.300s", name, who, w.Code, w.Body))
			}
		}
	}
	slices.Sort(out)
	return out
}

func (f *findable) news() store.HeadUpdates {
	news, err := f.in.CatalogUpdates(f.t.Context(), "acme")
	require.NoError(f.t, err)
	return news
}

func (f *findable) pages() int {
	pages, err := f.client.Catalog().Pages(f.t.Context(), "acme", 0)
	require.NoError(f.t, err)
	return len(pages)
}

// wires is a network in memory, on which a bubble's clock does not wait for a system.
type wires struct {
	mu   sync.Mutex // guards below
	ends map[string]*wireEnd
}

type wireEnd struct {
	at     net.Addr
	come   chan net.Conn
	closed chan struct{}
	close  func()
}

func (w *wires) listen(_, address string) (net.Listener, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	e := &wireEnd{at: at, come: make(chan net.Conn), closed: make(chan struct{})}
	e.close = sync.OnceFunc(func() { close(e.closed) })
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends = make(map[string]*wireEnd)
	}
	w.ends[address] = e
	return e, nil
}

func (w *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	w.mu.Lock()
	e := w.ends[address]
	w.mu.Unlock()
	if e == nil {
		return nil, fmt.Errorf("nobody listens at %s", address)
	}
	here, there := net.Pipe()
	select {
	case e.come <- there:
		return here, nil
	case <-e.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *wireEnd) Accept() (net.Conn, error) {
	select {
	case c := <-e.come:
		return c, nil
	case <-e.closed:
		return nil, net.ErrClosed
	}
}

func (e *wireEnd) Close() error   { e.close(); return nil }
func (e *wireEnd) Addr() net.Addr { return e.at }
