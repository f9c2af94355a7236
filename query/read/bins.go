package read

import (
	"math"
	"slices"
	"sort"
	"time"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
)

// Rows of heads are kept beside chunks: a bin of an owner only grows at its end, so that of the bins that were read
// before, heads are asked only for what came since. What a bin had is not shown when its head does not tell of the bin
// any more: then its rows are stored, or gone.

// minCachedRange is the shortest range for which whole bins are read and cached.
const minCachedRange = time.Hour

// cachedBins is a tenant's bins, each with the columns of the same metrics. It does not change once others may see it.
type cachedBins struct {
	owners  map[uint64]map[store.HeadBin]*cachedBin
	counts  map[uint64]*storedCounts // by owner
	changes changes
	bytes   int64
}

// cachedBin is the rows of a bin, in the order of records.
type cachedBin struct {
	parts []cachedPart
	bytes int64
	seen  time.Time // when a head had it last
}

// cachedPart is the rows of some records of a bin.
type cachedPart struct {
	frame    chunk.Frame // shared: it must not be changed
	source   store.Source
	from, to int64 // instants, both inclusive; to is below from if there are no rows
}

func (b *cachedBin) through() int64 { return b.parts[len(b.parts)-1].source.Through }

// cachedBinsKey names cachedBins.
// orders is how many orders of erasure the rows were asked for under: there are only ever more.
type cachedBinsKey struct {
	tenant, metrics string
	orders          int
}

// maxKnownBytes bounds the part of a request that names known bins. Bins beyond it are answered whole.
const maxKnownBytes = 4 << 20

// knownBytes returns the most bytes that naming a bin takes in a request.
func knownBytes(name store.HeadBin) (n int) {
	for _, c := range []byte(name.Device) {
		switch c {
		case '<', '>', '&':
			n += len(`\u003c`)
		case '"':
			n += len(`\"`)
		default:
			n++
		}
	}
	return n + len(`{"Device":"","Day":12345678901,"First":,"Through":},`) + 2*len("9223372036854775807")
}

// What cached bins take beside their frames.
const (
	cachedBinBytes  = 256
	cachedPartBytes = 128
)

// cachesBins reports whether the query reads and caches whole bins: its sink leaves out rows beyond the range, and it
// asks for so much that whole bins are no detour.
func (q *Query) cachesBins() bool {
	return q.r.cache != nil && q.req.Clips && q.req.Order == Unordered && len(q.req.Metrics) > 0 &&
		length(q.req.Range) >= minCachedRange.Milliseconds() && (q.req.Devices == nil || len(q.req.Devices) > FewDevices)
}

// askBins makes a request one for bins of whole days, and names the known ones.
func (q *Query) askBins(ask *store.HeadRequest) {
	first, last := q.daysAsked()
	ask.Bins, ask.Stored, ask.Range = true, q.req.Devices == nil, telemetry.Range{From: first.Start(), To: last.End()}
	known, ok := q.r.cache.get(q.binsKey(), q.r.cache.age)
	if !ok {
		return
	}
	q.bins = known.(*cachedBins)
	left := maxKnownBytes
	for owner, bins := range q.bins.owners {
		k := store.HeadKnown{Owner: owner}
		for name, b := range bins {
			if name.Day >= first && name.Day <= last && q.asked(name.Device) && left > 0 {
				left -= knownBytes(name)
				name.Through = b.through()
				k.Bins = append(k.Bins, name)
			}
		}
		if t := q.knownCounts(owner); t != nil {
			k.Stored = t.count
		}
		if k.Bins != nil || k.Stored > 0 {
			ask.Known = append(ask.Known, k)
		}
	}
}

func (q *Query) binsKey() cachedBinsKey {
	return cachedBinsKey{q.req.Tenant, metricsKey(q.req.Metrics), q.erased.acknowledged()}
}

// cachedBinsOf returns the bins of an owner that were known when the heads were asked.
func (q *Query) cachedBinsOf(owner uint64) map[store.HeadBin]*cachedBin {
	if q.bins == nil {
		return nil
	}
	return q.bins.owners[owner]
}

// appendPart returns a bin with the rows that a head answered; nil if they do not follow what is known.
func appendPart(known *cachedBin, rows *store.HeadRows) *cachedBin {
	part := cachedPart{frame: rows.Frame, source: rows.Source}
	if from, to, ok := bounds(rows.Frame); ok {
		part.from, part.to = from, to
	} else {
		part.from, part.to = 0, -1
	}
	if rows.Above < 0 {
		return &cachedBin{parts: []cachedPart{part}, bytes: frameBytes(rows.Frame)}
	}
	if known == nil || known.through() != rows.Above {
		return nil
	}
	out := &cachedBin{parts: slices.Clip(known.parts), bytes: known.bytes}
	switch last := &known.parts[len(known.parts)-1]; {
	case part.to < part.from: // no new rows, but a later record
		out.parts = slices.Clone(known.parts)
		out.parts[len(out.parts)-1].source = rows.Source
		return out
	case last.to < last.from: // no rows so far
		out.parts = slices.Clone(known.parts)
		out.parts[len(out.parts)-1] = part
	default:
		out.parts = append(out.parts, part)
	}
	out.bytes += frameBytes(rows.Frame)
	if len(out.parts) > joinParts {
		out.join()
	}
	return out
}

// joinParts is how many parts a bin may have before they are joined, if they are in the order of time. A bin with more
// than maxParts is not cached.
const (
	joinParts = 16
	maxParts  = 8 * joinParts
)

// join makes one part of the last parts as far as they follow each other in time. A bin has all rows of its records, so
// that the earlier rows may count as known through the last record.
func (b *cachedBin) join() {
	at := len(b.parts) - 1
	for at > 0 && b.parts[at-1].to < b.parts[at].from {
		at--
	}
	if at == len(b.parts)-1 {
		return
	}
	frame, ok := joinFrames(b.parts[at:])
	if !ok {
		return
	}
	one := cachedPart{frame, b.parts[len(b.parts)-1].source, b.parts[at].from, b.parts[len(b.parts)-1].to}
	b.parts = append(slices.Clone(b.parts[:at]), one)
	b.bytes = 0
	for i := range b.parts {
		b.bytes += frameBytes(b.parts[i].frame)
	}
}

// joinFrames returns frames that follow each other in time as one, if all groups have the same columns, with a value in
// each row.
func joinFrames(parts []cachedPart) (chunk.Frame, bool) {
	rows := 0
	for i := range parts {
		rows += parts[i].frame.Rows()
	}
	var groups []chunk.Group
	for i := range parts {
		for j := range parts[i].frame.Groups {
			from := &parts[i].frame.Groups[j]
			at := slices.IndexFunc(groups, func(g chunk.Group) bool { return g.Labels.Compare(from.Labels) == 0 })
			if at < 0 {
				at = len(groups)
				groups = append(groups, emptyLike(from, rows))
			}
			if !extend(&groups[at], from) {
				return chunk.Frame{}, false
			}
		}
	}
	slices.SortFunc(groups, func(a, b chunk.Group) int { return a.Labels.Compare(b.Labels) })
	return chunk.Frame{Groups: groups}, true
}

// emptyLike returns an empty group with the columns of another one, and room for so many rows.
func emptyLike(g *chunk.Group, rows int) chunk.Group {
	out := chunk.Group{Labels: g.Labels, Times: make([]int64, 0, rows), Columns: make([]chunk.Column, len(g.Columns))}
	for i := range g.Columns {
		c := &out.Columns[i]
		c.Metric, c.Kind = g.Columns[i].Metric, g.Columns[i].Kind
		if g.Columns[i].Texts == nil {
			c.Bits = make([]uint64, 0, rows)
		}
	}
	return out
}

// extend appends the rows of a group to one with the same columns. It returns false if the columns differ, or a value
// is missing.
func extend(g, from *chunk.Group) bool {
	if len(g.Columns) != len(from.Columns) {
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

// cacheBins caches the bins that heads answered, of the days and devices that were asked for, and keeps the known ones
// of others for as long as the cache's age: they may be stored by now. It notes from which instant on bins differ from
// the known ones.
func (q *Query) cacheBins(bins map[uint64]map[store.HeadBin]*cachedBin) {
	asked := telemetry.Range{From: telemetry.DayOf(q.req.Range.From).Start(),
		To: telemetry.DayOf(q.req.Range.To - 1).End()}
	all, now := &cachedBins{owners: bins, counts: q.countsToKeep()}, q.r.cfg.Now()
	for owner, bins := range bins {
		for name, b := range q.cachedBinsOf(owner) {
			if (!asked.Contains(name.Day.Start()) || !q.asked(name.Device)) && now.Sub(b.seen) < q.r.cache.age {
				bins[name] = b
			}
		}
		for name, b := range bins {
			if len(b.parts) > maxParts {
				delete(bins, name)
				continue
			}
			all.bytes += b.bytes + cachedBinBytes + cachedPartBytes*int64(len(b.parts))
		}
	}
	for _, t := range all.counts {
		all.bytes += t.bytes()
	}
	if q.bins != nil {
		all.changes = q.bins.changes
	}
	all.changes = all.changes.with(q.r.cache.nextVersion(), min(q.newRows, q.goneFrom(bins)))
	q.binChanges = all.changes
	q.r.cache.put(q.binsKey(), all, all.bytes+int64(len(all.changes))*16)
}

// goneFrom returns the first instant of a row of bins that were known, and are neither answered any more nor stored
// unchanged.
func (q *Query) goneFrom(bins map[uint64]map[store.HeadBin]*cachedBin) int64 {
	if q.bins == nil {
		return math.MinInt64
	}
	from := int64(math.MaxInt64)
	for owner, known := range q.bins.owners {
		for name, b := range known {
			if bins[owner][name] == nil && !q.isMoved(owner, name) {
				from = min(from, b.from())
			}
		}
	}
	now := q.r.cfg.Now()
	for owner, t := range q.bins.counts {
		for name, m := range t.moved {
			if bins[owner][name] == nil && !q.isMoved(owner, name) && !m.isOld(now) {
				from = min(from, m.bin.from())
			}
		}
	}
	return from
}

// from returns the first instant of a bin.
func (b *cachedBin) from() int64 {
	from := int64(math.MaxInt64)
	for i := range b.parts {
		if p := &b.parts[i]; p.from <= p.to {
			from = min(from, p.from)
		}
	}
	return from
}

// rowsWithin returns how many rows of a frame have an instant in a range.
func rowsWithin(f chunk.Frame, r telemetry.Range) (n int) {
	for i := range f.Groups {
		times := f.Groups[i].Times
		before := func(at int64) int { return sort.Search(len(times), func(i int) bool { return times[i] >= at }) }
		n += max(0, before(r.To)-before(r.From))
	}
	return n
}
