// Package cosmos implements the contracts of internal/store and internal/control over Azure Cosmos DB
// for NoSQL. It is the only package that imports azcosmos.
//
// Every request goes through one function, which keeps it from physical partitions that have no budget left, waits when
// the service answers 429, counts what was charged, and turns the service's errors into ours. It knows how documents
// are addressed, but not what is in them. The documents are specified in docs/internals/format.
package cosmos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"binnacle/internal/charges"
	"binnacle/internal/heat"
	"binnacle/internal/retry"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/internal/text/recent"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Config is what a Client needs. Endpoint and Credential have no default.
type Config struct {
	Endpoint   string // the account's, such as https://acme.documents.azure.com:443/
	Credential Credential

	// Regions are the account's regions to read from, the nearest first; none: the write region.
	Regions []string

	Transport  policy.Transporter    // the SDK's own HTTP client
	Now        func() time.Time      // time.Now
	Logger     *slog.Logger          // none
	Registerer prometheus.Registerer // registers the metrics; none

	// Heat counts what answers cost, by any goroutine; it must not block. Default: none.
	Heat interface{ Count(c heat.Charge) }

	// Charges counts what every answer cost, by any goroutine; it must not block. Default: none.
	Charges interface {
		Count(now time.Time, c charges.Charge)
	}

	// Closing is called when the client is about to be closed, and may still use it. Default: nothing is.
	Closing func(c *Client)

	// Patience is how long a write of a chunk, or a read on its way, waits for a physical partition without budget
	// before it comes back as busy. 0 is right for a caller that writes to many partitions: one of them must not hold
	// up the others.
	Patience time.Duration
	// Sleep waits out a 429; it fails when ctx ends first. A simulated clock puts its own here. Default: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// Jitter is a number in [0, 1) that spreads the waits of requests that were throttled together. Default: random.
	Jitter func() float64
	// Serverless says that the account is serverless, until it is known better.
	Serverless bool
}

// Client talks to one account. It is safe for any number of callers.
type Client struct {
	cfg     Config
	metrics *metrics
	ring    *keyRing
	pacer   *pacer
	tenants *tenantSeries
	clock   *store.Clock
	wrong   atomic.Bool // it is logged that the machine's clock is

	az        atomic.Pointer[connection]
	connected atomic.Bool // the SDK has learnt the account's endpoints
	renewing  sync.Mutex  // held while az is exchanged
	// isServerless is what the last look at a container's throughput has shown.
	isServerless atomic.Bool
}

// New makes a client. It sends nothing.
func New(cfg Config) (*Client, error) {
	if cfg.Endpoint == "" {
		return nil, errors.New("cosmos: the endpoint must be set")
	}
	if err := cfg.Credential.check(); err != nil {
		return nil, err
	}
	settings.Defaults(&cfg)
	if cfg.Sleep == nil {
		cfg.Sleep = retry.Pause
	}
	if cfg.Jitter == nil {
		cfg.Jitter = rand.Float64
	}
	keys, err := newRing(cfg.Credential, cfg.Now)
	if err != nil {
		return nil, fmt.Errorf("cosmos: %w", err)
	}
	c := &Client{cfg: cfg, metrics: newMetrics(cfg.Registerer), ring: keys, tenants: newTenantSeries(cfg.Registerer),
		clock: store.NewClock(cfg.Now)}
	c.metrics.follow(c.clock)
	c.pacer = &pacer{
		read: c.readRanges, now: cfg.Now, log: cfg.Logger, series: newRangeSeries(cfg.Registerer),
		containers: map[string]*gates{},
	}
	az, err := c.dial()
	if err != nil {
		return nil, err
	}
	c.az.Store(az)
	c.isServerless.Store(cfg.Serverless)
	return c, nil
}

// Clock returns the clock of the account, as its answers tell it.
func (c *Client) Clock() *store.Clock { return c.clock }

// Close gives up what the SDK shares between clients of one account. The client is not used afterwards.
func (c *Client) Close() {
	if c.cfg.Closing != nil {
		c.cfg.Closing(c)
	}
	c.az.Load().Close()
}

// Chunks returns the store of chunks.
func (c *Client) Chunks() *Chunks { return &Chunks{c: c} }

// Rollups returns the store of rollups and their manifests.
func (c *Client) Rollups() store.RollupWriter { return &rollups{c} }

// Documents returns the control documents.
func (c *Client) Documents() store.Documents { return controlDocuments(c) }

func controlDocuments(c *Client) *documents {
	return &documents{c, store.ControlContainer, "kind", false}
}

// TenantDocuments returns documents that tenants write. They are in the container heat, since neither queries nor
// ingesters wait for its throughput, and requests for them have a low priority.
func (c *Client) TenantDocuments() store.Documents {
	return &documents{c, store.HeatContainer, "key", true}
}

// Catalog returns the catalog of devices.
func (c *Client) Catalog() store.Catalog { return c.CatalogAt(Priority{}) }

// Endpoint returns the address of the account, as it was given.
func (c *Client) Endpoint() string { return c.cfg.Endpoint }

// CatalogAt returns the same, asked at a priority.
func (c *Client) CatalogAt(p Priority) store.Catalog { return &catalogPages{c, p.Low} }

// Containers manages the containers of the database.
func (c *Client) Containers() *Containers { return &Containers{c} }

// Items returns one container, for loads that bring their own layout.
func (c *Client) Items(container string) *Items { return &Items{c, container} }

// connection is a client of the SDK, and the account key that it signs with, if it does.
type connection struct {
	*azcosmos.Client
	key string

	begin  sync.Once
	known  chan struct{} // closed when the SDK has read the account's endpoints, or could not
	broken error         // why it could not; set before known is closed
}

// connect waits until the SDK has read the account's endpoints. The SDK does that with the first request, for up to a
// minute whatever the request's context says; connect returns when its own context ends.
func (az *connection) connect(ctx context.Context) error {
	az.begin.Do(func() {
		go func() {
			defer close(az.known)
			ended, cancel := context.WithCancel(context.Background())
			cancel() // with this context only the read of the account is sent
			database, err := az.NewDatabase(store.Database)
			if err == nil {
				_, err = database.Read(ended, nil)
			}
			if !errors.Is(err, context.Canceled) {
				az.broken = err
			}
		}()
	})
	select {
	case <-az.known:
		return az.broken
	case <-ctx.Done():
		return ctx.Err()
	}
}

// dial makes the SDK's client. Its own retries of 429 are off, which would hide what was throttled: do tries again.
func (c *Client) dial() (*connection, error) {
	key := c.ring.key()
	az, err := c.cfg.Credential.connect(c.cfg.Endpoint, key, &azcosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{
			Transport: c.cfg.Transport,
			Retry:     policy.RetryOptions{MaxRetries: -1},
			Telemetry: policy.TelemetryOptions{ApplicationID: "binnacle"},

			PerRetryPolicies: []policy.Policy{takePages{}, countCharges{c}, readClock{c}},
		},
		PreferredRegions: c.cfg.Regions,
	})
	if err != nil {
		return nil, fmt.Errorf("cosmos: client for %s: %w", c.cfg.Endpoint, err)
	}
	return &connection{Client: az, key: key, known: make(chan struct{})}, nil
}

// renew exchanges an SDK client that has not reached the account: it would remember its failure for five minutes.
func (c *Client) renew(failed *connection) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if c.az.Load() != failed || c.connected.Load() {
		return
	}
	az, err := c.dial()
	if err != nil {
		c.cfg.Logger.Warn("cannot renew the cosmos client", "error", err) // it was made from the same settings before
		return
	}
	c.az.Store(az)
	failed.Close()
}

// rekey changes to another account key where the service refuses the one of a connection. It reports whether the
// client has another key now.
func (c *Client) rekey(refused *connection) bool {
	another, err := c.ring.refuse(refused.key)
	if err != nil {
		c.cfg.Logger.Warn("cannot read the account keys again", "error", err)
	}
	if !another {
		return false
	}
	c.renewing.Lock()
	defer c.renewing.Unlock()
	if c.az.Load() != refused {
		return true // another goroutine was first
	}
	az, err := c.dial()
	if err != nil {
		c.cfg.Logger.Error("the next account key can't be used", "error", err)
		return false
	}
	c.cfg.Logger.Info("the account refuses the key in use: using the next one")
	c.az.Store(az)
	return true
}

func (c *Client) container(az *azcosmos.Client, id string) (*azcosmos.ContainerClient, error) {
	return az.NewContainer(store.Database, id)
}

type metrics struct {
	factory   promauto.Factory
	rus       *prometheus.CounterVec
	throttled *prometheus.CounterVec
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
}

// newMetrics registers with r; with nil the metrics are counted and shown nowhere.
func newMetrics(r prometheus.Registerer) *metrics {
	f := promauto.With(r)
	return &metrics{
		factory: f,
		rus: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_request_units_total",
			Help: "Request units that Cosmos DB charged.",
		}, []string{"operation", "container"}),
		throttled: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_throttled_total",
			Help: "Requests that Cosmos DB answered 429.",
		}, []string{"operation"}),
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "binnacle_cosmos_requests_total",
			Help: "Requests sent to Cosmos DB, by HTTP status; ok for success, error without an answer.",
		}, []string{"operation", "result"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "binnacle_cosmos_request_seconds",
			Help:    "Time that one request to Cosmos DB took, waits after a 429 not included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"operation"}),
	}
}

// follow shows how far the service's clock is from the machine's.
func (m *metrics) follow(c *store.Clock) {
	m.factory.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "binnacle_cosmos_clock_offset_seconds",
		Help: "Seconds by which the clock of Cosmos DB is ahead of this machine's; 0 where this one may be right.",
	}, func() float64 { return c.Offset().Seconds() })
}

func (m *metrics) request(to call, result string, charge float64, took time.Duration) {
	m.requests.WithLabelValues(to.operation, result).Inc()
	m.rus.WithLabelValues(to.operation, to.container).Add(charge)
	m.seconds.WithLabelValues(to.operation).Observe(took.Seconds())
	if result == "429" {
		m.throttled.WithLabelValues(to.operation).Inc()
	}
}

// maxSeries bounds the physical partitions, and the tenants, that metrics tell of: beyond it the one that was met least
// recently is left out, until it is met again.
const maxSeries = 256

// unknownRange replaces the id of a physical partition until an answer has it.
const unknownRange = "unknown"

// rangeSeries are the metrics of physical partitions.
type rangeSeries struct {
	requests, rus, throttled, held *prometheus.CounterVec
	waiting                        *prometheus.GaugeVec
	recent                         recent.Names[rangeName]
}

// rangeName names a physical partition; its fields are the labels of the metrics.
type rangeName struct{ container, id string }

func newRangeSeries(r prometheus.Registerer) *rangeSeries {
	f := promauto.With(r)
	labels := []string{"container", "range"}
	counter := func(name, help string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &rangeSeries{
		recent: recent.Names[rangeName]{Most: maxSeries},
		requests: counter("binnacle_cosmos_range_requests_total",
			"Requests that a physical partition has answered, by its id."),
		rus: counter("binnacle_cosmos_range_request_units_total",
			"Request units that were charged by a physical partition."),
		throttled: counter("binnacle_cosmos_range_throttled_total",
			"Requests that a physical partition answered 429."),
		held: counter("binnacle_cosmos_range_held_total",
			"Requests that were held back because the physical partition wanted to be left alone."),
		waiting: f.NewGaugeVec(prometheus.GaugeOpts{Name: "binnacle_cosmos_range_waiting",
			Help: "Requests that wait in this process for a physical partition; writes of ingest wait in its bins instead."},
			labels),
	}
}

func (s *rangeSeries) countAnswer(n rangeName, rus float64, throttled bool) {
	s.count(n, func(n rangeName) {
		s.requests.WithLabelValues(n.container, n.id).Inc()
		s.rus.WithLabelValues(n.container, n.id).Add(rus)
		if throttled {
			s.throttled.WithLabelValues(n.container, n.id).Inc()
		}
	})
}

func (s *rangeSeries) countHeld(n rangeName) {
	s.count(n, func(n rangeName) { s.held.WithLabelValues(n.container, n.id).Inc() })
}

// addWaiting counts a request that waits, or, with a negative number, waits no more.
func (s *rangeSeries) addWaiting(n rangeName, more float64) {
	s.count(n, func(n rangeName) { s.waiting.WithLabelValues(n.container, n.id).Add(more) })
}

func (s *rangeSeries) count(n rangeName, count func(n rangeName)) {
	if n.id == "" {
		n.id = unknownRange
	}
	s.recent.Use(n, count, func(n rangeName) {
		for _, c := range []*prometheus.CounterVec{s.requests, s.rus, s.throttled, s.held} {
			c.DeleteLabelValues(n.container, n.id)
		}
		s.waiting.DeleteLabelValues(n.container, n.id)
	})
}

// tenantSeries are the metrics of tenants: the charges for each.
type tenantSeries struct {
	rus    *prometheus.CounterVec
	recent recent.Names[string]
}

func newTenantSeries(r prometheus.Registerer) *tenantSeries {
	rus := promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "binnacle_cosmos_tenant_request_units_total",
		Help: "Request units charged for requests that are about one tenant.",
	}, []string{"tenant", "operation"})
	return &tenantSeries{recent: recent.Names[string]{Most: maxSeries}, rus: rus}
}

func (s *tenantSeries) count(tenant, operation string, rus float64) {
	s.recent.Use(tenant,
		func(tenant string) { s.rus.WithLabelValues(tenant, operation).Add(rus) },
		func(tenant string) { s.rus.DeletePartialMatch(prometheus.Labels{"tenant": tenant}) })
}
