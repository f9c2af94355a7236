package loadtest

import (
	"sort"
	"time"

	"binnacle/ingest/decode"
	"binnacle/internal/fleet"
	"binnacle/internal/telemetry"
)

// metrics is how many values a reading of a truck has, at most.
const metrics = 10

// load is the readings of the fleet, in the order of time: trucks report in turn, evenly spread over the
// interval. It is the same for every layout.
type load struct {
	interval time.Duration
	metrics  int            // that are reported, the first by name
	trucks   []*fleet.Truck // by turn
	tenants  []string       // of each truck
	next     int            // number of the next reading
}

func newLoad(cfg Config, s Scenario, metrics int) *load {
	l := &load{interval: cfg.Interval, metrics: metrics}
	for turn := range cfg.Devices {
		i := s.deviceOf(turn)
		l.tenants = append(l.tenants, s.tenantOf(i))
		if i < turn {
			l.trucks = append(l.trucks, l.trucks[i])
			continue
		}
		l.trucks = append(l.trucks, fleet.NewTruck(cfg.Seed, i, midnight))
	}
	return l
}

// due returns when the next reading is reported.
func (l *load) due() time.Time {
	n := len(l.trucks)
	turn := time.Duration(l.next%n) * l.interval / time.Duration(n)
	return midnight.Add(time.Duration(l.next/n)*l.interval + turn)
}

// between returns how many readings are due from one instant until before another.
func (l *load) between(from, to time.Time) int { return l.before(to) - l.before(from) }

func (l *load) before(at time.Time) int {
	n, since := len(l.trucks), at.Sub(midnight)
	rest := since % l.interval
	turns := sort.Search(n, func(i int) bool { return time.Duration(i)*l.interval/time.Duration(n) >= rest })
	return int(since/l.interval)*n + turns
}

// messageBytes is a little more than a message of a truck has.
const messageBytes = 320

// message is one reading as it is published.
type message struct {
	tenant, device string
	at             time.Time
	json           []byte
}

// take returns the next reading.
func (l *load) take() message {
	r, at := l.measure()
	return message{r.Tenant, r.Device, at, decode.AppendJSON(make([]byte, 0, messageBytes), r)}
}

// skip leaves out the next reading.
func (l *load) skip() { l.measure() }

func (l *load) measure() (telemetry.Reading, time.Time) {
	i, at := l.next%len(l.trucks), l.due()
	l.next++
	truck := l.trucks[i]
	return telemetry.Reading{Tenant: l.tenants[i], Device: truck.ID(), Time: at.UnixMilli(),
		Fields: truck.Next(at)[:l.metrics]}, at
}
