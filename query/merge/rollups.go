package merge

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"binnacle/binning/rollup"
	"binnacle/internal/telemetry"
	"binnacle/query/read/rollups"
)

// RollupCurve is one series within the range: the hours that rollups cover, and the values of all others.
type RollupCurve struct {
	Device    string
	Labels    telemetry.Labels
	Metric    string
	Stretches []Stretch   // in the order of time, no instant in two of them
	Rollups   []RollupRow // in no order, nothing in two of them
}

// RollupRow is some hours of a family of buckets of one series: a row of a table. It is shared: it must not be changed.
type RollupRow struct {
	Day   telemetry.Day
	Grid  rollup.Grid
	Hours rollup.Hours // that count
	*rollups.Document
	Row int // of its table
}

// RollupSeries makes curves of the pieces and rollups of a request without order. It is owned by one goroutine.
type RollupSeries struct {
	collected
	cfg     Config
	wanted  map[string]bool // devices; nil: all
	read    []*rollups.Rollups
	rollups map[string][]labelledRow // of read, by device; filled in by Each
}

type labelledRow struct {
	labels telemetry.Labels
	RollupRow
}

// NewRollupSeries collects pieces, encoded, and rollups until Each is called. Devices are those asked for, nil for all.
func NewRollupSeries(cfg Config, devices []string) *RollupSeries {
	s := &RollupSeries{cfg: cfg, rollups: make(map[string][]labelledRow)}
	if devices != nil {
		s.wanted = make(map[string]bool, len(devices))
		for _, d := range devices {
			s.wanted[d] = true
		}
	}
	return s
}

// rollupRowBytes is about how much memory a RollupRow takes.
const rollupRowBytes = 96

// AddRollups implements rollups.Sink.
func (s *RollupSeries) AddRollups(l *rollups.Rollups) error {
	s.read = append(s.read, l)
	return nil
}

// fill adds the rows of rollups of a day that end within the range.
func (s *RollupSeries) fill(l *rollups.Rollups) error {
	for i := range l.Parts {
		p := &l.Parts[i]
		if err := s.cfg.Memory.Take(rollupRowBytes * int64(len(p.Series)*len(p.Documents))); err != nil {
			return err
		}
		for place := range p.Series {
			of := &p.Series[place]
			hours := p.Counts(of.Device)
			if hours == 0 || l.Raw[of.Device] || s.wanted != nil && !s.wanted[of.Device] {
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

// Begin leaves out what is before an instant. It is called before Each.
func (s *RollupSeries) Begin(at int64) { s.cfg.begin(at) }

// needs reports whether a document may have something that is not before the range.
func (s *RollupSeries) needs(day telemetry.Day, d *rollups.Document) bool {
	return rollup.Range(day, d.From, d.To).To >= s.cfg.Range.From
}

// Each calls yield with every series that has values or rollups, in the order of device, labels and metric. A curve is
// valid until yield returns; an error of yield ends it and is returned as it is. It is called once, after the read.
func (s *RollupSeries) Each(yield func(*RollupCurve) error) error {
	if s.cfg.Range.Empty() {
		return nil
	}
	for _, l := range s.read {
		if err := s.fill(l); err != nil {
			return err
		}
	}
	devices := slices.Collect(maps.Keys(s.rollups))
	for device := range s.devices {
		if s.rollups[device] == nil {
			devices = append(devices, device)
		}
	}
	slices.Sort(devices)
	var rollupCurves []RollupCurve
	for _, device := range devices {
		curves, bytes, err := s.cfg.curves(device, s.devices[device])
		if err != nil {
			return err
		}
		delete(s.devices, device)
		rollupCurves = rollupCurves[:0]
		for i := range curves {
			rollupCurves = append(rollupCurves, RollupCurve{Device: device, Labels: curves[i].Labels, Metric: curves[i].Metric,
				Stretches: curves[i].Stretches})
		}
		rollupCurves = s.join(rollupCurves, device)
		for i := range rollupCurves {
			if err := yield(&rollupCurves[i]); err != nil {
				return err
			}
		}
		s.cfg.Memory.Give(bytes)
	}
	return nil
}

// join gives the curves of a device their rollups, and adds curves that have nothing else.
func (s *RollupSeries) join(rollupCurves []RollupCurve, device string) []RollupCurve {
	values := len(rollupCurves)
	for _, c := range s.rollups[device] {
		at := slices.IndexFunc(rollupCurves, func(of RollupCurve) bool {
			return of.Metric == c.Metric && of.Labels.Compare(c.labels) == 0
		})
		if at < 0 {
			at = len(rollupCurves)
			rollupCurves = append(rollupCurves, RollupCurve{Device: device, Labels: c.labels, Metric: c.Metric})
		}
		rollupCurves[at].Rollups = append(rollupCurves[at].Rollups, c.RollupRow)
	}
	if len(rollupCurves) > values {
		slices.SortFunc(rollupCurves, func(a, b RollupCurve) int {
			return cmp.Or(a.Labels.Compare(b.Labels), strings.Compare(a.Metric, b.Metric))
		})
	}
	return rollupCurves
}
