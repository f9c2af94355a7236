package merge

import (
	"cmp"
	"maps"
	"slices"

	"binnacle/binning/chunk"
	"binnacle/internal/store"
	"binnacle/query/read/piece"
)

// unordered is the part of a piece.Sink that requests without order do not need.
type unordered struct{}

// Passed implements piece.Sink.
func (unordered) Passed(int64) error { return nil }

// collected is the pieces of a request without order, encoded, by device. It is a piece.Sink.
type collected struct {
	unordered
	devices map[string][]*piece.Piece
}

// Add implements piece.Sink.
func (c *collected) Add(p *piece.Piece) error {
	if c.devices == nil {
		c.devices = make(map[string][]*piece.Piece)
	}
	c.devices[p.Device] = append(c.devices[p.Device], p)
	return nil
}

// each calls visit with each device and its pieces, in order, and drops them. An error of visit ends it.
func (c *collected) each(visit func(device string, pieces []*piece.Piece) error) error {
	for _, device := range slices.Sorted(maps.Keys(c.devices)) {
		if err := visit(device, c.devices[device]); err != nil {
			return err
		}
		delete(c.devices, device)
	}
	return nil
}

// overlapping sorts the pieces of a device by time, and calls visit for each run of overlapping pieces, which may be a
// single one. An error of visit ends it.
func overlapping(pieces []*piece.Piece, visit func(some []*piece.Piece) error) error {
	slices.SortFunc(pieces, func(a, b *piece.Piece) int { return cmp.Compare(a.From, b.From) })
	for i := 0; i < len(pieces); {
		j, end := i+1, pieces[i].To
		for j < len(pieces) && pieces[j].From <= end {
			end = max(end, pieces[j].To)
			j++
		}
		if err := visit(pieces[i:j]); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// Presence collects the instants of readings. Of a chunk it decodes nothing else. It is owned by one goroutine.
type Presence struct {
	unordered
	cfg Config
	all []Present
}

// instantBytes is what an instant takes, with what a diagnosis of gaps makes of it.
const instantBytes = 96

// Present is one piece, without its values.
type Present struct {
	Device string
	Source store.Source
	Times  []int64       // instants of the rows, strictly ascending
	Header *chunk.Header // nil for what a head holds
}

// NewPresence collects until All is called.
func NewPresence(cfg Config) *Presence { return &Presence{cfg: cfg} }

// Add implements piece.Sink.
func (s *Presence) Add(p *piece.Piece) error {
	defer p.Release()
	out := Present{Device: p.Device, Source: p.Source}
	if p.Chunk == nil {
		out.Times = p.Frame.Times()
	} else {
		var err error
		if out.Times, err = p.Chunk.Times(); err != nil {
			return err
		}
		h := p.Chunk.Header
		out.Header = &h
	}
	s.all = append(s.all, out)
	return s.cfg.Memory.Take(int64(len(out.Times)) * instantBytes)
}

// All returns what was collected, the older source first.
func (s *Presence) All() []Present {
	slices.SortStableFunc(s.all, func(a, b Present) int { return a.Source.Compare(b.Source) })
	return s.all
}

// Attendance finds the steps of time in which each device has readings. It decodes instants only of chunks that lie in
// several steps. It is owned by one goroutine, and holds no piece.
type Attendance struct {
	unordered
	cfg     Config
	step    int64
	devices map[string][]bool
}

// NewAttendance makes one with steps [Range.From + k*step, Range.From + (k+1)*step).
func NewAttendance(cfg Config, step int64) *Attendance {
	return &Attendance{cfg: cfg, step: step, devices: map[string][]bool{}}
}

// Add implements piece.Sink.
func (s *Attendance) Add(p *piece.Piece) error {
	defer p.Release()
	in, err := s.Device(p.Device)
	if err != nil {
		return err
	}
	mark := func(at int64) {
		if s.cfg.Range.Contains(at) {
			in[(at-s.cfg.Range.From)/s.step] = true
		}
	}
	mark(p.From)
	mark(p.To)
	if s.cfg.Range.Contains(p.From) && (p.From-s.cfg.Range.From)/s.step == (p.To-s.cfg.Range.From)/s.step {
		return nil
	}
	times := p.Frame.Times
	if p.Chunk != nil {
		all, err := p.Chunk.Times()
		if err != nil {
			return err
		}
		times = func() []int64 { return all }
	}
	for _, at := range times() {
		mark(at)
	}
	return nil
}

// Device returns the steps of a device, and adds the device if it has none.
func (s *Attendance) Device(id string) ([]bool, error) {
	in := s.devices[id]
	if in == nil {
		steps := (s.cfg.Range.To - s.cfg.Range.From + s.step - 1) / s.step
		in = make([]bool, steps)
		s.devices[id] = in
		return in, s.cfg.Memory.Take(steps + int64(len(id)) + mapEntry)
	}
	return in, nil
}

// mapEntry is about what a device takes in the map.
const mapEntry = 100

// Devices returns all devices, each with its steps.
func (s *Attendance) Devices() map[string][]bool { return s.devices }
