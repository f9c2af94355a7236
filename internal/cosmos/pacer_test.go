package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"binnacle/internal/cosmos"
	"binnacle/internal/lab/emulator"
	"binnacle/internal/store"
	"binnacle/sharding"
	"binnacle/sharding/epk"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// road is the way to an account: it counts what is asked for items.
type road struct {
	policy.Transporter
	latency time.Duration // of the service's clock

	mu    sync.Mutex
	items int // mu guards it
}

func (c *road) Do(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/docs") {
		return c.Transporter.Do(r)
	}
	c.mu.Lock()
	c.items++
	c.mu.Unlock()
	if c.latency > 0 {
		time.Sleep(c.latency)
	}
	return c.Transporter.Do(r)
}

// asked is how many requests for items there were since it was asked last.
func (c *road) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.items
	c.items = 0
	return n
}

// pacing is an account of several physical partitions with 400 RU/s each.
type pacing struct {
	t        *testing.T
	clock    *simulation
	server   *emulator.Server
	client   *cosmos.Client
	way      *road
	registry *prometheus.Registry
	n        int
	slept    func() // is called after a request has waited
}

func newPacing(t *testing.T, partitions int) *pacing {
	p := &pacing{t: t, clock: &simulation{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, way: &road{},
		registry: prometheus.NewRegistry()}
	p.server, p.client = openEmulator(t, emulator.Config{Now: p.clock.Now, PhysicalPartitions: partitions},
		func(c *cosmos.Config) {
			p.way.Transporter = c.Transport
			c.Transport, c.Sleep, c.Jitter = p.way, p.sleep, func() float64 { return 0 }
			c.Registerer = p.registry
		})
	require.NoError(t, p.client.Containers().Create(t.Context(), key.Container, store.Throughput{RUs: 400 * partitions}))
	return p
}

// impatient marks the context of a request that does not wait.
type impatient struct{}

func (p *pacing) sleep(ctx context.Context, d time.Duration) error {
	if ctx.Value(impatient{}) != nil {
		return context.DeadlineExceeded
	}
	err := p.clock.Sleep(ctx, d)
	if p.slept != nil {
		p.slept()
	}
	return err
}

// in is a key in a physical partition.
func (p *pacing) in(id string) sharding.Key {
	parts, err := p.server.Partitions(store.Database, key.Container)
	require.NoError(p.t, err)
	for _, part := range parts {
		for i := 0; part.ID == id; i++ {
			k := sharding.Key{Container: key.Container, TenantShard: fmt.Sprintf("acme~%d", i), Device: "m1"}
			if hash := epk.MultiHash(epk.String(k.TenantShard), epk.String(k.Device)); part.Min <= hash && hash < part.Max {
				return k
			}
		}
	}
	require.Fail(p.t, "there is no such partition", id)
	return key
}

func (p *pacing) create(k sharding.Key) error {
	p.n++
	doc := fmt.Sprintf(`{"id":"x%d","tenantShard":%q,"device":%q,"from":1,"to":2}`, p.n, k.TenantShard, k.Device)
	_, err := p.client.Chunks().Create(p.t.Context(), k, fmt.Sprintf("x%d", p.n), []byte(doc))
	return err
}

// exhaust writes until the service refuses.
func (p *pacing) exhaust(k sharding.Key) *store.BusyError {
	for {
		if err := p.create(k); err != nil {
			var busy *store.BusyError
			require.ErrorAs(p.t, err, &busy)
			return busy
		}
	}
}

func TestThrottledPartitionGetsNoRequests(t *testing.T) {
	p := newPacing(t, 4)
	hot := p.in("1")
	busy := p.exhaust(hot)
	p.way.asked()
	for range 20 {
		var held *store.BusyError
		require.ErrorAs(t, p.create(hot), &held)
		require.Equal(t, busy.RetryAfter, held.RetryAfter, "it says when to try again")
	}
	_, _, err := p.client.Chunks().Last(t.Context(), hot, store.Chain{Day: 20777, Stream: 1})
	require.ErrorIs(t, err, store.ErrBusy)
	require.Zero(t, p.way.asked(), "without asking")
	for _, id := range []string{"0", "2", "3"} {
		require.NoError(t, p.create(p.in(id)), "others go on")
	}
	require.NoError(t, p.clock.Sleep(t.Context(), busy.RetryAfter))
	require.NoError(t, p.create(hot))
	require.NoError(t, testutil.GatherAndCompare(p.registry, strings.NewReader(`
		# HELP binnacle_cosmos_range_held_total Requests that were held back because the physical partition wanted to be left alone.
		# TYPE binnacle_cosmos_range_held_total counter
		binnacle_cosmos_range_held_total{container="chunks-2026-11",range="1"} 21
		# HELP binnacle_cosmos_range_throttled_total Requests that a physical partition answered 429.
		# TYPE binnacle_cosmos_range_throttled_total counter
		binnacle_cosmos_range_throttled_total{container="chunks-2026-11",range="1"} 1
	`), "binnacle_cosmos_range_held_total", "binnacle_cosmos_range_throttled_total"))
}

// Reads of a query have nothing else to do: they wait for the partition, and ask once.
func TestScanWaitsForThrottledPartition(t *testing.T) {
	p := newPacing(t, 2)
	hot := p.in("1")
	busy := p.exhaust(hot)
	p.way.asked()
	began := p.clock.Now()
	_, err := p.client.Chunks().Scan(t.Context(), store.Scan{Key: hot}, func([]byte) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 1, p.way.asked())
	require.Equal(t, busy.RetryAfter, p.clock.Now().Sub(began))
	_, err = p.client.Chunks().Scan(t.Context(), store.Scan{Key: p.in("0")}, func([]byte) error { return nil })
	require.NoError(t, err)
	require.Equal(t, busy.RetryAfter, p.clock.Now().Sub(began), "the other one has budget")
}

// While a read that somebody waits for is held back, writes that come back by themselves don't use up what the
// partition has again, also if the read is of low priority.
func TestAwaitedReadsTakeTurnsWithWrites(t *testing.T) {
	p := newPacing(t, 1)
	hot := p.in("0")
	p.exhaust(hot)
	written := 0
	p.slept = func() {
		for range 5 {
			if p.create(hot) == nil {
				written++
			}
		}
	}
	scan := func(at cosmos.Priority) int {
		written = 0
		p.exhaust(hot)
		_, err := p.client.Chunks().At(at).Scan(t.Context(), store.Scan{Key: hot}, func([]byte) error { return nil })
		require.NoError(t, err)
		return written
	}
	passed := scan(cosmos.Priority{Low: true})
	require.Greater(t, passed, 4)
	require.Less(t, scan(cosmos.Priority{Low: true, Awaited: true}), 4)
	require.Less(t, scan(cosmos.Priority{Awaited: true}), 4)
	require.NoError(t, p.create(hot))
}

// After a split answers name other partitions: they are read again before one of them is left alone.
func TestSplitIsDetected(t *testing.T) {
	p := newPacing(t, 1)
	whole := p.in("0")
	busy := p.exhaust(whole)
	require.NoError(t, p.clock.Sleep(t.Context(), busy.RetryAfter+10*time.Second))
	require.NoError(t, p.server.Split(store.Database, key.Container, "0"))
	parts, err := p.server.Partitions(store.Database, key.Container)
	require.NoError(t, err)
	require.Len(t, parts, 2)
	one, other := p.in(parts[0].ID), p.in(parts[1].ID)
	p.exhaust(one)
	require.ErrorIs(t, p.create(one), store.ErrBusy)
	require.NoError(t, p.create(other), "what was one partition is two")
	p.exhaust(other)
	p.way.asked()
	require.ErrorIs(t, p.create(other), store.ErrBusy)
	require.Zero(t, p.way.asked())
}

// The account may say nothing of its partitions: then everybody asks for himself, as often as it takes.
func TestUnreadableRangesDisablePacing(t *testing.T) {
	s := &script{answers: []answer{throttled("1000"), created("5")}}
	c, _ := client(t, s, func(cfg *cosmos.Config) { cfg.Patience = 0 })
	_, err := c.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
	require.ErrorIs(t, err, store.ErrBusy)
	_, err = c.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
	require.NoError(t, err)
	require.Empty(t, s.answers)
}

// A hundred writers, five milliseconds from the account: of those who come again at the same instant nearly all would
// be refused, a hundred a second.
func TestFewRequestsAreThrottledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, seconds = 100, 20
		way := &road{latency: 5 * time.Millisecond}
		server, c := openEmulator(t, emulator.Config{PhysicalPartitions: 1}, func(c *cosmos.Config) {
			way.Transporter = c.Transport
			c.Transport, c.Jitter = way, func() float64 { return 0 }
		})
		require.NoError(t, c.Containers().Create(t.Context(), key.Container, small))
		ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		defer cancel()
		var work sync.WaitGroup
		for w := range writers {
			work.Go(func() {
				k := sharding.Key{Container: key.Container, TenantShard: fmt.Sprintf("acme~%d", w), Device: "m1"}
				for i := 0; ctx.Err() == nil; {
					doc := fmt.Sprintf(`{"id":"x%d","tenantShard":%q,"device":"m1","from":1,"to":2}`, i, k.TenantShard)
					_, err := c.Chunks().Create(ctx, k, fmt.Sprintf("x%d", i), []byte(doc))
					var busy *store.BusyError
					switch {
					case errors.As(err, &busy):
						time.Sleep(busy.RetryAfter)
					case err == nil:
						i++
					}
				}
			})
		}
		work.Wait()
		parts, err := server.Partitions(store.Database, key.Container)
		require.NoError(t, err)
		t.Logf("%.0f RU in %d s, %d served, %d refused", parts[0].RUs, seconds, parts[0].Requests, parts[0].Throttled)
		require.GreaterOrEqual(t, parts[0].RUs, 0.9*400*seconds)
		require.LessOrEqual(t, parts[0].Throttled, int64(writers+15*seconds))
	})
}

// Metrics tell of a bounded number of partitions: those that were used last.
func TestRangeMetricsAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := &script{}
	c, _ := client(t, s, func(cfg *cosmos.Config) { cfg.Registerer = registry })
	for i := range 1000 {
		a := created("5")
		a.headers["x-ms-documentdb-partitionkeyrangeid"] = fmt.Sprint(i)
		s.answers = append(s.answers, a)
		_, err := c.Chunks().Create(t.Context(), key, "x", []byte(`{}`))
		require.NoError(t, err)
	}
	for _, name := range []string{"binnacle_cosmos_range_requests_total", "binnacle_cosmos_range_request_units_total"} {
		n, err := testutil.GatherAndCount(registry, name)
		require.NoError(t, err)
		require.Equal(t, 256, n)
	}
}

// Charges are counted by tenant, for a bounded number of them.
func TestChargesByTenant(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := &script{}
	c, _ := client(t, s, func(cfg *cosmos.Config) { cfg.Registerer = registry })
	for i := range 300 {
		none := answer{status: 200, headers: map[string]string{"x-ms-request-charge": "2.5"}, body: `{"Documents":[]}`}
		s.answers = append(s.answers, created("5"), none)
		k := sharding.Key{Container: "chunks-2026-11", TenantShard: fmt.Sprintf("t%d~4r", i), Device: "m1"}
		_, err := c.Chunks().Create(t.Context(), k, "x", []byte(`{}`))
		require.NoError(t, err)
		k.Device = "" // the whole shard
		_, err = c.Chunks().Scan(t.Context(), store.Scan{Key: k}, func([]byte) error { return nil })
		require.NoError(t, err)
	}
	n, err := testutil.GatherAndCount(registry, "binnacle_cosmos_tenant_request_units_total")
	require.NoError(t, err)
	require.Equal(t, 2*256, n)
	families, err := registry.Gather()
	require.NoError(t, err)
	charged := map[string]float64{}
	for _, f := range families {
		if f.GetName() != "binnacle_cosmos_tenant_request_units_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[1].GetValue() == "t299" {
				charged[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"create": 5, "scan": 2.5}, charged)
}
