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
	"hash/fnv"
	"strconv"
	"strings"

	"binnacle/internal/telemetry"
)

// The second level of the keys of documents that are no rollups. Names of rollups have a dot.
const (
	ManifestKey    = "manifest"
	SeriesIndexKey = "seriesIndex"
	CorrectionsKey = "corrections"
)

// maxName bounds the names of rollups: ids and keys of the service are bounded.
const maxName = 200

// Key returns the second level of the keys of a rollup's documents, and what their ids begin with: the metric, the
// family, and on the grid of half hours "30". All but letters, digits, hyphen, underscore and dot stand as ~ and two
// hex digits a byte; what would be too long ends in a hash instead.
func Key(metric string, f Family, g Grid) string {
	var b strings.Builder
	for i := range len(metric) {
		c := metric[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02x", c)
		}
	}
	name := b.String()
	if len(name) > maxName {
		h := fnv.New128a()
		_, _ = h.Write([]byte(metric)) // it never fails
		name = fmt.Sprintf("%s~~%x", name[:maxName-34], h.Sum(nil))
	}
	name += "." + string(f)
	if g == HalfHour {
		name += "30"
	}
	return name
}

// ID names a document: its key, day, first hour, part and batch, as in "velocity.L.2026112008.0.k3x9".
func ID(key string, day telemetry.Day, hour, part int, batch string) string {
	return fmt.Sprintf("%s.%s%02d.%d.%s", key, day, hour, part, batch)
}

// ManifestID names the manifest of a day.
func ManifestID(day telemetry.Day) string { return ManifestKey + "." + day.String() }

// CheckBatch returns an error unless name is a batch's name: 1 to 32 small letters and digits.
func CheckBatch(name string) error {
	ok := name != "" && len(name) <= 32
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9')
	}
	if !ok {
		return corrupt("batch %s is not 1 to 32 of a-z and 0-9", strconv.Quote(name[:min(len(name), 40)]))
	}
	return nil
}

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
