package merge

import (
	"slices"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/query/read/rollups"
)

// RollupRow is some hours of a family of buckets of one series: a row of a table. It is shared: it must not be changed.
type RollupRow struct {
	Day   telemetry.Day
	Grid  rollup.Grid
	Hours rollup.Hours // hours to use
	*rollups.Document
	Row int // index of the row in the document's table
}

type labelledRow struct {
	labels telemetry.Labels
	RollupRow
}

// rollupRowBytes is about how much memory a RollupRow takes.
const rollupRowBytes = 96

// AddRollups implements rollups.Sink.
func (s *Series) AddRollups(l *rollups.Rollups) error {
	s.read = append(s.read, l)
	return nil
}

// fill adds the rows of rollups of a day that end within the range.
func (s *Series) fill(l *rollups.Rollups) error {
	for i := range l.Parts {
		p := &l.Parts[i]
		if err := s.cfg.Memory.Take(rollupRowBytes * int64(len(p.Series)*len(p.Documents))); err != nil {
			return err
		}
		for place := range p.Series {
			of := &p.Series[place]
			hours := p.Counts(of.Device)
			if hours == 0 || l.Raw[of.Device] || !s.wanted.has(of.Device) {
				continue
			}
			rows := s.rollups[of.Device]
			for _, d := range p.Documents {
				if row := d.Row(place); row >= 0 && rollup.Span(d.From, d.To)&hours != 0 && s.needs(l.Day, d) {
					rows = append(rows, labelledRow{of.Labels, RollupRow{l.Day, l.Grid, hours & rollup.Span(d.From, d.To), d, row}})
				}
			}
			s.rollups[of.Device] = rows
		}
	}
	return nil
}

// needs reports whether a document may have something that is not before the range.
func (s *Series) needs(day telemetry.Day, d *rollups.Document) bool {
	return rollup.Range(day, d.From, d.To).To >= s.cfg.Range.From
}

// join returns the curves of a device with their rollups, and with curves that have nothing else.
func (s *Series) join(curves []Curve, device string) []Curve {
	values := len(curves)
	for _, c := range s.rollups[device] {
		at := slices.IndexFunc(curves, func(of Curve) bool {
			return of.Metric == c.Metric && of.Labels.Compare(c.labels) == 0
		})
		if at < 0 {
			at = len(curves)
			curves = append(curves, Curve{Device: device, Labels: c.labels, Metric: c.Metric})
		}
		curves[at].Rollups = append(curves[at].Rollups, c.RollupRow)
	}
	if len(curves) > values {
		slices.SortFunc(curves, Curve.compare)
	}
	return curves
}
