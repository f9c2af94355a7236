package cosmos_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/internal/tenant"

	"github.com/stretchr/testify/require"
)

// emulator opens an emulator in memory and a client of it. change may alter the client's settings.
func openEmulator(t *testing.T, cfg emulator.Config, change func(*cosmos.Config)) (*emulator.Server, *cosmos.Client) {
	cfg.InMemory = true
	cfg.Limits.RetryAfter = time.Hour // waits are exact: a client that has waited is served
	server, err := emulator.Open(cfg)
	require.NoError(t, err)
	c := cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey(emulator.Key),
		Transport: server.Transport(), Now: cfg.Now}
	if change != nil {
		change(&c)
	}
	client, err := cosmos.New(c)
	require.NoError(t, err)
	t.Cleanup(func() {
		client.Close()
		require.NoError(t, server.Close())
	})
	require.NoError(t, client.EnsureBase(t.Context()))
	return server, client
}

var small = store.Throughput{RUs: 400}

// The roles start in any order, and again on what is there.
func TestEnsureBaseTwice(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{}, nil)
	require.NoError(t, c.EnsureBase(t.Context()))
	names, err := c.Containers().List(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, store.BaseContainers(), names)
}

func TestContainersOnTheEmulator(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{}, nil)
	ctx, containers := t.Context(), c.Containers()
	const name = "chunks-2026-11"
	_, err := containers.ReadThroughput(ctx, name)
	require.ErrorIs(t, err, store.ErrNoContainer)
	require.ErrorIs(t, containers.SetThroughput(ctx, name, small), store.ErrNoContainer)
	require.NoError(t, containers.Delete(ctx, name))

	require.NoError(t, containers.Create(ctx, name, store.Throughput{RUs: 60_000}))
	require.NoError(t, containers.Create(ctx, name, small), "one that exists stays as it is")
	got, err := containers.ReadThroughput(ctx, name)
	require.NoError(t, err)
	require.Equal(t, store.ContainerState{Name: name, Throughput: store.Throughput{RUs: 60_000}, MinRUs: 600}, got)
	require.NoError(t, containers.SetThroughput(ctx, name, store.Throughput{RUs: 600}))
	got, err = containers.ReadThroughput(ctx, name)
	require.NoError(t, err)
	require.Equal(t, 600, got.Throughput.RUs)
	require.ErrorContains(t, containers.SetThroughput(ctx, name, store.Throughput{RUs: 500}), "500",
		"below a hundredth of the highest ever")

	require.NoError(t, containers.Create(ctx, "chunks-acme-2026-11", store.Throughput{RUs: 4000, Autoscale: true}))
	got, err = containers.ReadThroughput(ctx, "chunks-acme-2026-11")
	require.NoError(t, err)
	require.Equal(t, store.Throughput{RUs: 4000, Autoscale: true}, got.Throughput)
	require.NoError(t, containers.Delete(ctx, name))
	names, err := containers.List(ctx)
	require.NoError(t, err)
	require.NotContains(t, names, name)
}

// What a container of chunks charges shows its index: the payload is not in it.
func TestChunkIndexingPolicy(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{Unlimited: true}, nil)
	require.NoError(t, c.Containers().Create(t.Context(), key.Container, small))
	doc := []byte(`{"id":"x","tenantShard":"acme~4r","device":"m1","from":1,"to":2,"deep":{"a":[1,2,3],"b":{"c":"d"}},"e":5}`)
	receipt, err := c.Chunks().Create(t.Context(), key, "x", doc)
	require.NoError(t, err)
	require.InDelta(t, 7.05, receipt.RUs, 0.01, "id, two levels of the key, from, to")

	require.NoError(t, c.Containers().CreateAs(t.Context(), cosmos.Layout{Name: "naive",
		Key: []string{"/tenantShard", "/device"}}, small))
	receipt, err = c.Items("naive").Create(t.Context(), []string{"acme~4r", "m1"}, "x", doc)
	require.NoError(t, err)
	require.Greater(t, receipt.RUs, 4.95+9*0.32)
}

// simulation is a clock that moves only when a throttled request sleeps.
type simulation struct {
	mu  sync.Mutex
	now time.Time
}

func (s *simulation) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *simulation) Sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	return ctx.Err()
}

// A container of 400 RU/s takes 400 RU of writes a second: the rest waits, nothing fails, and the waits
// are what the emulator's budget says.
func TestThrottledWritesWaitOnEmulator(t *testing.T) {
	clock := &simulation{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	_, c := openEmulator(t, emulator.Config{Now: clock.Now}, func(cfg *cosmos.Config) {
		cfg.Sleep, cfg.Jitter, cfg.Patience = clock.Sleep, func() float64 { return 0 }, 2*time.Second
	})
	require.NoError(t, c.Containers().Create(t.Context(), key.Container, small))
	began := clock.Now()
	var rus float64
	var throttled int
	for i := range 500 {
		id := fmt.Sprintf("20261120.1.00003.%06d", i)
		doc := fmt.Sprintf(`{"id":%q,"tenantShard":"acme~4r","device":"m1","from":1,"to":2}`, id)
		receipt, err := c.Chunks().Create(t.Context(), key, id, []byte(doc))
		require.NoError(t, err)
		rus += receipt.RUs
		throttled += receipt.Throttled
	}
	took := clock.Now().Sub(began).Seconds()
	require.InDelta(t, rus/400, took, 1.01, "%.0f RU", rus)
	require.InDelta(t, took, throttled, 1.01, "one wait a second")
}

// A chunk of a physical partition without budget waits for a moment, and comes back: others have better use for
// the time.
func TestThrottledChunkReturnsBusyError(t *testing.T) {
	clock := &simulation{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	var waited time.Duration
	_, c := openEmulator(t, emulator.Config{Now: clock.Now}, func(cfg *cosmos.Config) {
		cfg.Jitter = func() float64 { return 0 }
		cfg.Patience = 10 * time.Second
		// the second does not end
		cfg.Sleep = func(ctx context.Context, d time.Duration) error { waited += d; return ctx.Err() }
	})
	require.NoError(t, c.Containers().Create(t.Context(), key.Container, small))
	var err error
	var receipt store.Receipt
	for i := 0; err == nil && i < 1000; i++ {
		id := fmt.Sprintf("20261120.1.00003.%06d", i)
		receipt, err = c.Chunks().Create(t.Context(), key, id, fmt.Appendf(nil,
			`{"id":%q,"tenantShard":"acme~4r","device":"m1","from":1,"to":2}`, id))
	}
	require.ErrorIs(t, err, store.ErrBusy)
	var busy *store.BusyError
	require.ErrorAs(t, err, &busy)
	require.Positive(t, busy.RetryAfter)
	require.LessOrEqual(t, busy.RetryAfter, time.Second)
	require.Equal(t, 1, receipt.Throttled, "the service is left alone for as long as it wants")
	require.Positive(t, waited)
	require.LessOrEqual(t, waited, 10*time.Second)
	for name, f := range map[string]func() error{
		"last": func() error {
			_, _, err := c.Chunks().Last(t.Context(), key, store.Chain{Day: 20777, Stream: 1})
			return err
		},
		"read": func() error { _, _, err := c.Chunks().Read(t.Context(), key, "x", ""); return err },
	} {
		require.ErrorIs(t, f(), store.ErrBusy, name)
	}
}

// A client with the wrong key gets that error for every request.
func TestWrongKeyIsDenied(t *testing.T) {
	server, _ := openEmulator(t, emulator.Config{Unlimited: true}, nil)
	c, err := cosmos.New(cosmos.Config{Endpoint: server.Endpoint(), Credential: cosmos.FixedKey("bm90IHRoZSBrZXk="),
		Transport: server.Transport()})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Chunks().Create(t.Context(), key, "x", []byte(`{"id":"x","tenantShard":"acme~4r","device":"m1"}`))
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = c.Documents().List(t.Context(), tenant.Kind)
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = c.Catalog().Pages(t.Context(), "acme", 0)
	require.ErrorIs(t, err, store.ErrDenied)
}

// A document that contradicts its key will never be taken.
func TestDocumentWithWrongPartitionKeyIsRejected(t *testing.T) {
	_, c := openEmulator(t, emulator.Config{Unlimited: true}, nil)
	require.NoError(t, c.Containers().Create(t.Context(), key.Container, small))
	_, err := c.Chunks().Create(t.Context(), key, "x", []byte(`{"id":"x","tenantShard":"acme~4r","device":"m2"}`))
	require.ErrorIs(t, err, store.ErrRejected)
}
