package merge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Group is what series have in common that are aggregated together.
type Group struct {
	Device string           // "" for all devices together
	Labels telemetry.Labels // labels of By
	Tags   telemetry.Labels // the device's tags of By
	Metric string
}

func (g *Group) compare(h *Group) int {
	return cmp.Or(strings.Compare(g.Device, h.Device), g.Labels.Compare(h.Labels), g.Tags.Compare(h.Tags),
		strings.Compare(g.Metric, h.Metric))
}

func (g *Group) key() string {
	b := append([]byte(g.Device), 0)
	b = append(append(b, g.Metric...), 0)
	b = g.Labels.AppendKey(b)
	return string(g.Tags.AppendKey(append(b, 0)))
}

// By says which series are aggregated together.
type By struct {
	Device       bool
	Labels, Tags []string
	TagsOf       func(device string) (telemetry.Labels, error) // called only if there are Tags
}

// Fill selects the value of an empty bucket.
type Fill string

// The ways to fill.
const (
	NoFill       Fill = "none"     // it is left out
	FillNull     Fill = "null"     // no value; a count is 0
	FillPrevious Fill = "previous" // the value of the bucket before
	FillLinear   Fill = "linear"   // on the line between the values of the buckets around it
)

// Fills is all of them.
var Fills = []Fill{NoFill, FillNull, FillPrevious, FillLinear}

// Aggregation says which aggregates to make of a range.
type Aggregation struct {
	Buckets    Buckets
	Aggregates []Aggregate
	By         *By // nil: each series for itself
	Fill       Fill
}

// Aggregated is the values of a group in a bucket, one for each aggregate, NaN for none.
type Aggregated struct {
	Group
	Start, End int64
	Values     []float64 // valid until yield returns
}

// Grouped makes aggregates of the pieces of a request without order, device by device. It is owned by one goroutine.
type Grouped struct {
	collected
	cfg    Config
	ask    Aggregation
	needs  needs
	groups map[string]*group
	held   int64 // bytes of groups
}

// group is a group so far.
type group struct {
	Group
	buckets map[int]*bucket
}

// What a group, a bucket and a series take in the maps that they are in.
const (
	groupBytes  = 256
	bucketBytes = 288
	followBytes = 200
)

// NewGrouped collects pieces, encoded, until Each is called. The range of cfg must lie in the buckets.
func NewGrouped(cfg Config, ask Aggregation) *Grouped {
	g := &Grouped{cfg: cfg, ask: ask, groups: make(map[string]*group)}
	for _, a := range ask.Aggregates {
		g.needs = g.needs.with(a.needs)
	}
	return g
}

// Each calls yield with every group and bucket, in the order of device, labels, tags, metric and bucket. An error of
// yield ends it and is returned as it is. It is called once, when all pieces are there.
func (g *Grouped) Each(yield func(Aggregated) error) error {
	apart := g.ask.By == nil || g.ask.By.Device
	err := g.each(func(device string, pieces []*piece.Piece) error {
		if err := g.device(device, pieces); err != nil || !apart {
			return err
		}
		return g.emit(yield)
	})
	if err != nil {
		return err
	}
	return g.emit(yield)
}

// device aggregates the pieces of a device in the order of time; overlapping pieces are merged first.
func (g *Grouped) device(device string, pieces []*piece.Piece) error {
	d := &deviceGroups{Grouped: g, device: device, series: make(map[seriesOf]*follower)}
	if g.ask.By != nil && len(g.ask.By.Tags) > 0 {
		var err error
		if d.tags, err = g.ask.By.TagsOf(device); err != nil {
			return err
		}
	}
	err := overlapping(pieces, func(some []*piece.Piece) error {
		if len(some) == 1 && g.standsFor(some[0]) {
			return d.takeWhole(some[0])
		}
		return d.decode(some)
	})
	if err != nil {
		return err
	}
	for _, f := range d.series {
		f.flush()
	}
	g.cfg.Memory.Give(d.bytes)
	return nil
}

// standsFor reports whether the statistics of a piece that nothing overlaps may stand for its rows (rule R6). They do
// not say which of two series, or of two types, has the first value.
func (g *Grouped) standsFor(p *piece.Piece) bool {
	if g.needs.moments || g.needs.values || g.needs.pairs || g.needs.ends && g.ask.By != nil {
		return false
	}
	r := g.cfg.Range
	if p.Chunk == nil || !p.Chunk.Header.Unique || p.Chunk.HasEmptyLabels() || !r.Contains(p.From) || !r.Contains(p.To) ||
		!g.ask.Buckets.holds(g.ask.Buckets.of(p.From, 0), p.To) {
		return false
	}
	wanted := chunk.Wanted(g.cfg.Metrics)
	var before chunk.ColumnInfo
	for i, c := range p.Chunk.Columns() {
		if !wanted(c.Metric) {
			continue
		}
		if c.Stats.Count > 0 && c.Kind != telemetry.Text && c.Stats.Sum.Kind() == 0 {
			return false // the sum as a float may be one
		}
		if g.needs.ends && i > 0 && c.Metric == before.Metric && c.Labels.Compare(before.Labels) == 0 {
			return false
		}
		before = c
	}
	return true
}

// deviceGroups aggregates one device.
type deviceGroups struct {
	*Grouped
	device string
	tags   telemetry.Labels
	series map[seriesOf]*follower
	bytes  int64
}

// seriesOf names a series of one device.
type seriesOf struct{ labels, metric string }

func (d *deviceGroups) takeWhole(p *piece.Piece) error {
	defer p.Release()
	wanted := chunk.Wanted(d.cfg.Metrics)
	at := d.ask.Buckets.of(p.From, 0)
	for _, c := range p.Chunk.Columns() {
		if !wanted(c.Metric) || c.Stats.Count == 0 {
			continue
		}
		f, err := d.follow(c.Labels, c.Metric)
		if err != nil {
			return err
		}
		b, err := d.bucket(f.group, at)
		if err != nil {
			return err
		}
		b.takeWhole(&c.Stats, p.From, p.To)
	}
	return nil
}

func (d *deviceGroups) decode(pieces []*piece.Piece) error {
	curves, bytes, err := d.cfg.curves(d.device, pieces)
	if err != nil {
		return err
	}
	defer d.cfg.Memory.Give(bytes)
	for i := range curves {
		c := &curves[i]
		f, err := d.follow(c.Labels, c.Metric)
		if err != nil {
			return err
		}
		for k := range c.Stretches {
			if err := d.stretch(f, &c.Stretches[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *deviceGroups) follow(labels telemetry.Labels, metric string) (*follower, error) {
	of := seriesOf{string(labels.AppendKey(nil)), metric}
	if f := d.series[of]; f != nil {
		return f, nil
	}
	f := &follower{buckets: &d.ask.Buckets, at: -1}
	d.series[of] = f
	if err := d.cfg.Memory.Take(followBytes); err != nil {
		return nil, err
	}
	d.bytes += followBytes
	named := Group{Device: d.device, Labels: labels, Metric: metric}
	if by := d.ask.By; by != nil {
		named.Labels, named.Tags = only(labels, by.Labels), only(d.tags, by.Tags)
		if !by.Device {
			named.Device = ""
		}
	}
	key := named.key()
	if d.groups[key] == nil {
		d.groups[key] = &group{Group: named, buckets: make(map[int]*bucket)}
		if err := d.hold(groupBytes + int64(len(key))); err != nil {
			return nil, err
		}
	}
	f.group = d.groups[key]
	return f, nil
}

// only returns the labels of some names.
func only(labels telemetry.Labels, names []string) (out telemetry.Labels) {
	for _, l := range labels {
		if slices.Contains(names, l.Name) {
			out = append(out, l)
		}
	}
	return out
}

func (g *Grouped) bucket(of *group, i int) (*bucket, error) {
	b := of.buckets[i]
	if b == nil {
		b = &bucket{}
		of.buckets[i] = b
		return b, g.hold(bucketBytes)
	}
	return b, nil
}

func (g *Grouped) hold(bytes int64) error {
	err := g.cfg.Memory.Take(bytes)
	if err == nil {
		g.held += bytes
	}
	return err
}

// stretch takes the next values of a series.
func (d *deviceGroups) stretch(f *follower, s *Stretch) error {
	for i, at := range s.Times {
		if s.Kind == telemetry.Float && !isFinite(s.Bits[i]) {
			continue
		}
		if n := d.ask.Buckets.of(at, max(f.at, 0)); n != f.at || f.in == nil {
			b, err := d.bucket(f.group, n)
			if err != nil {
				return err
			}
			f.enter(n, b)
		}
		if s.Kind == telemetry.Text {
			f.in.count++
			continue
		}
		v := numberOf(s.Value(i))
		if more := f.in.take(at, v, d.needs); more > 0 {
			if err := d.hold(more); err != nil {
				return err
			}
		}
		if d.needs.pairs {
			f.pair(at, v)
		}
	}
	return nil
}

func isFinite(bits uint64) bool {
	f := math.Float64frombits(bits)
	return !math.IsNaN(f) && !math.IsInf(f, 0)
}

// follower follows a series in the order of time.
type follower struct {
	group   *group
	buckets *Buckets
	at      int     // the bucket of the value that came last, -1 before the first one
	in      *bucket // the bucket at

	known    bool // it has had a number
	last     float64
	lastAt   int64
	lastIn   *bucket
	lastEnd  int64 // end of lastIn
	pairs    int   // with their second one in this bucket
	since    int64
	increase float64
}

func (f *follower) enter(i int, b *bucket) {
	f.flush()
	f.at, f.in = i, b
}

// flush adds to the bucket how fast the series rose in it.
func (f *follower) flush() {
	if f.pairs > 0 {
		f.in.rate += f.increase / (float64(f.lastAt-f.since) / 1000)
	}
	f.pairs, f.increase = 0, 0
}

// pair takes a number and what lies between it and the one before.
func (f *follower) pair(at int64, v float64) {
	if f.known {
		rise := v - f.last
		f.in.delta += rise
		if rise < 0 { // a counter reset
			rise = v
		}
		f.in.increase += rise
		if f.pairs == 0 {
			f.since = f.lastAt
		}
		f.in.pairs++
		f.pairs++
		f.increase += rise
		f.hold(at)
	}
	f.known, f.last, f.lastAt, f.lastIn, f.lastEnd = true, v, at, f.in, f.buckets.End(f.at)
}

// hold adds the time until the next number, during which the last one held, to the buckets of both.
func (f *follower) hold(until int64) {
	from := f.lastAt
	if f.lastIn != f.in {
		f.lastIn.hold(f.last, f.lastEnd-from)
		from = f.buckets.Start(f.at)
	}
	f.in.hold(f.last, until-from)
}

// emit yields all groups, and drops them.
func (g *Grouped) emit(yield func(Aggregated) error) error {
	for _, one := range slices.SortedFunc(maps.Values(g.groups), func(a, b *group) int { return a.compare(&b.Group) }) {
		if err := g.emitGroup(one, yield); err != nil {
			return err
		}
	}
	clear(g.groups)
	g.cfg.Memory.Give(g.held)
	g.held = 0
	return nil
}

// emitGroup yields the buckets of a group, filled as was asked.
func (g *Grouped) emitGroup(of *group, yield func(Aggregated) error) error {
	at := slices.Sorted(maps.Keys(of.buckets))
	if len(at) == 0 {
		return nil // no value of it was finite
	}
	width := len(g.ask.Aggregates)
	values := make([]float64, width*len(at))
	bytes := int64(8 * (len(values) + len(at)))
	if err := g.cfg.Memory.Take(bytes); err != nil {
		return err
	}
	defer func() { g.cfg.Memory.Give(bytes) }()
	for i, n := range at {
		for k := range g.ask.Aggregates {
			a := &g.ask.Aggregates[k]
			values[i*width+k] = a.of(of.buckets[n], a)
		}
	}
	out := Aggregated{Group: of.Group}
	give := func(n int, row []float64) error {
		out.Start, out.End, out.Values = g.ask.Buckets.Start(n), g.ask.Buckets.End(n), row
		return yield(out)
	}
	if g.ask.Fill == NoFill || g.ask.Fill == "" {
		for i, n := range at {
			if err := give(n, values[i*width:][:width]); err != nil {
				return err
			}
		}
		return nil
	}
	row := make([]float64, width)
	fills := make([]filler, width)
	for k := range fills {
		fills[k] = filler{fill: g.ask.Fill, buckets: &g.ask.Buckets, at: at, values: values[k:], width: width, before: -1}
		if g.ask.Aggregates[k].name == "count" {
			fills[k].fill = FillNull
		}
	}
	for n := range g.ask.Buckets.Len() {
		for k := range fills {
			row[k] = fills[k].value(n)
			if math.IsNaN(row[k]) && g.ask.Aggregates[k].name == "count" {
				row[k] = 0
			}
		}
		if err := give(n, row); err != nil {
			return err
		}
	}
	return nil
}

// filler fills the values of one aggregate of a group.
type filler struct {
	fill    Fill
	buckets *Buckets
	at      []int     // the buckets with values
	values  []float64 // one for each bucket in at, width apart
	width   int

	before int // among at, the last one with a value that lies at or before the bucket; -1 for none
	next   int // among at, the first one with a value that lies behind it
}

func (f *filler) of(i int) float64 { return f.values[i*f.width] }

// value returns the value of a bucket. Buckets must ascend.
func (f *filler) value(n int) float64 {
	for f.next < len(f.at) && (f.at[f.next] <= n || math.IsNaN(f.of(f.next))) {
		if !math.IsNaN(f.of(f.next)) {
			f.before = f.next
		}
		f.next++
	}
	switch {
	case f.before < 0:
		return none
	case f.at[f.before] == n || f.fill == FillPrevious:
		return f.of(f.before)
	case f.fill == FillLinear && f.next < len(f.at):
		from, to := f.buckets.Start(f.at[f.before]), f.buckets.Start(f.at[f.next])
		weight := float64(f.buckets.Start(n)-from) / float64(to-from)
		return f.of(f.before)*(1-weight) + f.of(f.next)*weight
	}
	return none
}
