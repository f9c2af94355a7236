package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Sizes of the storage engine: they bound its memory, whatever is stored.
const (
	cacheBytes    = 32 << 20
	memTableBytes = 8 << 20
)

// store is the storage engine: Pebble, and the rule for when a write is acknowledged.
type store struct {
	db       *pebble.DB
	lock     *pebble.Lock
	logged   bool // there is a write-ahead log
	inFlight atomic.Int64
	end      *ending
}

// openStore opens the data directory. A directory that another process or Server holds is an error
// that names it.
func openStore(cfg Config) (st *store, err error) {
	dir := cfg.DataDir
	if cfg.InMemory {
		dir = "mem"
	} else {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("data directory %s: %w", dir, err)
		}
		dir = abs
	}
	st = &store{logged: !cfg.InMemory, end: newEnding(dir, cfg.Fatal)}
	opts := pebbleOptions(cfg, st.end)
	defer opts.Cache.Unref()
	if err := opts.FS.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", dir, err)
	}
	lock, err := pebble.LockDirectory(dir, opts.FS)
	if err != nil {
		return nil, fmt.Errorf("data directory %s is in use or cannot be locked: %w", dir, err)
	}
	opts.Lock = lock
	st.lock = lock
	if st.db, err = st.end.open(func() (*pebble.DB, error) { return pebble.Open(dir, opts) }); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, cmp.Or(err, lock.Close()))
	}
	return st, nil
}

func pebbleOptions(cfg Config, end *ending) *pebble.Options {
	opts := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		Cache:                       pebble.NewCache(cacheBytes),
		FlushDelayDeleteRange:       10 * time.Second, // so that a dropped container frees its space
		DisableWAL:                  cfg.InMemory,
		Logger:                      engineLog{cfg.Logger, end},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if cfg.InMemory {
		opts.FS = vfs.NewMem()
		return opts
	}
	opts.FS = cfg.FS
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	opts.FS = watch(opts.FS, end)
	if !cfg.Sync {
		opts.FS = pageCacheFS(opts.FS)
	}
	return opts
}

func (st *store) close() error {
	return cmp.Or(st.db.Close(), st.lock.Close())
}

// apply makes a batch visible. It is durable only when wait, which must follow, has returned; so that
// a lock held around apply need not be held meanwhile.
func (st *store) apply(b *pebble.Batch) error {
	if !st.logged {
		return st.db.Apply(b, pebble.NoSync)
	}
	defer st.end.onPanic()
	st.inFlight.Add(1)
	err := st.db.ApplyNoSyncWait(b, pebble.Sync)
	if err != nil {
		st.inFlight.Add(-1)
	}
	return err
}

// wait returns when an applied batch is durable, and releases it.
func (st *store) wait(b *pebble.Batch) error {
	if st.logged {
		if err := b.SyncWait(); err != nil {
			st.end.now(err) // it is visible already, and a crash would take it back
		}
		st.inFlight.Add(-1)
	}
	return b.Close()
}

// commit applies a batch and waits for it.
func (st *store) commit(b *pebble.Batch) error {
	if err := st.apply(b); err != nil {
		return err
	}
	return st.wait(b)
}

// settle returns when everything that is visible now is durable. Pebble shows a write before it is
// logged; an answer that rests on what was read must not be undone by a crash, so every such answer
// settles first. It costs nothing while no write is in flight.
func (st *store) settle() error {
	if !st.logged || st.inFlight.Load() == 0 {
		return nil
	}
	return st.db.LogData(nil, pebble.Sync)
}

// engineLog hands Pebble's messages to slog: routine ones as debug lines.
type engineLog struct {
	log *slog.Logger
	end *ending
}

// Infof implements pebble.Logger.
func (l engineLog) Infof(format string, args ...any) {
	l.log.Debug("storage engine", "message", fmt.Sprintf(format, args...))
}

// Errorf implements pebble.Logger.
func (l engineLog) Errorf(format string, args ...any) {
	l.log.Error("storage engine", "message", fmt.Sprintf(format, args...))
}

// Fatalf ends the process. Pebble calls it when going on would lose data, and requires that it does not return.
func (l engineLog) Fatalf(format string, args ...any) {
	l.end.now(fmt.Errorf("storage engine: "+format, args...))
}
