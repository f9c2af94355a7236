package decode

import (
	"slices"

	"binnacle/internal/telemetry"
)

// groups gathers points that come one by one, as OTLP, remote write and SenML have them, into readings: the points of
// one source, label set and instant are one reading. Readings stand in the order of their first points.
type groups struct {
	known  map[groupKey]int32
	all    []group
	points []point
	next   int32 // where the next point belongs most likely: metrics come with the same series in the same order
}

// pointSource is where a point comes from: its element of the payload, and a number for each sender.
type pointSource struct {
	index  int
	source int32
}

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
	count   int
}

type point struct {
	group int32
	field telemetry.Field
}

func (g *groups) reset() {
	if g.known == nil || cap(g.points) > maxKept {
		*g = groups{known: map[groupKey]int32{}}
	}
	clear(g.known)
	clear(g.all)
	clear(g.points)
	g.all, g.points, g.next = g.all[:0], g.points[:0], 0
}

// add adds a point of a source to the reading with the place, time, labels and tags of r.
func (g *groups) add(from pointSource, r *telemetry.Reading, f telemetry.Field) {
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
		if !ok {
			known = int32(len(g.all))
			g.known[key] = known
			g.all = append(g.all, group{key: key, reading: *r, index: from.index})
		}
		at = known
	}
	g.all[at].count++
	g.next = at + 1
	g.points = append(g.points, point{at, f})
}

func (d *Decoder) endGroups() {
	g := &d.groups
	from := len(d.fields)
	d.fields = slices.Grow(d.fields, len(g.points))[:from+len(g.points)]
	end := from
	for i := range g.all {
		begin := end
		end += g.all[i].count
		g.all[i].count = begin // from here on: where its next field goes
	}
	for _, p := range g.points {
		to := &g.all[p.group].count
		d.fields[*to] = p.field
		*to++
	}
	begin := from
	for i := range g.all {
		x := &g.all[i]
		r := x.reading
		r.Fields = sortFields(d.fields[begin:x.count:x.count])
		r.Fields = r.Fields[:len(r.Fields):len(r.Fields)]
		begin = x.count
		d.out.Readings = append(d.out.Readings, r)
		d.out.Index = append(d.out.Index, x.index)
	}
}
