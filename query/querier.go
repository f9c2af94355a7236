// Package query answers what readings a tenant has in a range. It is the door to two rooms: package read finds and
// reads everything that an answer is made of, package merge makes the answer of it, each series and instant once.
//
// What stands here is who may come in (gate), the questions and answers, and the lists of devices and metrics. How
// answers look on the wire is package httpapi's affair. It must not know Cosmos DB, Kafka or HTTP.
package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/settings"
	"binnacle/internal/store"
	"binnacle/query/read"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Querier needs. Reader, Heads, Directory and Catalog have no default. Its tags are package
// settings's.
type Config struct {
	Reader    store.Reader    `kong:"-"`
	Heads     store.Heads     `kong:"-"`
	Log       store.Log       `kong:"-"` // tells which partitions there are and how far they reach; nil: not known
	Directory read.Directory  `kong:"-"`
	Catalog   control.Catalog `kong:"-"`

	Fanout           int     `name:"query-fanout" help:"Scans of one query at the same time." default:"16"`
	MemoryBytes      int64   `name:"query-memory-mb" help:"What one query may hold, in MiB." type:"mib" default:"256"`
	TotalMemoryBytes int64   `name:"queries-memory-mb" help:"What all queries together may hold, in MiB." type:"mib" default:"1024"`
	MaxRUs           float64 `name:"query-max-rus" help:"Request units that one query may cost." default:"50000"`

	// MaxQueries is also what bounds one tenant: to half of it, rounded up.
	MaxQueries   int           `help:"Queries that run at the same time; of one tenant half of them." default:"32"`
	MaxQueued    int           `help:"Queries that wait for their turn, of each tenant." default:"64"`
	QueueTimeout time.Duration `help:"How long a query waits for its turn." default:"30s"`

	Now        func() time.Time      `kong:"-"` // time.Now
	Registerer prometheus.Registerer `kong:"-"` // none
	Logger     *slog.Logger          `kong:"-"` // none
}

func (c Config) withDefaults() Config {
	total := c.TotalMemoryBytes
	settings.Defaults(&c)
	if total == 0 {
		c.TotalMemoryBytes = max(c.TotalMemoryBytes, c.MemoryBytes)
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
		cfg: cfg, reader: reader, gate: newGate(cfg.MaxQueries, cfg.MaxQueued, cfg.QueueTimeout),
		metrics: newMetrics(cfg.Registerer),
	}, nil
}

// observed runs a query of a kind when its turn has come, and counts it.
func (q *Querier) observed(ctx context.Context, kind, tenant string, run func() error) (err error) {
	started := q.cfg.Now()
	defer func() { q.metrics.observe(kind, q.cfg.Now().Sub(started), err) }()
	if ctx.Value(turn{}) == tenant {
		return run()
	}
	leave, err := q.gate.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	return run()
}

// turn is the key of the tenant whose turn it is, in a context.
type turn struct{}

// Admit runs a query of a tenant when its turn has come. What run asks of the Querier for that tenant, with the context
// that it gets, is part of the one query and waits for no turn of its own. Errors are ErrBusy, the context's and those
// of run.
func (q *Querier) Admit(ctx context.Context, tenant string, run func(context.Context) error) error {
	leave, err := q.gate.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer leave()
	return run(context.WithValue(ctx, turn{}, tenant))
}

// Memory counts what an answer holds back, up to a limit, as a part of what all queries may hold together. It must be
// closed.
func (q *Querier) Memory(limit int64) *Memory { return q.reader.Memory(limit) }
