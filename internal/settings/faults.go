package settings

import (
	"errors"
	"fmt"
)

// Faults collects what is wrong with settings, so that all of it is reported at once.
type Faults []error

// Check adds a fault unless a setting is right.
func (f *Faults) Check(ok bool, format string, args ...any) {
	if !ok {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Add adds errors; nil is none.
func (f *Faults) Add(errs ...error) { *f = append(*f, errs...) }

// Named adds the error of a flag; nil is none.
func (f *Faults) Named(flag string, err error) { f.Check(err == nil, "%s: %w", flag, err) }

// Err returns all faults as one error, nil for none.
func (f *Faults) Err() error { return errors.Join(*f...) }
