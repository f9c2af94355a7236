package app

import (
	"errors"
	"fmt"
	"os"

	"binnacle/internal/ops"
	"binnacle/internal/settings"
)

// faults are what is wrong with settings: all of it is said at once.
type faults struct{ settings.Faults }

func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, ops.Reason(err))
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", dir, ops.Reason(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}
