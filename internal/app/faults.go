package app

import (
	"errors"
	"fmt"
	"os"

	"binnacle/internal/ops"
)

// faults are what is wrong with settings: all of it is said at once.
type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// account adds the faults of an account.
func (f *faults) account(c ops.AccountConfig) { *f = append(*f, c.Validate()) }

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
