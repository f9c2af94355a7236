package merge

import (
	"maps"
	"slices"

	"binnacle/binning/lane"
	"binnacle/internal/telemetry"
	"binnacle/query/read"
)

// Strip is one series within the range: of some days and hours what lanes show, of all others its values.
type Strip struct {
	Device    string
	Labels    telemetry.Labels
	Metric    string
	Stretches []Stretch // in the order of time, no instant in two of them
	Cells     []Cells   // in no order, nothing in two of them
}

// Cells is some hours of a family of buckets of one series: those of a row of a table, which may have others too. It
// shares memory with others: it must not be changed.
type Cells struct {
	Day   telemetry.Day
	Grid  lane.Grid
	Hours lane.Hours // that count
	*read.LaneDocument
	Row int // of its table
}

// Strips makes strips of the pieces and lanes of a request without order for one metric. It is owned by one goroutine.
type Strips struct {
	cfg    Config
	wanted map[string]bool // devices; nil: all
	pieces map[string][]*read.Piece
	cells  map[string][]seriesCells
}

type seriesCells struct {
	labels telemetry.Labels
	Cells
}

// NewStrips collects pieces, encoded, and lanes until Each is called. Devices are those asked for, nil for all.
func NewStrips(cfg Config, devices []string) *Strips {
	s := &Strips{cfg: cfg, pieces: make(map[string][]*read.Piece), cells: make(map[string][]seriesCells)}
	if devices != nil {
		s.wanted = make(map[string]bool, len(devices))
		for _, d := range devices {
			s.wanted[d] = true
		}
	}
	return s
}

// Add implements read.Sink.
func (s *Strips) Add(p *read.Piece) error {
	s.pieces[p.Device] = append(s.pieces[p.Device], p)
	return nil
}

// Passed implements read.Sink; it has nothing to do.
func (s *Strips) Passed(int64) error { return nil }

// cellsBytes is about how much memory a Cells takes.
const cellsBytes = 96

// Show implements read.LaneSink.
func (s *Strips) Show(l *read.Lanes) error {
	for i := range l.Parts {
		p := &l.Parts[i]
		if err := s.cfg.Memory.Take(cellsBytes * int64(len(p.Roster)*len(p.Documents))); err != nil {
			return err
		}
		for place := range p.Roster {
			of := &p.Roster[place]
			hours := p.Counts(of.Device)
			if hours == 0 || l.Raw[of.Device] || s.wanted != nil && !s.wanted[of.Device] {
				continue
			}
			cells := s.cells[of.Device]
			for _, d := range p.Documents {
				if row := d.Row(place); row >= 0 && lane.Span(d.From, d.To)&hours != 0 {
					cells = append(cells, seriesCells{of.Labels, Cells{l.Day, l.Grid, hours & lane.Span(d.From, d.To), d, row}})
				}
			}
			s.cells[of.Device] = cells
		}
	}
	return nil
}

// Each calls yield with every series that has values or cells, in the order of device and labels. A strip is valid
// until yield returns; an error of yield ends it and is returned as it is. It is called once, when all is there.
func (s *Strips) Each(yield func(*Strip) error) error {
	devices := slices.Collect(maps.Keys(s.cells))
	for device := range s.pieces {
		if s.cells[device] == nil {
			devices = append(devices, device)
		}
	}
	slices.Sort(devices)
	var strips []Strip
	for _, device := range devices {
		curves, bytes, err := s.cfg.curves(device, s.pieces[device])
		if err != nil {
			return err
		}
		delete(s.pieces, device)
		strips = strips[:0]
		for i := range curves {
			strips = append(strips, Strip{Device: device, Labels: curves[i].Labels, Metric: curves[i].Metric,
				Stretches: curves[i].Stretches})
		}
		strips = s.join(strips, device)
		for i := range strips {
			if err := yield(&strips[i]); err != nil {
				return err
			}
		}
		s.cfg.Memory.Give(bytes)
	}
	return nil
}

// join gives the strips of a device their cells, and those that have nothing else.
func (s *Strips) join(strips []Strip, device string) []Strip {
	values := len(strips)
	for _, c := range s.cells[device] {
		at := slices.IndexFunc(strips, func(of Strip) bool { return of.Labels.Compare(c.labels) == 0 })
		if at < 0 {
			at = len(strips)
			strips = append(strips, Strip{Device: device, Labels: c.labels, Metric: s.cfg.Metrics[0]})
		}
		strips[at].Cells = append(strips[at].Cells, c.Cells)
	}
	if len(strips) > values {
		slices.SortFunc(strips, func(a, b Strip) int { return a.Labels.Compare(b.Labels) })
	}
	return strips
}
