// Package query answers which readings a tenant has in a range: it takes the rows that ingesters still hold in
// memory (heads), plans which keys of which containers can hold the stored ones, reads their chunks, and merges all of
// it into rows in one order, each series and instant once.
//
// The rules that it keeps are R1 to R5 of docs/protocol.md. It reads through the contracts of packages store and
// control and must not know Cosmos DB, Kafka or HTTP. How answers look on the wire is package httpapi's affair.
package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults of Config.
const (
	DefaultFanout      = 16
	DefaultMemoryBytes = 256 << 20
)

// Directory is the map of tenants, placements and containers, as control.Directory keeps it.
type Directory interface {
	// View is the newest copy, never nil.
	View() *control.View
	// Refresh reads the map again; what was stored before the call is in the answer.
	Refresh(ctx context.Context) (*control.View, error)
}

// Config is what a Querier needs. Reader, Heads, Directory and Catalog have no default.
type Config struct {
	Reader    store.Reader
	Heads     store.Heads
	Log       store.Log // tells which partitions there are and how far they reach; nil: not known
	Directory Directory
	Catalog   control.Catalog

	Now         func() time.Time      // time.Now
	Fanout      int                   // scans of one query at the same time, DefaultFanout
	MemoryBytes int64                 // what one query may hold, DefaultMemoryBytes
	Registerer  prometheus.Registerer // none
	Logger      *slog.Logger          // none
}

// Validate tells all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	for name, missing := range map[string]bool{
		"Reader": c.Reader == nil, "Heads": c.Heads == nil, "Directory": c.Directory == nil, "Catalog": c.Catalog == nil,
	} {
		if missing {
			errs = append(errs, fmt.Errorf("query: %s is missing", name))
		}
	}
	if c.Fanout < 0 {
		errs = append(errs, fmt.Errorf("query: Fanout %d is negative", c.Fanout))
	}
	if c.MemoryBytes < 0 {
		errs = append(errs, fmt.Errorf("query: MemoryBytes %d is negative", c.MemoryBytes))
	}
	return errors.Join(errs...)
}

// Querier answers queries. It is safe for any number of callers, starts nothing that outlives a call, and remembers
// between calls only how far it has answered (rule R3).
type Querier struct {
	cfg      Config
	metrics  *metrics
	progress *progress
	strangers
}

// New makes a Querier.
func New(cfg Config) (*Querier, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Fanout == 0 {
		cfg.Fanout = DefaultFanout
	}
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = DefaultMemoryBytes
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Querier{cfg: cfg, metrics: newMetrics(cfg.Registerer), progress: newProgress(), strangers: newStrangers()}, nil
}
