package decode

import (
	"slices"

	"binnacle/internal/telemetry"
)

// groups gathers points that come one by one, as OTLP, remote write and SenML have them, into readings: the points of
// one source, label set and instant are one reading. Readings stand in the order of their first points.
type groups struct {
	known   map[groupKey]int32
	senders map[senderKey]int32 // a number for each
	all     []group
	points  []point
	next    int32 // where the next point belongs most likely: metrics come with the same series in the same order
	shared  bool  // a device has several sources
}

// pointSource is where a point comes from: its element of the payload, numbers for its source and for the device, which
// several sources may share, and how many nanoseconds after its millisecond it was.
type pointSource struct {
	index          int
	source, sender int32
	rest           int32
}

type senderKey struct{ tenant, device string }

// groupKey identifies a reading. Label sets of one Decoder are the same slice when they are equal, or else, seldom,
// another group and so another reading of the same row.
type groupKey struct {
	source int32
	time   int64
	first  *telemetry.Label
	size   int
}

type group struct {
	key     groupKey
	reading telemetry.Reading
	index   int
	sender  int32
	count   int
}

type point struct {
	group, rest int32
	index       int
	field       telemetry.Field
}

func (g *groups) reset() {
	if g.known == nil || cap(g.points) > maxKept {
		*g = groups{known: map[groupKey]int32{}, senders: map[senderKey]int32{}}
	}
	clear(g.known)
	clear(g.senders)
	clear(g.all)
	clear(g.points)
	g.all, g.points, g.next, g.shared = g.all[:0], g.points[:0], 0, false
}

// sender returns the number of a tenant's device, and whether it is new.
func (g *groups) sender(tenant, device string) (number int32, isNew bool) {
	key := senderKey{tenant, device}
	number, known := g.senders[key]
	if !known {
		number = int32(len(g.senders))
		g.senders[key] = number
	}
	return number, !known
}

// add adds a point of a source to the reading with the place, time, labels and tags of r. It reports whether that is a
// new one.
func (g *groups) add(from pointSource, r *telemetry.Reading, f telemetry.Field) (begun bool) {
	key := groupKey{source: from.source, time: r.Time, size: len(r.Labels)}
	if key.size > 0 {
		key.first = &r.Labels[0]
	}
	at := g.next
	switch {
	case int(at) < len(g.all) && g.all[at].key == key:
	case at > 0 && g.all[at-1].key == key:
		at--
	default:
		known, ok := g.known[key]
		if begun = !ok; begun {
			known = int32(len(g.all))
			g.known[key] = known
			g.all = append(g.all, group{key: key, reading: *r, index: from.index, sender: from.sender})
		}
		at = known
	}
	g.all[at].count++
	g.next = at + 1
	g.points = append(g.points, point{at, from.rest, from.index, f})
	return begun
}

// group adds a point to a reading of d.groups, and counts it.
func (d *Decoder) group(from pointSource, r *telemetry.Reading, f telemetry.Field) {
	n := fieldCost(&f)
	if d.groups.add(from, r, f) {
		n += readingBytes + d.made.sets(r)
	}
	d.made.message = 0
	d.made.add(n)
}

// endGroups makes readings of the groups. Of points of a series in one millisecond the last one counts; one that has
// the same time as an earlier one, and another value, is refused: two names may have become one.
func (d *Decoder) endGroups() {
	if ambiguous := d.layOut(); (ambiguous || d.groups.rowsRepeat()) && d.refusePoints() {
		d.layOut()
	}
}

// rowsRepeat reports whether two groups are of the same device, labels and time, from different sources.
func (g *groups) rowsRepeat() bool {
	if !g.shared {
		return false
	}
	rows := make(map[groupKey]bool, len(g.all))
	for i := range g.all {
		row := g.all[i].rowKey()
		if rows[row] {
			return true
		}
		rows[row] = true
	}
	return false
}

// rowKey returns the key of a group without its source.
func (x *group) rowKey() groupKey {
	row := x.key
	row.source = x.sender
	return row
}

// layOut makes readings of the groups, and reports whether a metric has two values in one of them.
func (d *Decoder) layOut() (ambiguous bool) {
	g := &d.groups
	d.out.Readings, d.out.Index, d.fields.sorted = d.out.Readings[:0], d.out.Index[:0], d.fields.sorted[:0]
	laid := slices.Grow(d.fields.came[:0], len(g.points))[:len(g.points)]
	d.fields.came = laid
	end := 0
	for i := range g.all {
		begin := end
		end += g.all[i].count
		g.all[i].count = begin // from now on count is the place of the group's next field
	}
	for _, p := range g.points {
		to := &g.all[p.group].count
		laid[*to] = p.field
		*to++
	}
	begin := 0
	for i := range g.all {
		x := &g.all[i]
		if x.count == begin {
			continue // all of its points are refused
		}
		r := x.reading
		var twice string
		r.Fields, twice = d.fields.sort(laid[begin:x.count])
		begin, ambiguous = x.count, ambiguous || twice != ""
		d.out.Readings = append(d.out.Readings, r)
		d.out.Index = append(d.out.Index, x.index)
	}
	return ambiguous
}

// refusePoints refuses every point that has the series and time of an earlier one and another value, and reports
// whether it has refused any. It counts every group's points again.
func (d *Decoder) refusePoints() bool {
	type instant struct {
		row    groupKey
		rest   int32
		metric string
	}
	g := &d.groups
	first := make(map[instant]telemetry.Value, len(g.points))
	kept := g.points[:0]
	for i := range g.all {
		g.all[i].count = 0
	}
	for _, p := range g.points {
		x := &g.all[p.group]
		at := instant{x.rowKey(), p.rest, p.field.Metric}
		if v, known := first[at]; known && v != p.field.Value {
			d.addBad(p.index, faultf(Name, "the metric %q has two values at one instant", p.field.Metric))
			continue
		}
		first[at] = p.field.Value
		kept = append(kept, p)
		x.count++
	}
	refused := len(g.points) > len(kept)
	g.points = kept
	return refused
}
