package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"binnacle/internal/store"
	"binnacle/internal/telemetry"
	"binnacle/query/read/piece"
)

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
	wanted := newNameSet(l.cfg.Metrics)
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
func (l *Latest) olderThan(p *piece.Piece, found map[seriesOf]*candidate, wanted nameSet) bool {
	if p.Chunk == nil {
		return false
	}
	for _, c := range p.Chunk.Columns() {
		if !wanted.has(c.Metric) {
			continue
		}
		if x := found[seriesOf{string(c.Labels.NonEmpty().AppendKey(nil)), c.Metric}]; x == nil || x.Time <= p.To {
			return false
		}
	}
	return true
}

func (l *Latest) take(p *piece.Piece, found map[seriesOf]*candidate, wanted nameSet) error {
	source := p.Source
	f, bytes, err := l.cfg.decode(p)
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
			if !wanted.has(col.Metric) {
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
