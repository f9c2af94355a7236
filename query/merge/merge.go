// Package merge makes answers of the pieces that package read hands on: rows in the order of time (Rows), one series
// after another (Series), statistics of each series (Statistics), and others. In each of them a series and instant
// counts once, with the value from the newest source (rule R5), and a chunk is decoded once, or not at all where its
// statistics may stand for its rows (rule R6). Presence leaves out values: it has the instants of readings.
//
// Each of them is a read.Sink. They know nothing of heads, stores or keys.
package merge

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read"
)

// Config is what an answer is made of, whatever its shape.
type Config struct {
	Range   telemetry.Range
	Metrics []string // in order, each once; nil: all
	Memory  *read.Memory
}

// begin leaves out what is before an instant.
func (c *Config) begin(at int64) { c.Range.From = min(max(c.Range.From, at), c.Range.To) }

// decode returns the rows of a piece and releases it. The caller gives back the bytes of memory.
func (c *Config) decode(p *read.Piece) (f chunk.Frame, bytes int64, err error) {
	defer p.Release()
	if f, err = p.Rows(); err != nil {
		return f, 0, err
	}
	for i := range f.Groups {
		bytes += read.GroupBytes(&f.Groups[i])
	}
	return f, bytes, c.Memory.Take(bytes)
}

// cell is one value and where it came from.
type cell struct {
	telemetry.Field
	source store.Source
}

// newest keeps of each metric the value of the highest source (rule R5), and sorts by metric.
func newest(rows []cell) []cell {
	slices.SortFunc(rows, func(a, b cell) int {
		return cmp.Or(strings.Compare(a.Metric, b.Metric), b.source.Compare(a.source))
	})
	return slices.CompactFunc(rows, func(a, b cell) bool { return a.Metric == b.Metric })
}
