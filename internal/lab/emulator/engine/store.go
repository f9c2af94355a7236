// Package engine is what one emulated account holds and does: databases, containers, their physical partitions and
// items. An Account has the containers; a Container writes, reads and queries its items, places them by effective
// partition key, and charges every operation to the budget of its physical partition. Time is an
// argument. A request that cannot be served is a *refusal.Error.
//
// It must not know of HTTP: no header, path, signature or gateway. How it keeps data is in keys.go and
// docs/reference/emulator.md.
package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"binnacle/internal/charges/ru"
	"binnacle/internal/lab/emulator/budget"
	"binnacle/internal/lab/emulator/kv"
)

// openStore opens the data directory. A directory that another process or Server holds is an error
// that names it.
func openStore(cfg Config) (*kv.Store, error) {
	if cfg.InMemory {
		return kv.Open(kv.Options{})
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", cfg.DataDir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", dir, err)
	}
	fatal := func(err error) {
		cfg.Fatal(fmt.Errorf("data directory %s cannot be written: %w; what was acknowledged is stored: start again when it "+
			"can be", dir, err))
	}
	st, err := kv.Open(kv.Options{Dir: dir, Sync: cfg.Sync, Fatal: fatal, Write: cfg.Write})
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, err)
	}
	return st, nil
}

// Config says how an account keeps its data and what it models. All of it must be set, but for Write.
type Config struct {
	DataDir  string // not used in memory
	InMemory bool   // no log, nothing outlives Close
	Sync     bool   // an acknowledged write survives a power failure
	// PhysicalPartitions is the number of physical partitions in every new container; 0: the throughput
	// decides.
	PhysicalPartitions int
	Serverless         bool // the mode of a new account
	Rules              budget.Rules
	Limits             Limits
	SplitTakes         time.Duration
	Model              ru.Model
	Logger             *slog.Logger

	// Fatal ends the process: the data directory cannot be written any more. Nothing is acknowledged after it was called.
	Fatal func(error)

	// Write replaces File.Write in the data directory: tests fill a disk with it.
	Write func(*os.File, []byte) (int, error)
}

// Limits are the service's bounds. The zero value of a field selects the service's own bound; a test may lower
// it. All are from the Azure Cosmos DB docs, concepts-limits, of September 2025.
type Limits struct {
	// ResponseBytes is where a page of a query ends. Default 4 MB. A single item may exceed it.
	ResponseBytes int `kong:"-"`
	// LogicalPartitionBytes is the most that items of one full partition key hold together, counted
	// as their minified JSON. Default 20 GB. Writes that would grow it further get 403/1014.
	LogicalPartitionBytes int64 `kong:"-"`
	// PhysicalPartitionBytes is the most that a physical partition holds before it is split, counted in
	// the same way. Default 50 GB. One that cannot be split, since all is of one partition key, refuses
	// writes beyond it with 403/1014.
	PhysicalPartitionBytes int64 `name:"partition-bytes" help:"Size from which on a physical partition is split, in bytes. Default: 50 GB."`
	// Containers is the most databases and containers of the account together. Default 500. Another
	// one gets 403.
	Containers int `kong:"-"`
	// SharedContainers is the most containers that share the throughput of one database. Default 25.
	// Another one gets 403/1019.
	SharedContainers int `kong:"-"`
	// RetryAfter is the longest time after which a 429 asks a client to try again. Default 500 ms: the service was
	// recorded with 286 to 500 ms. A debt may last longer; then the client is refused again.
	RetryAfter time.Duration `kong:"-"`
	// MetadataRUs is the budget of metadata requests for the account, in RU/s. Default 240. Beyond it
	// they get 429/3210.
	MetadataRUs float64 `kong:"-"`
}

// WithDefaults returns the limits with the service's own where none is set.
func (l Limits) WithDefaults() Limits {
	l.ResponseBytes = cmp.Or(max(l.ResponseBytes, 0), 4<<20)
	l.LogicalPartitionBytes = cmp.Or(max(l.LogicalPartitionBytes, 0), 20<<30)
	l.PhysicalPartitionBytes = cmp.Or(max(l.PhysicalPartitionBytes, 0), ru.PartitionGB<<30)
	l.Containers = cmp.Or(max(l.Containers, 0), 500)
	l.SharedContainers = cmp.Or(max(l.SharedContainers, 0), 25)
	l.RetryAfter = cmp.Or(max(l.RetryAfter, 0), 500*time.Millisecond)
	l.MetadataRUs = cmp.Or(max(l.MetadataRUs, 0), 240)
	return l
}
