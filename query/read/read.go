// Package read reads everything that an answer is made of: first the rows that ingesters still hold in memory (heads),
// then the stored chunks that may hold rows, found by the tenant's placement. It hands them on as pieces, still
// encoded, with what they cost and whether any are missing.
//
// It keeps rules R1 to R4 of docs/internals/protocol.md. Only this package asks heads or the store, through the
// contracts of packages store and control. It must not know what becomes of the pieces: package merge makes answers of
// them.
package read

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"binnacle/internal/control"
	"binnacle/internal/store"
	"binnacle/internal/stream/topics"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Directory keeps the snapshot of tenants, placements and containers, as control.Directory does.
type Directory interface {
	// Snapshot returns the newest snapshot, never nil.
	Snapshot() *control.Snapshot
	// Refresh reads the snapshot again; what was stored before the call is in it.
	Refresh(ctx context.Context) (*control.Snapshot, error)
}

// Config is what a Reader needs, with all limits above 0: query.Config has checked them.
type Config struct {
	Chunks    store.Reader
	Heads     store.Heads
	Log       store.Log // which partitions there are and how far they reach; nil: not known
	Directory Directory
	Rollups   store.RollupReader // nil: there are none
	Topics    topics.Set         // with their tenants; none: no topic is bound to a tenant

	Fanout     int     // scans of one query at the same time
	Bytes      int64   // of memory that one query may hold
	TotalBytes int64   // that all queries may hold together
	MaxRUs     float64 // that one query may be charged

	CacheBytes int64         // of chunks that were read before, 0 or below for none
	CacheAge   time.Duration // after which they are read again, whatever is known of them
	Registerer prometheus.Registerer

	Now    func() time.Time
	Logger *slog.Logger
}

// Reader makes queries. It is safe for any number of callers and starts nothing that outlives a call. Between calls it
// remembers how far it has answered (rule R3), which containers had chunks, and within a bound the chunks.
type Reader struct {
	cfg            Config
	progress       *progress
	pool           *pool
	cache          *cache // nil for none
	history        *scanHistory
	containersSeen sync.Map       // names of containers in which documents were found
	headErrors     rate.Sometimes // limits the log: every query finds out
}

// headErrorsEvery is how often the log says that heads do not answer.
const headErrorsEvery = 10 * time.Second

// New makes a Reader.
func New(cfg Config) *Reader {
	return &Reader{
		cfg: cfg, progress: newProgress(), pool: &pool{limit: cfg.TotalBytes}, cache: newCache(cfg),
		history: newScanHistory(), headErrors: rate.Sometimes{Interval: headErrorsEvery},
	}
}

// Await waits until heads have read the records that the context asks for, if any (WithAfter).
func (r *Reader) Await(ctx context.Context, tenant string) error {
	ends := afterOf(ctx)
	if len(ends) == 0 {
		return nil
	}
	if err := r.checkPartitions(ctx, tenant, ends); err != nil {
		return err
	}
	bounded, cancel := waiting(ctx)
	defer cancel()
	if late := r.awaitPositions(bounded, tenant, ends); late != nil && ctx.Err() == nil {
		return &NotYetError{late}
	}
	return ctx.Err()
}

// Devices returns what heads hold of a tenant's devices. Heads that do not answer are no error: their devices are
// missing.
func (r *Reader) Devices(ctx context.Context, ask store.ListRequest) ([]store.HeadDevice, error) {
	held, err := r.cfg.Heads.Devices(ctx, ask)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		r.headErrors.Do(func() { r.cfg.Logger.Warn("devices of heads not read", "error", err) })
	}
	return held, nil
}
