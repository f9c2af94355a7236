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
	RUs        float64 // charged, modelled
	LastSecond float64 // charged in the last whole second of the Server's clock
	Peak       float64 // the most charged in one second
	Requests   int64   // admitted
	Throttled  int64   // answered 429
}

// meter counts what a physical partition does.
type meter struct {
	mu        sync.Mutex
	rus       float64
	requests  int64
	throttled int64
	second    int64 // that current counts for
	current   float64
	last      float64
	peak      float64
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

func (m *meter) throttle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.throttled++
}

func (m *meter) advance(second int64) {
	if second <= m.second {
		return
	}
	m.last = 0
	if second == m.second+1 {
		m.last = m.current
	}
	m.second, m.current = second, 0
}

func (m *meter) read(now time.Time, s *PartitionStats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	s.RUs, s.Requests, s.Throttled, s.LastSecond, s.Peak = m.rus, m.requests, m.throttled, m.last, m.peak
}

func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rus, m.requests, m.throttled, m.current, m.last, m.peak = 0, 0, 0, 0, 0, 0
}
