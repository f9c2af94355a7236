package heads

import (
	"math"
	"strings"
	"time"

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
	counts *counts // nil: not counted
}

// of returns what an owner has answered, which may be nothing.
func (k *known) of(owner uint64) *owned {
	if k == nil || k.owners[owner] == nil {
		return &owned{}
	}
	return k.owners[owner]
}

// maxKnownBytes bounds the part of a request that names known bins. Bins beyond it are answered whole.
const maxKnownBytes = 4 << 20

// ask names in a request the known bins and counts.
func (k *known) ask(r *store.HeadRequest) {
	left := maxKnownBytes
	for owner, o := range k.owners {
		one := store.HeadKnown{Owner: owner}
		for of, bins := range o.bins {
			for _, b := range bins {
				if left -= nameBytes(of.device); left > 0 {
					one.Bins = append(one.Bins, store.HeadBin{Device: of.device, Day: of.day, First: b.first, Through: b.through})
				}
			}
		}
		if o.counts != nil {
			one.Stored = o.counts.count
		}
		if one.Bins != nil || one.Stored > 0 {
			r.Known = append(r.Known, one)
		}
	}
}

// nameBytes returns the most bytes that naming a bin of a device takes in a request.
func nameBytes(device string) int {
	n := 96 + len(device)
	for _, c := range []byte(device) {
		if strings.IndexByte(`<>&"`, c) >= 0 { // which are escaped
			n += len(`\u003c`) - 1
		}
	}
	return n
}

// eachStored calls yield with each bin of known rows that are stored and no longer shown by heads.
func (o *owned) eachStored(yield func(*Later, *bin)) {
	if o.counts == nil {
		return
	}
	for _, l := range o.counts.later {
		for _, b := range l.bins {
			if o.bins.find(deviceDay{l.Device, l.Day}, b.first) == nil {
				yield(l, b)
			}
		}
	}
}

// goneFrom returns the first instant of a row that was known, and is neither answered now nor stored unchanged.
func (k *known) goneFrom(now *known, at time.Time) int64 {
	from := int64(math.MaxInt64)
	type binID struct {
		deviceDay
		first int64
	}
	for owner, before := range k.owners {
		is, stored := now.of(owner), make(map[binID]bool)
		is.eachStored(func(l *Later, b *bin) { stored[binID{deviceDay{l.Device, l.Day}, b.first}] = true })
		lose := func(of deviceDay, b *bin) {
			if is.bins.find(of, b.first) == nil && !stored[binID{of, b.first}] {
				from = min(from, b.from)
			}
		}
		for of, bins := range before.bins {
			for _, b := range bins {
				lose(of, b)
			}
		}
		before.eachStored(func(l *Later, b *bin) {
			if !l.isOld(at) { // else it is read from its chunk
				lose(deviceDay{l.Device, l.Day}, b)
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
		if o.counts != nil {
			n += o.counts.bytes()
		}
	}
	return n
}
