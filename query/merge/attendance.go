package merge

import (
	"binnacle/query/read/piece"
)

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
