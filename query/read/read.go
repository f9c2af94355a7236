// Package read reads everything that an answer is made of: first the rows that ingesters still hold in memory, then the
// stored chunks that may hold rows, found by the tenant's placement, or rollups in their place. It hands them on as
// pieces, still encoded, with what they cost and whether any are missing.
//
// It keeps rules R1 to R9 of docs/internals/protocol.md, and coordinates packages with a question each: heads (rows
// in memory, and chunks known to be stored), plan (keys that can hold rows), chunks, and rollups. It must not know
// what becomes of the pieces: package merge makes answers of them.
package read

import (
	"context"
	"log/slog"
	"time"

	"binnacle/internal/store"
	"binnacle/internal/stream/topics"
	"binnacle/query/read/chunks"
	"binnacle/query/read/heads"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
	"binnacle/query/read/plan"
	"binnacle/query/read/rollups"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Reader needs, with all limits above 0: query.Config has checked them.
type Config struct {
	Chunks    store.Reader
	Heads     store.Heads
	Log       store.Log // which partitions there are and how far they reach; nil: not known
	Directory plan.Directory
	Rollups   store.RollupReader // nil: there are none
	Topics    topics.Set         // with their tenants; none: no topic is bound to a tenant

	Fanout     int     // scans of one query at the same time
	Bytes      int64   // the most memory of one query
	TotalBytes int64   // the most memory of all queries together
	MaxRUs     float64 // the most request units of one query

	Room       *kept.Room    // keeps reads for later queries; nil for none
	RoomAge    time.Duration // after which it is read again, whatever is known of it
	Registerer prometheus.Registerer

	Now    func() time.Time
	Logger *slog.Logger
}

// Reader makes queries. It is safe for any number of callers and starts nothing that outlives a call. Between calls it
// remembers how far it has answered (rule R3), and keeps reads in a room (rules R7, R8).
type Reader struct {
	cfg     Config
	pool    *piece.Pool
	plan    plan.Config
	heads   *heads.Reader
	chunks  *chunks.Reader
	rollups *rollups.Reader
}

// New makes a Reader.
func New(c Config) *Reader {
	return &Reader{
		cfg: c, pool: piece.NewPool(c.TotalBytes),
		plan: plan.Config{Directory: c.Directory, Fanout: c.Fanout, Now: c.Now},
		heads: heads.New(heads.Config{Heads: c.Heads, Log: c.Log, Topics: c.Topics, Room: c.Room, RoomAge: c.RoomAge,
			Registerer: c.Registerer, Now: c.Now, Logger: c.Logger}),
		chunks: chunks.New(chunks.Config{Chunks: c.Chunks, Fanout: c.Fanout, Room: c.Room, RoomAge: c.RoomAge,
			Registerer: c.Registerer, Now: c.Now}),
		rollups: rollups.New(rollups.Config{Rollups: c.Rollups, Fanout: c.Fanout, Room: c.Room, Now: c.Now,
			Logger: c.Logger}),
	}
}

// Memory returns a counter of memory that a caller holds outside queries. It must be closed.
func (r *Reader) Memory(limit int64) *piece.Memory { return r.pool.Memory(limit) }

// Await waits until heads have read the records that the context asks for, if any (WithAfter).
func (r *Reader) Await(ctx context.Context, tenant string) error { return r.heads.Await(ctx, tenant) }

// Devices returns what heads hold of a tenant's devices. With an error some may be missing.
func (r *Reader) Devices(ctx context.Context, ask store.ListRequest) ([]store.HeadDevice, error) {
	return r.heads.Devices(ctx, ask)
}
