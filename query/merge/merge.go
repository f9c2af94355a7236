// Package merge makes answers of the pieces that package read hands on: rows in the order of time (Rows), one series
// after another (Series), statistics of each series (Statistics), and others. In all of them a series and instant
// counts once, with the value from the newest source (rule R5), and a chunk is decoded once, or not at all where its
// statistics may stand for its rows (rule R6). Presence leaves out values: it has the instants of readings.
//
// Each of them is a piece.Sink. They know nothing of heads, stores or keys.
package merge

import (
	"cmp"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Config is what an answer is made of, whatever its shape.
type Config struct {
	Range   telemetry.Range
	Metrics []string // sorted and distinct; nil: all
	Memory  *piece.Memory
}

// begin leaves out what is before an instant.
func (c *Config) begin(at int64) { c.Range.From = min(max(c.Range.From, at), c.Range.To) }

// decode returns the rows of a piece and releases it. The caller gives back the bytes of memory. Labels with an empty
// value, which readings no longer get but have been stored, are left out; groups may have equal labels then.
func (c *Config) decode(p *piece.Piece) (f chunk.Frame, bytes int64, err error) {
	defer p.Release()
	if f, err = p.Rows(); err != nil {
		return f, 0, err
	}
	f.Groups = nonEmptyLabels(f.Groups)
	for i := range f.Groups {
		bytes += piece.GroupBytes(&f.Groups[i])
	}
	return f, bytes, c.Memory.Take(bytes)
}

// nonEmptyLabels returns groups without labels that have an empty value. Of an instant that groups with equal labels
// have the first counts: that with the fewest such labels, since a chunk does not say which of its rows came later.
func nonEmptyLabels(groups []chunk.Group) []chunk.Group {
	some := func(g chunk.Group) bool { return len(g.Labels.NonEmpty()) < len(g.Labels) }
	if !slices.ContainsFunc(groups, some) {
		return groups
	}
	out := slices.Clone(groups)
	empty := func(g chunk.Group) int { return len(g.Labels) - len(g.Labels.NonEmpty()) }
	slices.SortStableFunc(out, func(a, b chunk.Group) int { return cmp.Compare(empty(a), empty(b)) })
	for i := range out {
		out[i].Labels = out[i].Labels.NonEmpty()
	}
	return out
}

// cell is one value and where it came from.
type cell struct {
	telemetry.Field
	source store.Source
	group  int // index in its piece; the lowest wins
}

// newest keeps the value of the highest source for each metric (rule R5), and sorts by metric.
func newest(rows []cell) []cell {
	slices.SortFunc(rows, func(a, b cell) int {
		return cmp.Or(strings.Compare(a.Metric, b.Metric), b.source.Compare(a.source),
			cmp.Compare(a.group, b.group))
	})
	return slices.CompactFunc(rows, func(a, b cell) bool { return a.Metric == b.Metric })
}
