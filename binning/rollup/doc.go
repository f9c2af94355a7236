// Package rollup is the stored form of rollups: what panels over many devices read instead of chunks. A rollup holds
// one metric of all series of a part of a first-level key, on a grid of minutes or half hours. It keeps enough about
// each bucket that functions of PromQL return the same result, bit for bit. A manifest says which rollups of a day
// count.
//
// A day's rollups come from that day's chunks alone (rule V5): buckets are (t - length, t] within the day. The sample
// at exactly 00:00 belongs to the last bucket of the day before, and is stored apart.
//
// Documents, manifests and their bytes are specified in docs/internals/format/rollups.md. Input may be any bytes: what
// is no document of rollups returns ErrCorrupt.
//
// The package is pure: no I/O, no clock, no log, no goroutine. It must not know when rollups are written, nor where
// they are kept.
package rollup

import (
	"errors"
	"fmt"
)

// Version is the layout of documents that is written, and the newest that is read.
const Version = 1

// Limits of documents. They bound what a reader of a hostile one can be made to allocate.
const (
	// MaxDocument is the largest document in bytes.
	MaxDocument = 2 << 20
	// MaxSeries is the most series of a series index.
	MaxSeries = 1 << 16
	// MaxCells is the most series times buckets of a section.
	MaxCells = 1 << 20
	// MaxResets is the most values of resets of a section.
	MaxResets = 1 << 20
)

// ErrCorrupt is what is wrapped when bytes are no document of this package, of a version that this release knows.
var ErrCorrupt = errors.New("corrupt rollup")

// ErrTooLarge is what is wrapped when something does not fit the limits.
var ErrTooLarge = errors.New("too large for one rollup")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}
