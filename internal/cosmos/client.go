// Package cosmos implements the contracts of internal/store and internal/control over Azure Cosmos DB
// for NoSQL. It is the only package that imports azcosmos.
//
// Every request goes through one function, which keeps it from physical partitions that have no budget left, waits when
// the service answers 429, counts what was charged, and turns the service's errors into ours. It knows how documents
// are addressed, but not what is in them. The documents are specified in docs/internals/format.
package cosmos

import (
	"cmp"
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
	"binnacle/internal/store"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"
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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
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
