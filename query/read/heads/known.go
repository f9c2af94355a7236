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

// minKeptRange is the shortest range for which whole bins are read and kept.
const minKeptRange = time.Hour

// question names what heads were asked: what they answered to one question says nothing about another one.
type question struct {
	tenant, metrics, devices string
	orders                   int // the number of erasure orders in the request; it only grows
}

// days are the days from first to last.
type days struct{ first, last telemetry.Day }

func (d days) has(day telemetry.Day) bool { return d.first <= day && day <= d.last }

func (d days) contains(e days) bool { return d.first <= e.first && d.last >= e.last }

// questionOf returns the question of a request; ok is false if its rows are not kept: they are kept where the sink
// leaves out rows beyond the range, and where so much is asked for that whole bins are no detour.
func questionOf(r *piece.Request, orders int) (out question, ok bool) {
	return question{r.Tenant, kept.Names(r.Metrics), kept.Names(r.Devices), orders},
		r.Clips && r.Order == piece.Unordered && len(r.Metrics) > 0 && r.AsksManyDevices() &&
			r.Range.To-r.Range.From >= minKeptRange.Milliseconds()
}

// known is what heads have answered to a question. It does not change once others may see it.
type known struct {
	owners  map[uint64]*owned
	changes kept.Changes                // versions of the rows
	asked   map[telemetry.Day]time.Time // the last question about each day
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

// ask names in a request the known bins and counts of some days.
func (k *known) ask(r *store.HeadRequest, asked days) {
	left := maxKnownBytes
	for owner, o := range k.owners {
		one := store.HeadKnown{Owner: owner}
		for of, bins := range o.bins {
			for _, b := range bins {
				if !asked.has(of.day) {
					break
				}
				if left -= nameBytes(of.device); left > 0 {
					one.Bins = append(one.Bins, store.HeadBin{Device: of.device, Day: of.day, First: b.first, Through: b.through})
				}
			}
		}
		if c := o.countsOf(asked); c != nil {
			one.Stored = c.count
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

// countsOf returns what the head counts of some days, nil unless that is known of all of them.
func (o *owned) countsOf(asked days) *counts {
	if o.counts == nil || !o.counts.days.contains(asked) {
		return nil
	}
	return o.counts
}

// has reports whether the rows of a bin are known, in a bin or in a chunk.
func (o *owned) has(of deviceDay, first int64) bool {
	if o.bins.find(of, first) != nil {
		return true
	}
	if o.counts != nil {
		for _, l := range o.counts.later {
			for _, b := range l.bins {
				if b.first == first && l.Device == of.device && l.Day == of.day {
					return true
				}
			}
		}
	}
	return false
}

// follows reports whether later tails were counted on from an earlier answer.
func (o *owned) follows(before *owned) bool {
	return o.counts != nil && before.counts != nil && o.counts.begin == before.counts.begin
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

// remember takes over of an earlier answer what was not asked for again, unless that was asked for before a moment:
// rows of other days, which may be stored by now, and counts of more days.
func (k *known) remember(earlier *known, asked days, since time.Time) {
	k.asked = make(map[telemetry.Day]time.Time)
	for day, at := range earlier.asked {
		if at.After(since) {
			k.asked[day] = at
		}
	}
	for owner, o := range k.owners {
		before := earlier.of(owner)
		for of, bins := range before.bins {
			if _, ok := k.asked[of.day]; ok && !asked.has(of.day) {
				o.bins[of] = bins
			}
		}
		if o.counts != nil && before.countsOf(asked) != nil && o.counts.days != before.counts.days {
			o.counts = before.counts
		}
	}
}

// goneFrom returns the first instant of a row that was known, and is neither answered now nor stored unchanged.
func (k *known) goneFrom(now map[uint64]*owned, at time.Time) int64 {
	from := int64(math.MaxInt64)
	for owner, before := range k.owners {
		is := now[owner]
		lose := func(of deviceDay, b *bin) {
			if is == nil || !is.has(of, b.first) {
				from = min(from, b.from())
			}
		}
		for of, bins := range before.bins {
			for _, b := range bins {
				lose(of, b)
			}
		}
		if is != nil && is.follows(before) { // they still are, or are read from chunks
			continue
		}
		before.eachStored(func(l *Later, b *bin) {
			if !l.isOld(at) {
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
