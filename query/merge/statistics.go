package merge

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

// Statistic sums up the values of one kind that a series has in a bucket. Of an instant that several pieces have, only
// the newest value counts, whatever its kind.
type Statistic struct {
	Device string
	Labels telemetry.Labels
	Metric string
	Kind   telemetry.Kind
	Start  int64 // start of the bucket, ms since 1970 UTC
	chunk.Stats
}

// Statistics makes statistics of the pieces of a request without order. A float's sum is as exact as a compensated one,
// but its last bits depend on which chunks were decoded. It is owned by one goroutine.
type Statistics struct {
	collected
	cfg  Config
	step int64

	sums map[sumOf]*sum // of one device
	held int64          // bytes of sums
}

// NewStatistics collects pieces, encoded, until Each is called. Buckets are [Range.From + k*step, Range.From +
// (k+1)*step), cut at the range's end; a step of 0 makes one bucket of the range.
func NewStatistics(cfg Config, step int64) *Statistics {
	if step == 0 {
		step = math.MaxInt64
	}
	return &Statistics{cfg: cfg, step: step, sums: make(map[sumOf]*sum)}
}

// Each calls yield with every statistic of at least one value, in the order of device, labels, metric, kind and bucket.
// An error of yield ends it and is returned as it is. It is called once, when all pieces are there.
func (s *Statistics) Each(yield func(Statistic) error) error {
	return s.each(func(device string, pieces []*piece.Piece) error {
		all, err := s.device(device, pieces)
		for _, x := range all {
			if err := yield(x); err != nil {
				return err
			}
		}
		clear(s.sums)
		s.cfg.Memory.Give(s.held)
		s.held = 0
		return err
	})
}

// device sums up the pieces of a device in the order of time; overlapping pieces are merged first.
func (s *Statistics) device(device string, pieces []*piece.Piece) ([]Statistic, error) {
	err := overlapping(pieces, func(some []*piece.Piece) error {
		if len(some) == 1 && s.standsFor(some[0]) {
			return s.take(some[0])
		}
		return s.decode(some)
	})
	if err != nil {
		return nil, err
	}
	out := make([]Statistic, 0, len(s.sums))
	for of, x := range s.sums {
		out = append(out, Statistic{device, x.labels, of.metric, of.kind, of.start, x.stats()})
	}
	slices.SortFunc(out, func(a, b Statistic) int {
		return cmp.Or(a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Start, b.Start))
	})
	return out, nil
}

// standsFor reports whether the statistics of a piece that nothing overlaps may stand for its rows (rule R6).
func (s *Statistics) standsFor(p *piece.Piece) bool {
	return p.Chunk != nil && p.Chunk.Header.Unique && !p.Chunk.HasEmptyLabels() && s.cfg.Range.Contains(p.From) &&
		s.cfg.Range.Contains(p.To) && s.bucket(p.From) == s.bucket(p.To)
}

// bucket returns the start of the bucket that an instant lies in.
func (s *Statistics) bucket(time int64) int64 {
	return time - (time-s.cfg.Range.From)%s.step
}

func (s *Statistics) take(p *piece.Piece) error {
	defer p.Release()
	wanted := chunk.Wanted(s.cfg.Metrics)
	for _, c := range p.Chunk.Columns() {
		if !wanted(c.Metric) {
			continue
		}
		if err := s.add(c.Labels, sumOf{metric: c.Metric, kind: c.Kind, start: s.bucket(p.From)}, c.Stats); err != nil {
			return err
		}
	}
	return nil
}

func (s *Statistics) decode(pieces []*piece.Piece) error {
	curves, bytes, err := s.cfg.curves("", pieces)
	if err != nil {
		return err
	}
	for _, c := range curves {
		for _, x := range c.Stretches {
			for from := 0; from < len(x.Times); {
				start := s.bucket(x.Times[from])
				to := from + 1
				for to < len(x.Times) && s.bucket(x.Times[to]) == start {
					to++
				}
				part := x.slice(from, to)
				col := chunk.Column{Metric: c.Metric, Kind: part.Kind, Bits: part.Bits, Texts: part.Texts}
				of := sumOf{metric: c.Metric, kind: part.Kind, start: start}
				if err := s.add(c.Labels, of, chunk.StatsOf(&col)); err != nil {
					return err
				}
				from = to
			}
		}
	}
	s.cfg.Memory.Give(bytes)
	return nil
}

type sumOf struct {
	labels, metric string
	kind           telemetry.Kind
	start          int64
}

// sumBytes is about what a sum takes, without its key, in the map and in the list that is made of it.
const sumBytes = 640

// add adds the statistics of later values to a sum of the device.
func (s *Statistics) add(labels telemetry.Labels, of sumOf, x chunk.Stats) error {
	of.labels = string(labels.AppendKey(nil))
	into := s.sums[of]
	if into == nil {
		into = &sum{labels: labels}
		s.sums[of] = into
		bytes := sumBytes + int64(len(of.labels))
		if err := s.cfg.Memory.Take(bytes); err != nil {
			return err
		}
		s.held += bytes
	}
	into.add(x)
	return nil
}

// sum adds up statistics of consecutive times.
type sum struct {
	labels telemetry.Labels
	total  chunk.Stats
	none   bool        // one of the sums was none: it overflowed
	floats compensated // the same sum as chunk.Stats has
	ints   int64
}

// add takes the statistics of later values.
func (s *sum) add(x chunk.Stats) {
	t := &s.total
	t.NaN, t.PosInf, t.NegInf = t.NaN+x.NaN, t.PosInf+x.PosInf, t.NegInf+x.NegInf
	if x.Count == 0 {
		return
	}
	first := t.Count == 0
	t.Count += x.Count
	if x.First.Kind() == 0 { // text
		return
	}
	if first {
		t.First, t.Min, t.Max = x.First, x.Min, x.Max
	} else {
		t.Min, t.Max = lesser(t.Min, x.Min), greater(t.Max, x.Max)
	}
	t.Last = x.Last
	switch x.Sum.Kind() {
	case telemetry.Float:
		s.floats.add(x.Sum.Float())
	case telemetry.Int:
		next := s.ints + x.Sum.Int()
		s.none = s.none || (next > s.ints) != (x.Sum.Int() > 0)
		s.ints = next
	default:
		s.none = true
	}
}

func (s *sum) stats() chunk.Stats {
	out := s.total
	switch kind := out.First.Kind(); {
	case out.Count == 0 || kind == 0 || s.none:
	case kind == telemetry.Float:
		if x := s.floats.total(); !math.IsInf(x, 0) && !math.IsNaN(x) {
			out.Sum = telemetry.FloatValue(x)
		}
	default:
		out.Sum = telemetry.IntValue(s.ints)
	}
	return out
}

func lesser(a, b telemetry.Value) telemetry.Value {
	if a.Kind() == telemetry.Float {
		return telemetry.FloatValue(min(a.Float(), b.Float()))
	}
	if int64(b.Bits()) < int64(a.Bits()) {
		return b
	}
	return a
}

func greater(a, b telemetry.Value) telemetry.Value {
	if a.Kind() == telemetry.Float {
		return telemetry.FloatValue(max(a.Float(), b.Float()))
	}
	if int64(b.Bits()) > int64(a.Bits()) {
		return b
	}
	return a
}

// Last is the newest value of a series within a range.
type Last struct {
	Device string
	Labels telemetry.Labels
	Metric string
	Time   int64 // ms since 1970 UTC
	Value  telemetry.Value
}

// Latest finds the newest value of each series. For each device it decodes the newest piece, and older pieces only
// where they may hold a newer value, or a series without a value so far. It is owned by one goroutine.
type Latest struct {
	collected
	cfg Config
}

// NewLatest collects pieces, encoded, until Each is called.
func NewLatest(cfg Config) *Latest { return &Latest{cfg: cfg} }

// Each calls yield with the newest value of each series, sorted by device, labels and metric. An error of yield ends
// the walk and is returned as it is. The caller calls Each once, after the last piece.
func (l *Latest) Each(yield func(Last) error) error {
	return l.each(func(device string, pieces []*piece.Piece) error {
		all, err := l.device(pieces)
		for _, x := range all {
			x.Device = device
			if err := yield(x.Last); err != nil {
				return err
			}
		}
		return err
	})
}

// candidate is the newest value of a series so far, and where it came from.
type candidate struct {
	Last
	source store.Source
}

func (l *Latest) device(pieces []*piece.Piece) ([]*candidate, error) {
	slices.SortStableFunc(pieces, func(a, b *piece.Piece) int { return cmp.Compare(b.To, a.To) })
	found := make(map[seriesOf]*candidate)
	wanted := chunk.Wanted(l.cfg.Metrics)
	for _, p := range pieces {
		if l.olderThan(p, found, wanted) {
			p.Release()
			continue
		}
		if err := l.take(p, found, wanted); err != nil {
			return nil, err
		}
	}
	out := slices.Collect(maps.Values(found))
	slices.SortFunc(out, func(a, b *candidate) int {
		return cmp.Or(a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric))
	})
	return out, nil
}

// olderThan reports whether all that a chunk may have was found already at a later instant.
func (l *Latest) olderThan(p *piece.Piece, found map[seriesOf]*candidate, wanted func(string) bool) bool {
	if p.Chunk == nil {
		return false
	}
	for _, c := range p.Chunk.Columns() {
		if !wanted(c.Metric) {
			continue
		}
		if x := found[seriesOf{string(c.Labels.NonEmpty().AppendKey(nil)), c.Metric}]; x == nil || x.Time <= p.To {
			return false
		}
	}
	return true
}

func (l *Latest) take(p *piece.Piece, found map[seriesOf]*candidate, wanted func(string) bool) error {
	source := p.Source
	f, bytes, err := l.cfg.newest(p)
	if err != nil {
		return err
	}
	defer l.cfg.Memory.Give(bytes)
	var key []byte
	for i := range f.Groups {
		g := &f.Groups[i]
		key = g.Labels.AppendKey(key[:0])
		for j := range g.Columns {
			col := &g.Columns[j]
			if !wanted(col.Metric) {
				continue
			}
			s := stretchOf(g.Times, col, l.cfg.Range)
			if len(s.Times) == 0 {
				continue
			}
			of := seriesOf{string(key), col.Metric}
			at := s.last()
			if x := found[of]; x != nil && (x.Time > at || x.Time == at && x.source.Compare(source) >= 0) {
				continue
			}
			last := Last{Labels: g.Labels, Metric: col.Metric, Time: at, Value: s.Value(len(s.Times) - 1)}
			found[of] = &candidate{last, source}
		}
	}
	return nil
}
