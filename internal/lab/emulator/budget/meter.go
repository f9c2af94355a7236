package budget

import (
	"sync"
	"time"
)

// HistorySeconds is how far back a meter remembers single seconds.
const HistorySeconds = 600

// Second is what happened in one second.
type Second struct {
	RUs       float32
	Throttled uint32
}

// Totals is what was done since the meter was made, or reset.
type Totals struct {
	RUs        float64 `json:"chargedRUs"`    // modelled
	LastSecond float64 `json:"lastSecondRUs"` // charged in the last whole second
	LastMinute float64 `json:"lastMinuteRUs"` // charged in the last 60 whole seconds
	Peak       float64 `json:"peakRUs"`       // the most charged in one second
	Requests   int64   `json:"requests"`      // admitted
	Throttled  int64   `json:"throttled"`     // answered 429
}

// Meter counts what is charged to a budget, second by second. It is safe for concurrent use.
type Meter struct {
	mu        sync.Mutex
	rus       float64
	requests  int64
	throttled int64
	// second is the second that current and refused count for.
	second  int64
	current float64
	refused uint32
	last    float64
	peak    float64
	// history holds one entry a second, at the second modulo the history's length; nil before the first charge.
	history *[HistorySeconds]Second
}

// Add counts an admitted request.
func (m *Meter) Add(now time.Time, charge float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	m.rus += charge
	m.current += charge
	m.peak = max(m.peak, m.current)
	m.requests++
}

// Throttle counts a request that was answered 429.
func (m *Meter) Throttle(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	m.throttled++
	m.refused++
}

func (m *Meter) advance(second int64) {
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
func (m *Meter) remember(next int64) {
	if m.current == 0 && m.refused == 0 && m.history == nil {
		return
	}
	if m.history == nil {
		m.history = new([HistorySeconds]Second)
	}
	m.history[m.second%HistorySeconds] = Second{float32(m.current), m.refused}
	for s := max(m.second+1, next-HistorySeconds); s < next; s++ {
		m.history[s%HistorySeconds] = Second{}
	}
}

// Totals returns what was done until now.
func (m *Meter) Totals(now time.Time) Totals {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	t := Totals{RUs: m.rus, Requests: m.requests, Throttled: m.throttled, LastSecond: m.last, Peak: m.peak}
	for _, x := range m.tail(60) {
		t.LastMinute += float64(x.RUs)
	}
	return t
}

// Last returns the last n whole seconds, the oldest first.
func (m *Meter) Last(now time.Time, n int) []Second {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now.Unix())
	return m.tail(n)
}

func (m *Meter) tail(n int) []Second {
	out := make([]Second, n)
	if m.history == nil {
		return out
	}
	for i := range out {
		if s := m.second - int64(n-i); s >= 0 {
			out[i] = m.history[s%HistorySeconds]
		}
	}
	return out
}

// Reset forgets all.
func (m *Meter) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rus, m.requests, m.throttled, m.current, m.refused = 0, 0, 0, 0, 0
	m.last, m.peak, m.history = 0, 0, nil
}
