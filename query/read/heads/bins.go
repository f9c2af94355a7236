package heads

import (
	"math"
	"slices"

	"binnacle/binning"
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
	from           int64 // its first instant, math.MaxInt64 without rows
	bytes          int64
}

// part is the rows of some records of a bin.
type part struct {
	frame  chunk.Frame // shared: it must not be changed
	source store.Source
}

// Memory of a bin and of a part without their frames.
const (
	binBytes  = 256
	partBytes = 128
)

// maxParts is how many parts a bin may have before they are joined.
const maxParts = 16

// with returns a bin with the rows that a head answered; nil if they do not follow the known rows. The known bin may be
// nil.
func (b *bin) with(rows *store.HeadRows) *bin {
	out := &bin{from: math.MaxInt64}
	switch {
	case rows.Above >= 0 && (b == nil || b.through != rows.Above):
		return nil
	case rows.Above >= 0:
		*out = *b
	}
	out.first, out.through = rows.First, rows.Source.Through
	if from, _, ok := bounds(rows.Frame); ok {
		out.parts = append(slices.Clip(out.parts), part{rows.Frame, rows.Source})
		out.from = min(out.from, from)
		out.bytes += piece.FrameBytes(rows.Frame) + partBytes
	}
	if len(out.parts) > maxParts {
		out.join()
	}
	return out
}

func (b *bin) rows() (n int) {
	for i := range b.parts {
		n += b.parts[i].frame.Rows()
	}
	return n
}

// join makes one part of all. A bin has all rows of its records, so that the earlier rows may count as known through
// the last record.
func (b *bin) join() {
	var runs []chunk.Run
	for _, p := range b.parts {
		for _, g := range p.frame.Groups {
			columns := slices.Clone(g.Columns)
			for i := range columns { // what is appended to them must not be seen in shared frames
				columns[i].Bits, columns[i].Texts = slices.Clip(columns[i].Bits), slices.Clip(columns[i].Texts)
			}
			runs = append(runs, chunk.Run{Times: slices.Clip(g.Times), Sets: []telemetry.Labels{g.Labels}, Columns: columns})
		}
	}
	frame := binning.FrameOf(runs)
	b.parts = []part{{frame, b.parts[len(b.parts)-1].source}}
	b.bytes = piece.FrameBytes(frame) + partBytes
}

// bounds returns the first and last instant of a frame; ok is false when it has none.
func bounds(f chunk.Frame) (from, to int64, ok bool) {
	from, to = math.MaxInt64, math.MinInt64
	for i := range f.Groups {
		if times := f.Groups[i].Times; len(times) > 0 {
			from, to = min(from, times[0]), max(to, times[len(times)-1])
		}
	}
	return from, to, from <= to
}

// binsOf is bins of an owner.
type binsOf map[deviceDay][]*bin

// find returns the bin that begins with a record, or nil.
func (m binsOf) find(of deviceDay, first int64) *bin {
	for _, b := range m[of] {
		if b.first == first {
			return b
		}
	}
	return nil
}
