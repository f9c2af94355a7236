// Package query answers what readings a tenant has in a range. It is the door to two rooms: package read finds and reads
// everything that an answer is made of, package merge makes the answer of it, each series and instant once.
//
// What stands here is who may come in (gate), the questions and answers, and the lists of devices and metrics. How answers
// look on the wire is package httpapi's affair. It must not know Cosmos DB, Kafka or HTTP.
package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/query/read"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Config.
const (
	DefaultFanout           = 16
	DefaultMemoryBytes      = 256 << 20
	DefaultTotalMemoryBytes = 1 << 30
	DefaultMaxRUs           = 50_000
	DefaultMaxQueries       = 32
	DefaultMaxQueued        = 64
	DefaultQueueTimeout     = 30 * time.Second
)

// Config is what a Querier needs. Reader, Heads, Directory and Catalog have no default.
type Config struct {
	Reader    store.Reader
	Heads     store.Heads
	Log       store.Log // tells which partitions there are and how far they reach; nil: not known
	Directory read.Directory
	Catalog   control.Catalog

	Fanout           int     // scans of one query at the same time, DefaultFanout
	MemoryBytes      int64   // what one query may hold, DefaultMemoryBytes
	TotalMemoryBytes int64   // what all queries together may hold, DefaultTotalMemoryBytes, at least MemoryBytes
	MaxRUs           float64 // what one query may cost, request units, DefaultMaxRUs

	MaxQueries   int           // that run at the same time, DefaultMaxQueries; of one tenant half of it, rounded up
	MaxQueued    int           // that wait for their turn, of each tenant, DefaultMaxQueued
	QueueTimeout time.Duration // how long they wait, DefaultQueueTimeout

	Now        func() time.Time      // time.Now
	Registerer prometheus.Registerer // none
	Logger     *slog.Logger          // none
}

func (c Config) withDefaults() Config {
	if c.Fanout == 0 {
		c.Fanout = DefaultFanout
	}
	if c.MemoryBytes == 0 {
		c.MemoryBytes = DefaultMemoryBytes
	}
	if c.TotalMemoryBytes == 0 {
		c.TotalMemoryBytes = max(DefaultTotalMemoryBytes, c.MemoryBytes)
	}
	if c.MaxRUs == 0 {
		c.MaxRUs = DefaultMaxRUs
	}
	if c.MaxQueries == 0 {
		c.MaxQueries = DefaultMaxQueries
	}
	if c.MaxQueued == 0 {
		c.MaxQueued = DefaultMaxQueued
	}
	if c.QueueTimeout == 0 {
		c.QueueTimeout = DefaultQueueTimeout
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Catalog == nil {
		errs = append(errs, errors.New("query: Catalog is missing"))
	}
	for name, n := range map[string]int64{
		"MaxQueries": int64(c.MaxQueries), "MaxQueued": int64(c.MaxQueued), "QueueTimeout": int64(c.QueueTimeout),
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("query: %s is negative", name))
		}
	}
	return errors.Join(errs...)
}

// Querier answers queries. It is safe for any number of callers and starts nothing that outlives a call.
type Querier struct {
	cfg     Config
	reader  *read.Reader
	gate    *gate
	metrics *metrics
}

// New makes a Querier. Its error tells all that is wrong with the configuration.
func New(cfg Config) (*Querier, error) {
	cfg = cfg.withDefaults()
	reader, err := read.New(read.Config{
		Chunks: cfg.Reader, Heads: cfg.Heads, Log: cfg.Log, Directory: cfg.Directory,
		Fanout: cfg.Fanout, Bytes: cfg.MemoryBytes, TotalBytes: cfg.TotalMemoryBytes, MaxRUs: cfg.MaxRUs,
		Now: cfg.Now, Logger: cfg.Logger,
	})
	if err := errors.Join(cfg.validate(), err); err != nil {
		return nil, err
	}
	return &Querier{
		cfg: cfg, reader: reader, gate: newGate(cfg.MaxQueries, cfg.MaxQueued, cfg.QueueTimeout), metrics: newMetrics(cfg.Registerer),
	}, nil
}

// observed runs a query of a kind when its turn has come, and counts it.
func (q *Querier) observed(ctx context.Context, kind, tenant string, run func() error) (err error) {
	started := q.cfg.Now()
	defer func() { q.metrics.observe(kind, q.cfg.Now().Sub(started), err) }()
	leave, err := q.gate.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	return run()
}
