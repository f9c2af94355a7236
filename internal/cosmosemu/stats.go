package cosmosemu

import (
	"sync"
	"time"
)

// PartitionStats is what one physical partition holds and has done since the Server was opened, or
// since ResetStats.
type PartitionStats struct {
	ID         string
	Min, Max   string  // effective partition keys, half-open
	Items      int64   // stored, expired ones that are not removed yet included
	Bytes      int64   // of their minified JSON without system properties
	Budget     float64 // RU/s; shared with other containers in a database with throughput of its own
	RUs        float64 // charged, modelled
	LastSecond float64 // charged in the last whole second of the Server's clock
	LastMinute float64 // charged in the last 60 whole seconds
	Peak       float64 // the most charged in one second
	Requests   int64   // admitted
	Throttled  int64   // answered 429
}

// historySeconds is how far back a meter remembers single seconds.
const historySeconds = 600

// moment is what happened in one second.
type moment struct {
	rus       float32
	throttled uint32
}

// meter counts what a physical partition does.
type meter struct {
	mu        sync.Mutex
	rus       float64
	requests  int64
	throttled int64
	second    int64 // that current and refused count for
	current   float64
	refused   uint32
	last      float64
	peak      float64
	history   *[historySeconds]moment // by second, modulo its length; nil before the first charge
}

func (m *meter) add(now time.Time, charge float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	m.rus += charge
	m.current += charge
	m.peak = max(m.peak, m.current)
	m.requests++
}

func (m *meter) throttle(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	m.throttled++
	m.refused++
}

func (m *meter) advance(second int64) {
	if second <= m.second {
		return
	}
	m.last = 0
	if second == m.second+1 {
		m.last = m.current
	}
	m.remember(second)
	m.second, m.current, m.refused = second, 0, 0
}

// remember files the second that ends, and nothing for those between it and the next.
func (m *meter) remember(next int64) {
	if m.current == 0 && m.refused == 0 && m.history == nil {
		return
	}
	if m.history == nil {
		m.history = new([historySeconds]moment)
	}
	m.history[m.second%historySeconds] = moment{float32(m.current), m.refused}
	for s := max(m.second+1, next-historySeconds); s < next; s++ {
		m.history[s%historySeconds] = moment{}
	}
}

func (m *meter) read(now time.Time, s *PartitionStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	s.RUs, s.Requests, s.Throttled, s.LastSecond, s.Peak = m.rus, m.requests, m.throttled, m.last, m.peak
	s.LastMinute = 0
	for _, x := range m.tail(60) {
		s.LastMinute += float64(x.rus)
	}
}

// past gives the last n whole seconds, the oldest first.
func (m *meter) past(now time.Time, n int) []moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	return m.tail(n)
}

func (m *meter) tail(n int) []moment {
	out := make([]moment, n)
	if m.history == nil {
		return out
	}
	for i := range out {
		if s := m.second - int64(n-i); s >= 0 {
			out[i] = m.history[s%historySeconds]
		}
	}
	return out
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rus, m.requests, m.throttled, m.current, m.refused = 0, 0, 0, 0, 0
	m.last, m.peak, m.history = 0, 0, nil
}
