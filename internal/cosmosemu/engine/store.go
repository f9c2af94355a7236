package engine

import (
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
}

// openStore opens the data directory. A directory that another process or Server holds is an error
// that names it.
func openStore(cfg Config) (*store, error) {
	st := &store{logged: !cfg.InMemory}
	opts := pebbleOptions(cfg)
	defer opts.Cache.Unref()
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
	if err := opts.FS.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory %s: %w", dir, err)
	}
	lock, err := pebble.LockDirectory(dir, opts.FS)
	if err != nil {
		return nil, fmt.Errorf("data directory %s is in use or cannot be locked: %w", dir, err)
	}
	opts.Lock = lock
	st.lock = lock
	if st.db, err = pebble.Open(dir, opts); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", dir, firstOf(err, lock.Close()))
	}
	return st, nil
}

func pebbleOptions(cfg Config) *pebble.Options {
	opts := &pebble.Options{
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: 4,
		Cache:                       pebble.NewCache(cacheBytes),
		FlushDelayDeleteRange:       10 * time.Second, // so that a dropped container frees its space
		DisableWAL:                  cfg.InMemory,
		Logger:                      engineLog{cfg.Logger},
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	switch {
	case cfg.InMemory:
		opts.FS = vfs.NewMem()
	case cfg.Sync:
		opts.FS = vfs.Default
	default:
		opts.FS = pageCacheFS{vfs.Default}
	}
	return opts
}

func firstOf(err, _ error) error { return err }

func (st *store) close() error {
	err := st.db.Close()
	if lockErr := st.lock.Close(); err == nil {
		err = lockErr
	}
	return err
}

// apply makes a batch visible. It is durable only when wait, which must follow, has returned; so that
// a lock held around apply need not be held meanwhile.
func (st *store) apply(b *pebble.Batch) error {
	if !st.logged {
		return st.db.Apply(b, pebble.NoSync)
	}
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
		err := b.SyncWait()
		st.inFlight.Add(-1)
		if err != nil {
			return err
		}
	}
	return b.Close()
}

// commit is apply and wait.
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
type engineLog struct{ log *slog.Logger }

func (l engineLog) Infof(format string, args ...any) {
	l.log.Debug("storage engine", "message", fmt.Sprintf(format, args...))
}

func (l engineLog) Errorf(format string, args ...any) {
	l.log.Error("storage engine", "message", fmt.Sprintf(format, args...))
}

// Fatalf is called when going on would lose data; Pebble requires that it does not return.
func (l engineLog) Fatalf(format string, args ...any) {
	panic("engine: storage engine: " + fmt.Sprintf(format, args...))
}

// firstError returns the first of some errors that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
