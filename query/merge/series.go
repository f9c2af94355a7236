package merge

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"sort"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Curve is one series within the range: the hours that rollups cover, and all other values of a device, label set and
// metric.
type Curve struct {
	Device    string
	Labels    telemetry.Labels
	Metric    string
	Stretches []Stretch   // sorted by time, disjoint
	Rollups   []RollupRow // unsorted, disjoint
}

// compare compares series of one device by labels and metric.
func (c Curve) compare(other Curve) int {
	return cmp.Or(c.Labels.Compare(other.Labels), strings.Compare(c.Metric, other.Metric))
}

// Stretch is consecutive values of a series that are of one kind. It may share memory with others: it must not be
// changed.
type Stretch struct {
	Kind  telemetry.Kind
	Times []int64  // ms since 1970 UTC, strictly ascending
	Bits  []uint64 // telemetry.Value.Bits, one per instant; nil for text
	Texts []string // one per instant; nil for the other kinds
}

// Value returns the i-th value.
func (s *Stretch) Value(i int) telemetry.Value {
	if s.Kind == telemetry.Text {
		return telemetry.TextValue(s.Texts[i])
	}
	return telemetry.BitsValue(s.Kind, s.Bits[i])
}

// Series makes curves of the pieces and rollups of a request without order. It is owned by one goroutine.
type Series struct {
	collected
	cfg    Config
	wanted func(string) bool // devices
	parts  partHeap
}

// NewSeries collects pieces, encoded, and rollups until Each is called. Devices are those asked for, nil for all.
func NewSeries(cfg Config, devices []string) *Series {
	return &Series{cfg: cfg, wanted: chunk.Wanted(devices)}
}

// Begin leaves out what is before an instant. It is called before Each.
func (s *Series) Begin(at int64) { s.cfg.begin(at) }

// Each calls yield with every series that has values or rollups, in the order of device, labels and metric. A curve is
// valid until yield returns; an error of yield ends it and is returned as it is. It is called once, after the read.
func (s *Series) Each(yield func(Curve) error) error {
	if s.cfg.Range.Empty() {
		return nil
	}
	heap.Init(&s.parts)
	names := slices.Sorted(maps.Keys(s.devices))
	var rows []labelledRow
	for len(names) > 0 || len(s.parts) > 0 {
		var device string
		if len(s.parts) > 0 {
			device = s.parts[0].device()
		}
		if len(names) > 0 && (len(s.parts) == 0 || names[0] <= device) {
			device, names = names[0], names[1:]
		}
		curves, bytes, err := s.cfg.curves(device, s.devices[device])
		if err != nil {
			return err
		}
		delete(s.devices, device)
		for rows = rows[:0]; len(s.parts) > 0 && s.parts[0].device() == device; {
			if rows, err = s.take(rows); err != nil {
				return err
			}
		}
		for _, c := range join(curves, device, rows) {
			if err := yield(c); err != nil {
				return err
			}
		}
		s.cfg.Memory.Give(bytes)
	}
	return nil
}

// strand is the values of one series and kind from one piece.
type strand struct {
	source store.Source
	group  int // index in its piece; the lowest wins
	labels telemetry.Labels
	Stretch
}

// curves decodes all pieces of a device and merges their values by series. The caller gives back the bytes of memory.
func (c *Config) curves(device string, pieces []*piece.Piece) (out []Curve, bytes int64, err error) {
	if len(pieces) == 0 {
		return nil, 0, nil
	}
	strands := make(map[seriesOf][]strand)
	wanted := chunk.Wanted(c.Metrics)
	var key []byte
	for _, p := range pieces {
		if p.To < c.Range.From {
			p.Release()
			continue
		}
		source, decode := p.Source, c.decode
		if c.Newest && !slices.ContainsFunc(pieces, func(q *piece.Piece) bool { // else texts of q may hide p's last row
			return q != p && q.From <= p.To && p.To <= q.To
		}) {
			decode = c.newest
		}
		f, n, err := decode(p)
		bytes += n
		if err != nil {
			return nil, bytes, err
		}
		for i := range f.Groups {
			g := &f.Groups[i]
			key = g.Labels.AppendKey(key[:0])
			labels := string(key)
			for j := range g.Columns {
				col := &g.Columns[j]
				if !wanted(col.Metric) {
					continue
				}
				for _, r := range without(c.Range, p.Except) {
					if s := stretchOf(g.Times, col, r); len(s.Times) > 0 {
						of := seriesOf{labels, col.Metric}
						strands[of] = append(strands[of], strand{source, i, g.Labels, s})
					}
				}
			}
		}
	}
	for of, s := range strands {
		out = append(out, Curve{Device: device, Labels: s[0].labels, Metric: of.metric, Stretches: joined(s)})
	}
	slices.SortFunc(out, Curve.compare)
	return out, bytes, nil
}

// without returns the parts of a range outside of another one.
func without(r, hole telemetry.Range) []telemetry.Range {
	if hole.Empty() {
		return []telemetry.Range{r}
	}
	return []telemetry.Range{{From: r.From, To: min(r.To, hole.From)}, {From: max(r.From, hole.To), To: r.To}}
}

// stretchOf returns a column's values within a range.
func stretchOf(times []int64, col *chunk.Column, r telemetry.Range) Stretch {
	if col.Present != nil {
		present := make([]int64, 0, col.Len())
		for i, t := range times {
			if col.Present.Has(i) {
				present = append(present, t)
			}
		}
		times = present
	}
	from := sort.Search(len(times), func(i int) bool { return times[i] >= r.From })
	to := max(from, sort.Search(len(times), func(i int) bool { return times[i] >= r.To }))
	s := Stretch{Kind: col.Kind, Times: times}
	if col.Kind == telemetry.Text {
		s.Texts = col.Texts
	} else {
		s.Bits = col.Bits
	}
	return s.slice(from, to)
}

func (s Stretch) slice(from, to int) Stretch {
	s.Times = s.Times[from:to]
	if s.Kind == telemetry.Text {
		s.Texts = s.Texts[from:to]
	} else {
		s.Bits = s.Bits[from:to]
	}
	return s
}

func (s *Stretch) first() int64 { return s.Times[0] }
func (s *Stretch) last() int64  { return s.Times[len(s.Times)-1] }

// joined returns the strands of one series as stretches. Strands that no other overlaps, as a rule all, stay as they
// are.
func joined(strands []strand) []Stretch {
	slices.SortFunc(strands, func(a, b strand) int { return cmp.Compare(a.first(), b.first()) })
	var out []Stretch
	for i := 0; i < len(strands); {
		j, end := i+1, strands[i].last()
		for j < len(strands) && strands[j].first() <= end {
			end = max(end, strands[j].last())
			j++
		}
		if j == i+1 {
			out = append(out, strands[i].Stretch)
		} else {
			out = append(out, braided(strands[i:j])...)
		}
		i = j
	}
	return out
}

// braided merges overlapping strands: at each instant the value of the highest source wins (rule R5).
func braided(strands []strand) (out []Stretch) {
	type sample struct {
		time      int64
		strand, i int
	}
	var all []sample
	for n := range strands {
		for i, t := range strands[n].Times {
			all = append(all, sample{t, n, i})
		}
	}
	slices.SortFunc(all, func(a, b sample) int {
		return cmp.Or(cmp.Compare(a.time, b.time), strands[b.strand].source.Compare(strands[a.strand].source),
			cmp.Compare(strands[a.strand].group, strands[b.strand].group))
	})
	all = slices.CompactFunc(all, func(a, b sample) bool { return a.time == b.time })
	for _, x := range all {
		from := &strands[x.strand]
		if n := len(out); n == 0 || out[n-1].Kind != from.Kind {
			out = append(out, Stretch{Kind: from.Kind})
		}
		last := &out[len(out)-1]
		last.Times = append(last.Times, x.time)
		if from.Kind == telemetry.Text {
			last.Texts = append(last.Texts, from.Texts[x.i])
		} else {
			last.Bits = append(last.Bits, from.Bits[x.i])
		}
	}
	return out
}
