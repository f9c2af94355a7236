package heads

import (
	"math"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Rows of heads are kept: a bin of an owner only grows at its end, so heads are asked only for the rows that known
// bins lack. What a bin had is not shown when its head no longer has the bin: then its rows are
// stored, or gone.

// deviceDay is a device on a day.
type deviceDay struct {
	device string
	day    telemetry.Day
}

// bin is the rows of a bin, in the order of records. It does not change.
type bin struct {
	first, through int64 // offsets of its first and last record
	parts          []part
	bytes          int64
}

// part is the rows of some records of a bin.
type part struct {
	frame    chunk.Frame // shared: it must not be changed
	source   store.Source
	from, to int64 // instants, both inclusive; to is below from if there are no rows
}

// Memory of a bin and of a part without their frames.
const (
	binBytes  = 256
	partBytes = 128
)

// joinParts is how many parts a bin may have before they are joined, if they are in the order of time. A bin with more
// than maxParts is not kept.
const (
	joinParts = 16
	maxParts  = 8 * joinParts
)

// with returns a bin with the rows that a head answered; nil if they do not follow the known rows. The known bin may be
// nil.
func (b *bin) with(rows *store.HeadRows) *bin {
	next := part{frame: rows.Frame, source: rows.Source, to: -1}
	if from, to, ok := bounds(rows.Frame); ok {
		next.from, next.to = from, to
	}
	out := &bin{first: rows.First, through: rows.Source.Through}
	switch {
	case rows.Above >= 0 && (b == nil || b.through != rows.Above):
		return nil
	case rows.Above >= 0:
		out.parts, out.bytes = slices.Clip(b.parts), b.bytes
	}
	if next.from <= next.to {
		out.parts = append(out.parts, next)
		out.bytes += piece.FrameBytes(next.frame) + partBytes
	}
	if len(out.parts) > joinParts {
		out.join()
	}
	return out
}

// from returns the first instant of a bin.
func (b *bin) from() int64 {
	from := int64(math.MaxInt64)
	for i := range b.parts {
		from = min(from, b.parts[i].from)
	}
	return from
}

// rows returns how many rows a bin has.
func (b *bin) rows() (n int) {
	for i := range b.parts {
		n += b.parts[i].frame.Rows()
	}
	return n
}

// join makes one part of the last parts as far as they follow each other in time. A bin has all rows of its records, so
// that the earlier rows may count as known through the last record.
func (b *bin) join() {
	at := len(b.parts) - 1
	for at > 0 && b.parts[at-1].to < b.parts[at].from {
		at--
	}
	frame, ok := joinFrames(b.parts[at:])
	if !ok || at == len(b.parts)-1 {
		return
	}
	one := part{frame, b.parts[len(b.parts)-1].source, b.parts[at].from, b.parts[len(b.parts)-1].to}
	b.parts = append(slices.Clone(b.parts[:at]), one)
	b.bytes = 0
	for i := range b.parts {
		b.bytes += piece.FrameBytes(b.parts[i].frame) + partBytes
	}
}

// joinFrames returns frames that follow each other in time as one, if all have the same groups and columns, with a
// value in each row.
func joinFrames(parts []part) (chunk.Frame, bool) {
	first := parts[0].frame.Groups
	out := make([]chunk.Group, len(first))
	for i := range out {
		out[i].Labels, out[i].Columns = first[i].Labels, make([]chunk.Column, len(first[i].Columns))
		for j, c := range first[i].Columns {
			out[i].Columns[j].Metric, out[i].Columns[j].Kind = c.Metric, c.Kind
		}
		for _, p := range parts {
			if len(p.frame.Groups) != len(out) || !extend(&out[i], &p.frame.Groups[i]) {
				return chunk.Frame{}, false
			}
		}
	}
	return chunk.Frame{Groups: out}, true
}

// extend appends the rows of a group to one with the same labels and columns. It returns false if these differ, or a
// value is missing.
func extend(g, from *chunk.Group) bool {
	if g.Labels.Compare(from.Labels) != 0 || len(g.Columns) != len(from.Columns) {
		return false
	}
	for i := range g.Columns {
		c, d := &g.Columns[i], &from.Columns[i]
		if c.Metric != d.Metric || c.Kind != d.Kind || d.Present != nil {
			return false
		}
		c.Bits, c.Texts = append(c.Bits, d.Bits...), append(c.Texts, d.Texts...)
	}
	g.Times = append(g.Times, from.Times...)
	return true
}

// bounds returns the first and last instant of a frame; ok is false when it has none.
func bounds(f chunk.Frame) (from, to int64, ok bool) {
	for i := range f.Groups {
		times := f.Groups[i].Times
		if len(times) == 0 {
			continue
		}
		if !ok {
			from, to, ok = times[0], times[len(times)-1], true
		}
		from, to = min(from, times[0]), max(to, times[len(times)-1])
	}
	return from, to, ok
}
