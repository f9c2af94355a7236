package catalogupdates

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"

	"binnacle/internal/catalog"
	"binnacle/internal/telemetry"
)

// maxEntry bounds what the catalog lists of a device, in bytes of names and values: the store takes no document above
// two megabytes, and a device that keeps inventing names must not hold up its partition. What does not fit is not
// listed; it is stored and answered all the same.
const maxEntry = 512 << 10

// listedBytes is what a name or value takes in an entry in addition to its characters, any of which may be escaped.
const listedBytes = 16

// seen is what readings have shown of a device, within what its entry in the catalog can list (maxEntry). Devices that
// report the same metrics share them.
type seen struct {
	columns *columns // nil before the first reading
	*pairs
	listed      int32 // bytes of labels and tags in an entry
	timed       bool
	first, last int64 // event times, once timed
}

// pairs are labels and tags. Devices without labels and tags share noPairs, and nothing changes noPairs.
type pairs struct {
	labels []telemetry.Label // sorted, at most catalog.MaxLabelValues of a name
	tags   []telemetry.Label // sorted by name, the newest value of every tag
	// origins are, by tag, of the first record with its value.
	origins []origin
}

// origin is the offset of a record, the time of its reading, and whether another value was seen before.
type origin struct {
	offset, time int64
	replaces     bool
}

var (
	noPairs = new(pairs)
	nothing = seen{pairs: noPairs}
)

// own returns the pairs of s, to be changed.
func (s *seen) own() *pairs {
	if s.pairs == noPairs {
		s.pairs = new(pairs)
	}
	return s.pairs
}

// columns are metrics with kinds, sorted. They are never changed.
type columns struct {
	list   []shape
	hash   uint64
	refs   int // devices that have them
	listed int // bytes in an entry
}

type shape struct {
	metric string
	kind   telemetry.Kind
}

func (s shape) compare(t shape) int {
	return cmp.Or(strings.Compare(s.metric, t.metric), cmp.Compare(s.kind, t.kind))
}

// columnSets has the columns of all devices of a Worker, each set once.
type columnSets struct {
	sets  map[uint64]*columns
	bytes int
}

const (
	shapeBytes   = 24
	columnsBytes = 96 // with its place among the sets
	pairsBytes   = 72
)

// swap takes a set for a device in place of the one it had. Either may be nil.
func (x *columnSets) swap(old, new *columns) *columns {
	if new != nil {
		if have := x.sets[new.hash]; have != nil && slices.Equal(have.list, new.list) {
			new = have
		}
		if new.refs == 0 {
			x.bytes += new.bytes()
			if x.sets[new.hash] == nil {
				x.sets[new.hash] = new
			}
		}
		new.refs++
	}
	if old != nil {
		if old.refs--; old.refs == 0 {
			x.bytes -= old.bytes()
			if x.sets[old.hash] == old {
				delete(x.sets, old.hash)
			}
		}
	}
	return new
}

// has reports whether a metric is among the columns. c may be nil.
func (c *columns) has(metric string) bool {
	if c == nil {
		return false
	}
	i, _ := slices.BinarySearchFunc(c.list, shape{metric: metric}, shape.compare)
	return i < len(c.list) && c.list[i].metric == metric
}

func (c *columns) bytes() int { return columnsBytes + cap(c.list)*shapeBytes }

// with returns the columns and the new fields that find room in an entry, or c itself without such fields. all is
// false if some new fields find no room. c may be nil.
func (c *columns) with(fields []telemetry.Field, room int) (out *columns, all bool) {
	var list, fresh []shape
	all = true
	if c != nil {
		list, room = c.list, room-c.listed
	}
	for i := range fields {
		s := shape{fields[i].Metric, fields[i].Value.Kind()}
		if _, found := slices.BinarySearchFunc(list, s, shape.compare); found || slices.Contains(fresh, s) {
			continue
		}
		n := listedBytes + 2*(len(s.metric)+len(s.kind.String()))
		if len(list)+len(fresh) > 0 && n > room { // the first one always finds room
			all = false
			continue
		}
		room -= n
		fresh = append(fresh, s)
	}
	if len(fresh) == 0 {
		return c, all
	}
	out = &columns{list: append(append(make([]shape, 0, len(list)+len(fresh)), list...), fresh...)}
	slices.SortFunc(out.list, shape.compare)
	h := fnv.New64a()
	for _, s := range out.list {
		_, _ = h.Write([]byte(s.metric))
		_, _ = h.Write([]byte{0, byte(s.kind)})
		out.listed += listedBytes + 2*(len(s.metric)+len(s.kind.String()))
	}
	out.hash = h.Sum64()
	return out, all
}

func (s *seen) span(at int64) {
	if !s.timed {
		s.first, s.last, s.timed = at, at, true
	}
	s.first, s.last = min(s.first, at), max(s.last, at)
}

// label records a value of a label, and reports whether it is new.
func (s *seen) label(l telemetry.Label) bool {
	i, found := slices.BinarySearchFunc(s.labels, l, catalog.CompareLabels)
	if found {
		return false
	}
	if !s.room(pairListed(l)) {
		return s.lack()
	}
	values := 0
	for _, have := range s.labels {
		if have.Name == l.Name {
			values++
		}
	}
	if values >= catalog.MaxLabelValues {
		return false
	}
	l.Value = strings.Clone(l.Value) // bins let go of theirs
	s.own().labels = slices.Insert(s.labels, i, l)
	s.listed += int32(pairListed(l))
	return true
}

// lack records that not all metrics and labels are listed, and reports whether that is new.
func (s *seen) lack() bool {
	if len(s.labels) > 0 && s.labels[0] == catalog.Partial {
		return false
	}
	s.own().labels = slices.Insert(s.labels, 0, catalog.Partial)
	return true
}

// tagsBelow reports whether a tag was seen below an offset, and not since.
func (s *seen) tagsBelow(from int64) bool {
	return slices.ContainsFunc(s.origins, func(o origin) bool { return o.offset < from })
}

// tag records the value of a tag, and reports whether it is new: what was seen below an offset may be out of date.
func (s *seen) tag(t telemetry.Label, o origin, from int64) bool {
	byName := func(a, b telemetry.Label) int { return strings.Compare(a.Name, b.Name) }
	i, found := slices.BinarySearchFunc(s.tags, t, byName)
	isCurrent := found && s.origins[i].offset >= from
	if isCurrent && s.tags[i] == t {
		return false
	}
	grows := pairListed(t)
	if found {
		grows -= pairListed(s.tags[i])
	}
	if !s.room(grows) {
		return false
	}
	s.listed += int32(grows)
	if o.replaces = isCurrent; found {
		s.tags[i], s.origins[i] = t, o
	} else {
		own := s.own()
		own.tags, own.origins = slices.Insert(own.tags, i, t), slices.Insert(own.origins, i, o)
	}
	return true
}

func (s *seen) room(bytes int) bool {
	have := int(s.listed)
	if s.columns != nil {
		have += s.columns.listed
	}
	return have+bytes <= maxEntry
}

func pairListed(l telemetry.Label) int { return 2 * (len(l.Name) + len(l.Value) + listedBytes) }

// bytes returns how many bytes the lists of s take, without the struct itself and the columns.
func (s *seen) bytes() int {
	n := (cap(s.labels)+cap(s.tags))*32 + cap(s.origins)*24
	if s.pairs != noPairs {
		n += pairsBytes
	}
	for _, list := range [][]telemetry.Label{s.labels, s.tags} {
		for i := range list {
			n += (len(list[i].Value) + 15) &^ 15
		}
	}
	return n
}

// entry returns what the catalog is to list of a tenant's device. It shares nothing that changes.
func (s *seen) entry(device string, of *Tenant) catalog.Entry {
	e := catalog.Entry{Device: device, First: s.first, Last: s.last, Labels: slices.Clone(s.labels)}
	if !s.timed {
		e.First, e.Last = 1, 0
	}
	if s.columns != nil {
		e.Metrics = make([]catalog.Metric, len(s.columns.list))
		for i, c := range s.columns.list {
			e.Metrics[i] = catalog.Metric{Name: c.metric, Kind: c.kind, Unit: of.units[c.metric]}
		}
	}
	for i, t := range s.tags {
		from, o := of.Log, s.origins[i]
		from.Through = o.offset
		e.Tags = append(e.Tags, catalog.Tag{
			Name: t.Name, Value: t.Value, Source: from, Updated: o.time, Replaces: o.replaces})
	}
	return e
}
