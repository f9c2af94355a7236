package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// faults are what is wrong with settings: all of it is said at once.
type faults []error

func (f *faults) check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("data directory %s: %w", dir, reason(err))
	}
	probe, err := os.CreateTemp(dir, ".writable-*")
	if err != nil {
		return fmt.Errorf("data directory %s is not writable: %w", dir, reason(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// reason returns an error without the path, which the caller names.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
