package engine

import (
	"fmt"
	"os"
	"path/filepath"

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
