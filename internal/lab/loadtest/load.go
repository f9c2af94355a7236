package loadtest

import (
	"sort"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/lab/fleet"
	"binnacle/internal/telemetry"
)

// metrics is how many values a reading of a truck has.
const metrics = 10

// load is the readings of the fleet, in the order in which they are published. It is the same for every layout.
type load struct {
	streams []*truckStream
	next    int // number of the next reading

	// turn is the stream with the next reading; nil: not found yet.
	turn *truckStream
	at   time.Time
}

func newLoad(cfg Config, s Scenario) *load { return &load{streams: s.streams(cfg)} }

// stream is the readings of some trucks: they report in turn, evenly spread over the interval.
type truckStream struct {
	from     time.Time
	interval time.Duration
	// trucks lists the trucks in the order of their turns.
	trucks []*fleet.Truck
	// tenants lists the tenant of each truck.
	tenants []string
	next    int // number of the next reading
	// warps lists the warps in the order of time; empty: time passes as it is measured.
	warps []warp
	late  bool // a reading has the time of its turn, not that at which it is published
}

// warp is a time from which on publishing goes at another pace: the turn at Turn since the stream began is published at
// Due, and those after it at Fast turns where one would be, or one where Slow would be.
type warp struct {
	turn, due  time.Duration // since the stream began
	fast, slow int64
}

// newStream returns the stream of the trucks of turns; tenant and device of a turn are the scenario's.
func newStream(cfg Config, s Scenario, turns []int) *truckStream {
	out := &truckStream{from: cfg.starts(), interval: cfg.Interval}
	known := map[int]*fleet.Truck{}
	for _, turn := range turns {
		i := s.deviceOf(turn)
		if known[i] == nil {
			known[i] = fleet.NewTruck(cfg.Seed, i, out.from)
		}
		out.tenants = append(out.tenants, s.tenantOf(i))
		out.trucks = append(out.trucks, known[i])
	}
	return out
}

func (s *truckStream) turn(n int) time.Duration {
	of := len(s.trucks)
	return time.Duration(n/of)*s.interval + time.Duration(n%of)*s.interval/time.Duration(of)
}

func (s *truckStream) due(n int) time.Time {
	turn := s.turn(n)
	for i := len(s.warps) - 1; i >= 0; i-- {
		if w := s.warps[i]; turn >= w.turn {
			past := int64(turn - w.turn)
			return s.from.Add(w.due + time.Duration(past/w.fast*w.slow+past%w.fast*w.slow/w.fast))
		}
	}
	return s.from.Add(turn)
}

// before returns how many readings are published before an instant.
func (s *truckStream) before(at time.Time) int {
	return sort.Search(1<<32, func(n int) bool { return !s.due(n).Before(at) })
}

// current returns the stream that has the next reading, and when that is published.
func (l *load) current() (next *truckStream, due time.Time) {
	if l.turn != nil {
		return l.turn, l.at
	}
	for _, s := range l.streams {
		if at := s.due(s.next); next == nil || at.Before(due) {
			next, due = s, at
		}
	}
	l.turn, l.at = next, due
	return next, due
}

// due returns when the next reading is published.
func (l *load) due() time.Time {
	_, due := l.current()
	return due
}

// between returns how many readings are due from one instant until before another.
func (l *load) between(from, to time.Time) (n int) {
	for _, s := range l.streams {
		n += s.before(to) - s.before(from)
	}
	return n
}

// messageBytes is a little more than a message of a truck has.
const messageBytes = 320

// message is one reading as it is published.
type message struct {
	tenant, device string
	at             time.Time
	// due is when the reading is published.
	due  time.Time
	json []byte
}

func (l *load) take() message {
	r, due := l.measure()
	return message{r.Tenant, r.Device, time.UnixMilli(r.Time).UTC(), due,
		decode.AppendJSON(make([]byte, 0, messageBytes), r)}
}

// skip leaves out the next reading.
func (l *load) skip() {
	s, truck, at, _ := l.step()
	s.trucks[truck].Skip(at)
}

// jump leaves out the readings that are published before an instant. Trucks have not moved until then.
func (l *load) jump(at time.Time) {
	l.turn = nil
	for _, s := range l.streams {
		n := max(s.next, s.before(at))
		l.next += n - s.next
		s.next = n
	}
}

func (l *load) measure() (telemetry.Reading, time.Time) {
	s, i, at, due := l.step()
	return telemetry.Reading{Tenant: s.tenants[i], Device: s.trucks[i].ID(), Time: at.UnixMilli(),
		Fields: s.trucks[i].Next(at)}, due
}

// step passes the next reading, and returns its truck, its time and when it is published.
func (l *load) step() (s *truckStream, truck int, at, due time.Time) {
	s, due = l.current()
	truck, at = s.next%len(s.trucks), due
	if s.late {
		at = s.from.Add(s.turn(s.next))
	}
	s.next++
	l.next++
	l.turn = nil
	return s, truck, at, due
}
