package heads

import (
	"math"
	"slices"
	"time"

	"binnacle/binning"
	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/kept"
	"binnacle/query/read/piece"
)

// minKeptRange is the shortest range for which whole bins are read and kept. Of a shorter one counts alone are kept.
const minKeptRange = time.Hour

// question names what heads were asked: what they answered to one question says nothing about another one.
type question struct {
	tenant, metrics, devices string
	orders                   int // the number of erasure orders in the request; it only grows
	first, last              telemetry.Day
	rows                     bool // whole bins are asked for
}

// questionOf returns the question of a request; ok is false if nothing of the answer is kept. Rows are kept where the
// sink leaves out rows beyond the range, and where so much is asked for that whole bins are no detour. Otherwise counts
// are kept, which are the same for all metrics.
func questionOf(r *piece.Request, orders int) (out question, ok bool) {
	out = question{tenant: r.Tenant, devices: kept.Names(r.Devices), orders: orders}
	out.first, out.last = r.Days()
	out.rows = r.Clips && len(r.Metrics) > 0 && r.AsksManyDevices() &&
		r.Range.To-r.Range.From >= minKeptRange.Milliseconds()
	if out.rows {
		out.metrics = kept.Names(r.Metrics)
	}
	return out, r.Order == piece.Unordered && (out.rows || r.Devices == nil)
}

// known is what heads have answered to a question. It does not change once others may see it.
type known struct {
	owners  map[uint64]*owned
	changes kept.Changes // versions of the rows
}

// owned is what the head of an owner has answered.
type owned struct {
	bins   binsOf
	counts *counts // with a count of 0: not counted
}

// of returns what an owner has answered, which may be nothing.
func (k *known) of(owner uint64) *owned {
	if k == nil || k.owners[owner] == nil {
		return &owned{counts: &counts{}}
	}
	return k.owners[owner]
}

// maxKnownBytes bounds the part of a request that names known bins. Bins beyond it are answered whole.
const maxKnownBytes = 4 << 20

// ask names in a request the known bins and counts.
func (k *known) ask(r *store.HeadRequest) {
	left := maxKnownBytes
	for owner, o := range k.owners {
		one := store.HeadKnown{Owner: owner, Stored: o.counts.count}
		for of, bins := range o.bins {
			for _, b := range bins {
				if left -= 96 + 6*len(of.device); left > 0 { // each byte may be escaped
					one.Bins = append(one.Bins, store.HeadBin{Device: of.device, Day: of.day, First: b.first, Through: b.through})
				}
			}
		}
		if one.Bins != nil || one.Stored > 0 {
			r.Known = append(r.Known, one)
		}
	}
}

// eachStored calls yield with each bin of known rows that are stored and no longer shown by heads.
func (o *owned) eachStored(yield func(deviceDay, *Later, *bin)) {
	for _, l := range o.counts.later {
		of := deviceDay{l.Device, l.Day}
		for _, b := range l.bins {
			if o.bins.find(of, b.first) == nil {
				yield(of, l, b)
			}
		}
	}
}

// goneFrom returns the first instant of a row that was known, and is neither answered now nor stored unchanged.
func (k *known) goneFrom(now *known, at time.Time) int64 {
	from := int64(math.MaxInt64)
	for owner, before := range k.owners {
		is, stored := now.of(owner), make(map[deviceDay][]int64)
		is.eachStored(func(of deviceDay, _ *Later, b *bin) { stored[of] = append(stored[of], b.first) })
		lose := func(of deviceDay, b *bin) {
			if is.bins.find(of, b.first) == nil && !slices.Contains(stored[of], b.first) {
				from = min(from, b.from)
			}
		}
		for of, bins := range before.bins {
			for _, b := range bins {
				lose(of, b)
			}
		}
		before.eachStored(func(of deviceDay, l *Later, b *bin) {
			if !l.isOld(at) { // else it is read from its chunk
				lose(of, b)
			}
		})
	}
	return from
}

// bytes returns about how much memory it takes.
func (k *known) bytes() int64 {
	n := k.changes.Bytes()
	for _, o := range k.owners {
		for _, bins := range o.bins {
			for _, b := range bins {
				n += binBytes + b.bytes
			}
		}
		n += o.counts.bytes()
	}
	return n
}

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
	rows           int // rows that heads have answered
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
	out.first, out.through, out.rows = rows.First, rows.Source.Through, out.rows+rows.Frame.Rows()
	if from, _, ok := rows.Frame.Bounds(); ok {
		out.parts = append(slices.Clip(out.parts), part{rows.Frame, rows.Source})
		out.from = min(out.from, from)
		out.bytes += piece.FrameBytes(rows.Frame) + partBytes
	}
	if len(out.parts) > maxParts {
		out.join()
	}
	return out
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
